// A spec from its JSON, its trials, and what one that is bad says. JSON and messages are written with ' for ".
#pragma once
#include "harness/spec/spec.h"
#include "tests/quoted.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// axes: of --axis, with ' for ", ending in NULL; NULL: none.
static inline bool parse(struct spec *spec, const char *json, const char *const *axes, const char *device,
                         struct status *status)
{
    char *quoted_axes[4];
    struct spec_changes changes = {.axes = (const char *const *)quoted_axes, .device = device};
    for (; axes && axes[changes.axis_count]; changes.axis_count++)
        quoted_axes[changes.axis_count] = quoted(axes[changes.axis_count]);
    char *text = quoted(json);
    bool ok = spec_parse(spec, "s.json", text, strlen(text), &changes, status);
    free(text);
    for (size_t i = 0; i < changes.axis_count; i++)
        free(quoted_axes[i]);
    return ok;
}

static inline struct spec spec_of(const char *json, const char *const *axes, const char *device)
{
    struct spec spec;
    struct status status = {0};
    if (!parse(&spec, json, axes, device, &status))
        fail_msg("%s\n%s", status.message, json);
    return spec;
}

static inline void expect_bad(const char *json, const char *const *axes, const char *device, const char *message)
{
    struct spec spec;
    struct status status = {0};
    char *expected = quoted(message);
    if (parse(&spec, json, axes, device, &status))
        fail_msg("accepted: %s", json);
    if (status.code == STATUS_OK || !strstr(status.message, expected))
        fail_msg("expected %s\n   found %s\n   in %s", expected, status.message, json);
    spec_free(&spec);
    free(expected);
}

static inline struct trial trial_of(const struct spec *spec, size_t index)
{
    struct trial trial;
    struct status status = {0};
    if (!spec_trial(spec, index, &trial, &status))
        fail_msg("%s", status.message);
    assert_string_equal(trial.id, spec->trials[index].id);
    return trial;
}

// "full 512, seco/128 512, ...": the method, its chunk if it has one, and the context of every trial.
static inline void expect_trials(const struct spec *spec, const char *expected)
{
    char text[4096] = "";
    size_t used = 0;
    for (size_t i = 0; i < spec->trial_count; i++) {
        struct trial trial = trial_of(spec, i);
        size_t chunk = options_count(&trial.method->options, trial.options, "chunk", 0);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", trial.method->name);
        if (chunk)
            used += (size_t)snprintf(text + used, sizeof text - used, "/%zu", chunk);
        used += (size_t)snprintf(text + used, sizeof text - used, " %zu", trial.context);
        trial_free(&trial);
    }
    assert_string_equal(text, expected);
}

#define SWEEP                                                                                                      \
    "{'experiment': 'sweep', 'question': '?', 'model': 'tiny',\n"                                                  \
    " 'axes': {'context': [512, 256],\n"                                                                           \
    "  'method': ['full', {'name': 'seco', 'chunk': [64, 128]},\n"                                                 \
    "   {'name': 'spaco', 'chunk': 64, 'budget': [1, 2], 'sampler': ['uniform', 'bernoulli']}]}}"
