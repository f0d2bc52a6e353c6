#include "harness/files/file_hash.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

bool file_hash_add(XXH3_state_t *state, const char *path, struct status *status)
{
    char block[1 << 14];
    FILE *file = fopen(path, "re");
    size_t bytes;
    while (file && (bytes = fread(block, 1, sizeof block, file)) > 0)
        CHECK(XXH3_64bits_update(state, block, bytes) == XXH_OK);
    bool read = (file && !ferror(file)) || status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    if (file)
        fclose(file);
    return read;
}
