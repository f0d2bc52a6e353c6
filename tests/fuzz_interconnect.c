// Fuzz target: any bytes as links between ranks are refused with a reason, or are levels that join more and more
// ranks, and whose text is read as the same again.
#define _GNU_SOURCE // memfd_create
#include "harness/profile/interconnect.h"
#include "tests/fuzzed_file.h"
#include <math.h>
#include <string.h>

static bool load(struct interconnect *interconnect, const void *bytes, size_t count)
{
    struct status status = {0};
    bool ok = interconnect_load(interconnect, fuzzed_file(bytes, count).text, &status);
    fuzzed_check(ok, &status);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct interconnect interconnect, again;
    if (!load(&interconnect, bytes, count))
        return 0;
    CHECK(interconnect.count >= 1 && interconnect.count <= LINK_LEVELS);
    for (size_t i = 0; i < interconnect.count; i++) {
        const struct link_level *level = &interconnect.levels[i];
        CHECK(i + 1 == interconnect.count || level->ranks > (i ? interconnect.levels[i - 1].ranks : 1));
        CHECK(level->bytes_per_s.value > 0 && isfinite(level->bytes_per_s.value) && level->latency_s.value >= 0);
    }
    json_t *file =
        json_pack("{s:s, s:o}", "name", interconnect.name, "interconnect", interconnect_json(&interconnect));
    char *text = json_dumps(file, JSON_REAL_PRECISION(17));
    CHECK(text && load(&again, text, strlen(text)) && again.count == interconnect.count);
    for (size_t i = 0; i < interconnect.count; i++) {
        CHECK(again.levels[i].ranks == interconnect.levels[i].ranks);
        CHECK(again.levels[i].bytes_per_s.value == interconnect.levels[i].bytes_per_s.value);
    }
    json_decref(file);
    free(text);
    return 0;
}
