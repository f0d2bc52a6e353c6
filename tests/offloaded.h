// Offloaded tensors of schedules, setting by setting, for tests to loop over.
#pragma once
#include "tests/fixture.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

// Offloaded tensors by method and option; `with`: another option.
struct setting {
    const char *method, *offload, *with;
};
static const struct setting settings[] = {
    {"checkpoint", "inputs", ""}, {"streambp", "inputs", ""}, {"streambp", "inputs,input_gradients", ""},
    {"seco", "kv", ""},           {"spaco", "kv", ""},        {"checkpoint", "inputs", "attention=kept"},
    {"deferred", "kv", ""}};

static inline void *options_with(const struct setting *setting, bool offloads, const char *text)
{
    return fixture_options(method_find(setting->method), "head_chunk=7 offload=%s %s %s",
                           offloads ? setting->offload : "none", setting->with, text);
}

static inline void options_done(const struct setting *setting, void *options)
{
    options_free(&method_find(setting->method)->options, options);
}
