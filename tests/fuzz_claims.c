// Fuzz target: any bytes as claims, of which no records are there, are refused with a reason, or each has its texts
// and is decided by nothing.
#define _GNU_SOURCE // memfd_create
#include "harness/papers/claims.h"
#include "tests/fuzzed_file.h"
#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const struct claim_files none = {0};
    struct claims claims;
    struct status status = {0};
    bool ok = claims_open(&claims, fuzzed_file(bytes, count).text, &none, &status);
    fuzzed_check(ok, &status);
    for (size_t i = 0; ok && i < claims.count; i++) {
        const struct claim *claim = &claims.items[i];
        CHECK(*claim->id && *claim->paper && *claim->text && *claim->published && *claim->source && claim->cause);
        CHECK(claim->decided_by < 0 && claim->found.verdict == CLAIM_NOT_RUN && isfinite(claim->bound));
    }
    claims_close(&claims);
    return 0;
}
