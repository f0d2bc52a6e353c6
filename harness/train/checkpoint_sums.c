#include "harness/train/checkpoint_sums.h"
#include "harness/files/file_hash.h"
#include "harness/files/output_file.h"
#include "harness/tensors/folder_path.h"
#include "harness/text/text.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The format of xxhsum -H3.
#define LINE "XXH3_%016" PRIx64 "  %s\n"

static bool hash_file(const char *folder, const char *name, uint64_t *hash, struct status *status)
{
    char *path = folder_file(folder, name);
    XXH3_state_t *state = XXH3_createState();
    CHECK(state && XXH3_64bits_reset(state) == XXH_OK);
    bool read = file_hash_add(state, path, status);
    *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    free(path);
    return read;
}

static int is_summed(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && strcmp(entry->d_name, CHECKPOINT_SUMS) != 0;
}

static int find_files(const char *folder, struct dirent ***files, struct status *status)
{
    int count = scandir(folder, files, is_summed, alphasort);
    if (count < 0)
        status_set(status, STATUS_IO, "%s: %s", folder, strerror(errno));
    return count;
}

static void free_files(struct dirent **files, int count)
{
    for (int i = 0; i < count; i++)
        free(files[i]);
    if (count >= 0)
        free(files);
}

bool checkpoint_sums_write(const char *folder, struct status *status)
{
    struct dirent **files;
    int count = find_files(folder, &files, status);
    char *text, *path = folder_file(folder, CHECKPOINT_SUMS);
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    bool fine = count >= 0;
    for (int i = 0; fine && i < count; i++) {
        uint64_t hash;
        fine = hash_file(folder, files[i]->d_name, &hash, status);
        fprintf(stream, LINE, hash, files[i]->d_name);
    }
    CHECK(fclose(stream) == 0);
    fine = fine && output_file_write(path, text, bytes, status);
    free(path);
    free(text);
    free_files(files, count);
    return fine;
}

// Checks that the next line equals the next file's, byte for byte.
static bool check_next(FILE *sums, const char *folder, const char *name, bool read, struct status *status)
{
    char *line = NULL, *expected;
    size_t room = 0;
    uint64_t hash = 0;
    bool got = getline(&line, &room, sums) >= 0;
    if (!got && ferror(sums))
        status_set(status, STATUS_IO, "%s/" CHECKPOINT_SUMS ": %s", folder, strerror(errno));
    if (!got || strlen(line) < strlen("XXH3_0123456789abcdef  \n")) {
        free(line);
        return status_set(status, STATUS_BAD_INPUT, "%s/" CHECKPOINT_SUMS ": has no line of %s", folder, name);
    }
    bool fine = !read || hash_file(folder, name, &hash, status);
    if (fine) {
        if (!read)
            hash = strtoull(line + strlen("XXH3_"), NULL, 16);
        expected = text_new(LINE, hash, name);
        bool same = strcmp(line, expected) == 0;
        free(expected);
        fine = same || status_set(status, STATUS_BAD_INPUT,
                                  "%s/%s: is not as it was written (its XXH3 is %016" PRIx64
                                  ", not what " CHECKPOINT_SUMS " says)",
                                  folder, name, hash);
    }
    free(line);
    return fine;
}

bool checkpoint_sums_check(const char *folder, const char *others, const char *own, bool *known,
                           struct status *status)
{
    char *path = folder_file(folder, CHECKPOINT_SUMS);
    FILE *sums = fopen(path, "re");
    *known = sums || errno != ENOENT;
    bool fine = sums || !*known || status_set(status, STATUS_IO, "%s: %s", path, strerror(errno));
    struct dirent **files;
    int count = sums ? find_files(folder, &files, status) : -1;
    for (int i = 0; fine && i < count; i++) {
        const char *name = files[i]->d_name;
        bool read = strncmp(name, others, strlen(others)) != 0 || strcmp(name, own) == 0;
        fine = check_next(sums, folder, name, read, status);
    }
    if (sums && fine && (count < 0 || fgetc(sums) != EOF))
        fine = status->code == STATUS_OK &&
               status_set(status, STATUS_BAD_INPUT, "%s: lists a file that is not there", path);
    if (sums) {
        fclose(sums);
        free_files(files, count);
    }
    free(path);
    return fine;
}
