// Ranks' spec: a small model's trials over several ranks, run by the program. Includers define _GNU_SOURCE first.
#pragma once
#include "tests/program.h"
#include "tests/quoted.h"
#include "tests/records_of.h"
#include <jansson.h>
#include <stdbool.h>
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MODEL                                                                                                      \
    "'model': {'layers': 6, 'width': 24, 'heads': 4, 'kv_heads': 2, 'ffn': 40, 'vocab': 31}, 'context': 40"

// model: the keys "model" and "context".
static inline void write_spec_of(const struct scratch *scratch, const char *model, const char *rest)
{
    char *text;
    assert_true(asprintf(&text, "{'experiment': 't', %s, %s}", model, rest) > 0);
    char *json = quoted(text);
    scratch_file(scratch, "spec.json", json, strlen(json));
    free(json);
    free(text);
}

static inline void write_spec(const struct scratch *scratch, const char *rest)
{
    write_spec_of(scratch, MODEL, rest);
}

static inline const char *text_at(const json_t *record, const char *key)
{
    const char *text = json_string_value(json_object_get(record, key));
    return text ? text : "";
}

// Whether the program has its plug-in for ranks; if not, says what it needs.
static inline bool has_mpi(void)
{
    char plugin[4096];
    const char *longbp = program();
    snprintf(plugin, sizeof plugin, "%.4000s-mpi.so", longbp);
    free((char *)longbp);
    bool has = access(plugin, F_OK) == 0;
    if (!has)
        printf("ranks: left out, there is no %s: it needs openmpi-bin and libopenmpi-dev\n", plugin);
    return has;
}
