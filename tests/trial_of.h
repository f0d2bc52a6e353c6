// A trial from its JSON, which is written with ' for ". For tests of one with cmocka.
#pragma once
#include "harness/spec/trial.h"
#include "tests/quoted.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array)  (sizeof(array) / sizeof *(array))
#define MINIMAL       "{'model': 'tiny', 'context': 64, 'method': 'full'}"
#define WITH(more)    "{'model': 'tiny', 'context': 64, 'method': 'full',\n" more "}"
#define METHOD(entry) "{'model': 'tiny', 'context': 64, 'method':\n" entry "}"
#define MODEL(model)  "{'model':\n" model ", 'context': 64, 'method': 'full'}"

static inline struct trial trial_of(const char *json)
{
    struct trial trial;
    struct status status = {0};
    char *text = quoted(json);
    if (!trial_decode(&trial, text, "c", &status))
        fail_msg("%s\n%s", status.message, text);
    assert_int_equal(status.code, STATUS_OK);
    free(text);
    return trial;
}

static inline void expect_id(const char *json, const char *id)
{
    struct trial trial = trial_of(json);
    if (strcmp(trial.id, id))
        fail_msg("another id: %s\n%s", json, trial.canonical);
    trial_free(&trial);
}
