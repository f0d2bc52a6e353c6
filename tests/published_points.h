// Published points: those of a paper, and records of experiment "e" that stand beside them.
// JSON is written with ' for ". Before it is included, _GNU_SOURCE is defined, for asprintf.
#pragma once
#include "tests/quoted.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define SECO(chunk) "'seco', 'chunk': " #chunk ", 'head_chunk': 256, 'keep': 'lean'"
#define SPACO(chunk, budget)                                                                                       \
    "'spaco', 'chunk': " #chunk ", 'budget': " #budget ", 'head_chunk': 256, 'keep': 'lean'"

static const char points[] = "# A paper, Figure 1\n"
                             "# how it was read\n"
                             "series,method,model,chunk,budget,context,peak_mib\n"
                             "Old,seco,small,64,,1024,100\n"
                             "Old,seco,small,64,,2048,200.0\n"
                             "Old,seco,small,128,,2048,300\n"
                             "Drawn,spaco,small,64,8,256,50\n"
                             "Other,,small,,,1024,1\n";

// A record of experiment "e": the method with its options, the dtype of dKV, the context, the peak in MiB (0: oom).
static inline char *record(int id, const char *method, const char *kv, int context, int peak_mib)
{
    char *text, *line, peak[200] = "'peak_bytes': null, 'lower_bound_bytes': null";
    long long bytes = (long long)peak_mib << 20;
    if (peak_mib)
        snprintf(peak, sizeof peak, "'peak_bytes': %lld, 'lower_bound_bytes': %lld", bytes, bytes / 2);
    assert_true(
        asprintf(&text,
                 "{'schema': 2, 'id': '%032x', 'experiment': 'e', 'status': '%s', 'reason': '', 'trial': {'model': "
                 "'small', 'dtype': 'bf16', 'device': 'plan-cuda', 'batch': 1, 'context': %d, 'seed': 1, "
                 "'kv_gradient_dtype': '%s', 'lora': null, 'method': {'name': %s}, 'limits': {'memory': 1000}}, "
                 "%s, 'median_ms': null, 'estimate_ms': %d, 'profile': 'card', 'samples_ms': [], 'provenance': {}}",
                 id, peak_mib ? "ok" : "oom", context, kv, method, peak, context) > 0);
    line = quoted(text);
    free(text);
    return line;
}

static inline char *all_records(void)
{
    char *lines[] = {record(1, SECO(64), "f32", 1024, 50),   record(2, SECO(64), "f32", 2048, 100),
                     record(3, SECO(64), "f32", 4096, 0),    record(4, SECO(64), "bf16", 2048, 250),
                     record(5, SECO(128), "f32", 2048, 0),   record(6, SPACO(64, 4), "f32", 256, 40),
                     record(7, SPACO(64, 2), "f32", 256, 30)};
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        fprintf(stream, "%s\n", lines[i]);
        free(lines[i]);
    }
    assert_int_equal(fclose(stream), 0);
    return text;
}
