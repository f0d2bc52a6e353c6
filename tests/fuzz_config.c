// Fuzz target: any bytes as a model's config.json are refused with a reason, or give a shape that fits together and
// RoPE's frequencies that are finite.
#define _GNU_SOURCE // memfd_create
#include "harness/folder/folder.h"
#include "kernels/model/block.h"
#include "tests/fuzzed_file.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct fuzzed_path folder;
    struct fuzzed_path file = fuzzed_file(bytes, count);
    if (!*folder.text)
        folder = fuzzed_folder(file, "config.json");
    struct config config;
    struct status status = {0}, odd = {0};
    bool ok = folder_read_config(folder.text, &config, &status);
    fuzzed_check(ok, &status);
    if (ok) {
        double frequencies[256];
        CHECK(config_check(&config, &odd) && config_parameters(&config) > 0);
        for (size_t k = 0; k < CONFIG_KINDS; k++) {
            const struct layer_kind *kind = &config.kinds[k];
            if (!config_has_kind(&config, k))
                continue;
            CHECK(kind->head_dim <= 512);
            rope_frequencies(&config, kind, 0, frequencies);
            for (size_t j = 0; j < kind->head_dim / 2; j++)
                CHECK(!isnan(frequencies[j]) && frequencies[j] >= 0);
        }
    }
    return 0;
}
