// Fuzz target: any bytes as a device profile are refused with a reason, or give rates that are positive and a text
// that is read as the same profile again.
#define _GNU_SOURCE // memfd_create
#include "harness/profile/profile.h"
#include "tests/fuzzed_file.h"
#include <math.h>
#include <string.h>

static bool load(struct profile *profile, const void *bytes, size_t count)
{
    struct status status = {0};
    bool ok = profile_load(profile, fuzzed_file(bytes, count).text, &status);
    fuzzed_check(ok, &status);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct profile profile, again;
    if (!load(&profile, bytes, count))
        return 0;
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        struct roofline roofline = {0};
        struct status status = {0};
        if (profile_roofline(&profile, (enum dtype)dtype, &roofline, &status))
            CHECK(roofline.flops_per_s > 0 && isfinite(roofline.flops_per_s) && roofline.bytes_per_s > 0);
    }
    char *text = profile_text(&profile);
    CHECK(load(&again, text, strlen(text)) && strcmp(again.name, profile.name) == 0);
    CHECK(again.memory_bytes.value > 0 && again.interconnect.count == profile.interconnect.count);
    free(text);
    return 0;
}
