// Fuzz target: any bytes as links between ranks are refused with a reason, or are levels that join more and more
// ranks, and whose text is read as the same again.
#define _GNU_SOURCE // memfd_create
#include "harness/profile/links.h"
#include "tests/fuzzed_file.h"
#include <math.h>
#include <string.h>

static bool load(struct links *links, const void *bytes, size_t count)
{
    struct status status = {0};
    bool ok = links_load(links, fuzzed_file(bytes, count).text, &status);
    fuzzed_check(ok, &status);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct links links, again;
    if (!load(&links, bytes, count)) {
        return 0;
    }
    CHECK(links.count >= 1 && links.count <= LINK_LEVELS);
    for (size_t i = 0; i < links.count; i++) {
        const struct link_level *level = &links.levels[i];
        CHECK(i + 1 == links.count || level->ranks > (i ? links.levels[i - 1].ranks : 1));
        CHECK(level->bytes_per_s.value > 0 && isfinite(level->bytes_per_s.value) && level->latency_s.value >= 0);
    }
    json_t *file = json_pack("{s:s, s:o}", "name", links.name, "links", links_json(&links));
    char *text = json_dumps(file, JSON_REAL_PRECISION(17));
    CHECK(text && load(&again, text, strlen(text)) && again.count == links.count);
    for (size_t i = 0; i < links.count; i++) {
        CHECK(again.levels[i].ranks == links.levels[i].ranks);
        CHECK(again.levels[i].bytes_per_s.value == links.levels[i].bytes_per_s.value);
    }
    json_decref(file);
    free(text);
    return 0;
}
