// Drawn sweep: records in a file of a test's scratch folder, from which it draws pictures, and the text of those.
// Before it is included, _GNU_SOURCE is defined, for asprintf, nftw and mkdtemp.
#pragma once
#include "tests/scratch.h"
#include "tests/sketched_record.h"

static inline void write_records(struct scratch *scratch, const char *name, char *const *lines)
{
    FILE *file = fopen(scratch_path(scratch, name).text, "w");
    assert_non_null(file);
    for (size_t i = 0; lines[i]; i++) {
        fprintf(file, "%s\n", lines[i]);
        free(lines[i]);
    }
    assert_int_equal(fclose(file), 0);
}

static inline char *read_text(const struct scratch *scratch, const char *name)
{
    FILE *file = fopen(scratch_path(scratch, name).text, "rb");
    if (!file)
        fail_msg("%s was not written", name);
    char *text = calloc(1, 1 << 20);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

// Two contexts of one method: enough for memory and time.
static inline void write_sweep(struct scratch *scratch, const char *name, const char *dtype, int id)
{
    char *lines[] = {
        record(id, "sweep", "ok", dtype, 128, full,
               ", 'peak_bytes': 5000000, 'lower_bound_bytes': 4000000, 'median_ms': 5, 'samples_ms': [5, 6]"),
        record(id + 1, "sweep", "ok", dtype, 256, full,
               ", 'peak_bytes': 9000000, 'lower_bound_bytes': 8000000, 'median_ms': 9, 'samples_ms': [9, 11]"),
        record(id + 2, "sweep", "crash", dtype, 512, full, ""),
        NULL,
    };
    write_records(scratch, name, lines);
}
