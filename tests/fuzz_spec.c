// Fuzz target: any bytes as a spec, followed after each zero byte by an --axis, are refused with a reason or give
// trials whose canonical text decodes to the same trial.
#include "harness/spec/spec.h"
#include <stdint.h>
#include <string.h>

#define AXES_MAX       8
#define TRIALS_CHECKED 8 // of a product the first will do

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check_trial(const struct spec *spec, size_t index)
{
    struct trial trial, again;
    struct status status = {0};
    CHECK(spec_trial(spec, index, &trial, &status) && !strcmp(trial.id, spec->trials[index].id));
    CHECK(trial_decode(&again, trial.canonical, "canonical", &status));
    CHECK(!strcmp(again.canonical, trial.canonical) && !strcmp(again.id, trial.id));
    CHECK(again.context == trial.context && again.method == trial.method);
    trial_free(&again);
    trial_free(&trial);
}

static void check_spec(const char *text, size_t bytes, const struct spec_changes *changes)
{
    struct spec spec;
    struct status status = {0};
    bool ok = spec_parse(&spec, "fuzz", text, bytes, changes, &status);
    CHECK(ok == (status.code == STATUS_OK) && ok == (status.message[0] == '\0'));
    CHECK(!ok || (spec.trial_count > 0 && spec.experiment));
    for (size_t i = 0; ok && i < spec.trial_count && i < TRIALS_CHECKED; i++)
        check_trial(&spec, i);
    spec_free(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char *text = malloc(count + 1);
    CHECK(text);
    if (count)
        memcpy(text, bytes, count);
    text[count] = '\0';
    const char *axes[AXES_MAX];
    struct spec_changes changes = {.axes = axes};
    size_t spec_bytes = strlen(text);
    for (size_t at = spec_bytes + 1; at < count && changes.axis_count < AXES_MAX; at += strlen(text + at) + 1)
        axes[changes.axis_count++] = text + at;
    check_spec(text, spec_bytes, &changes);
    check_spec(text, count, NULL); // zero bytes and all
    free(text);
    return 0;
}
