// Fuzz target: any bytes as a file of published points, of the quantity that their number says, are refused with a
// reason, or are points whose values are positive.
#define _GNU_SOURCE // memfd_create
#include "harness/record/published.h"
#include "tests/fuzzed_file.h"
#include <math.h>

static void read_points(const char *folder)
{
    struct published published;
    struct status status = {0};
    bool ok = published_load(&published, folder, &status);
    fuzzed_check(ok, &status);
    for (size_t i = 0; ok && i < published.count; i++) {
        const struct published_file *file = &published.files[i];
        for (size_t j = 0; j < file->count; j++) {
            const struct published_point *point = &file->points[j];
            CHECK(isfinite(point->value) && point->value > 0 && point->option_count <= PUBLISHED_OPTIONS);
        }
    }
    published_free(&published);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct fuzzed_path folders[PUBLISHED_QUANTITIES];
    struct fuzzed_path file = fuzzed_file(bytes, count);
    size_t quantity = count % PUBLISHED_QUANTITIES;
    char name[64];
    snprintf(name, sizeof name, "e-%s.csv", published_quantity_name((enum published_quantity)quantity));
    if (!*folders[quantity].text)
        folders[quantity] = fuzzed_folder(file, name);
    read_points(folders[quantity].text);
    return 0;
}
