#include "harness/files/named_file.h"
#include "harness/files/share.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void named_files_list(struct named_files *files, const char *folder)
{
    struct names *names = &files->names;
    *files = (struct named_files){0};
    char path[PATH_MAX];
    DIR *entries = opendir(share_resolve(folder, path));
    for (struct dirent *entry; entries && (entry = readdir(entries)) && names->count < NAMES_MAX;) {
        const char *end = strrchr(entry->d_name, '.');
        size_t length = end ? (size_t)(end - entry->d_name) : 0;
        if (!end || strcmp(end, ".json") != 0 || length >= sizeof files->text[0])
            continue;
        memcpy(files->text[names->count], entry->d_name, length); // zeroed before
        names_add(names, files->text[names->count]);
    }
    if (entries)
        closedir(entries);
    qsort(names->items, names->count, sizeof *names->items, by_name);
}

static bool unknown(const char *folder, const char *kind, const char *kinds, const char *name,
                    struct status *status)
{
    struct named_files files;
    char known[128], hint[704];
    named_files_list(&files, folder);
    snprintf(known, sizeof known, "known %s", kinds);
    names_hint(&files.names, name, known, hint, sizeof hint);
    return status_set(status, STATUS_BAD_INPUT, "no %s \"%.100s\" in %s; %s", kind, name, folder,
                      files.names.count ? hint : "a file is named with a \"/\" or \".json\" in it");
}

static bool is_path(const char *name)
{
    size_t length = strlen(name);
    return strchr(name, '/') || (length > 5 && strcmp(name + length - 5, ".json") == 0);
}

bool named_file_find(char path[PATH_MAX], const char *folder, const char *kind, const char *kinds, const char *name,
                     struct status *status)
{
    char file[256], found[PATH_MAX];
    if (is_path(name)) {
        snprintf(path, PATH_MAX, "%s", share_resolve(name, found));
        return true;
    }
    int bytes = snprintf(file, sizeof file, "%s/%s.json", folder, name);
    snprintf(path, PATH_MAX, "%s", share_resolve(file, found));
    return (bytes < (int)sizeof file && access(path, F_OK) == 0) || unknown(folder, kind, kinds, name, status);
}
