#include "harness/files/output_file.h"
#include "harness/folder/folder.h"
#include "harness/json/json_source.h"
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#define PADDING "pad_token_id"

static const char *const files[] = {"generation_config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "tokenizer.model",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "vocab.json",
                                    "merges.txt",
                                    "chat_template.jinja"};
static const char *const ids[] = {"bos_token_id", "eos_token_id", PADDING};

// Does nothing for a missing file.
static bool copy(const char *from, const char *to, struct status *status)
{
    struct stat info;
    if (stat(from, &info) != 0 || !S_ISREG(info.st_mode))
        return true;
    FILE *file = fopen(from, "re");
    if (!file)
        return status_set(status, STATUS_IO, "%s: %s", from, strerror(errno));
    size_t room = (size_t)info.st_size;
    char *bytes = malloc(room + 1);
    size_t count = fread(bytes, 1, room, file);
    bool read = !ferror(file) || status_set(status, STATUS_IO, "%s: %s", from, strerror(errno));
    if (read && count < room)
        read = status_set(status, STATUS_IO, "%s: ends after %zu bytes of %zu", from, count, room);
    fclose(file);
    bool copied = read && output_file_write(to, bytes, count, status);
    free(bytes);
    return copied;
}

// Models of images or sound may have it only in text_config. Their own pad_token_id is not the language model's,
// whose embedding has the padding row.
static json_t *id_of(const struct json_source *base, const char *key)
{
    const json_t *text = json_object_get(base->root, "text_config");
    json_t *whole = text && strcmp(key, PADDING) == 0 ? NULL : json_object_get(base->root, key);
    json_t *value = whole ? whole : json_object_get(text, key);
    return json_source_unheld(value) ? NULL : value;
}

// Copies only token ids, because the written config.json already describes the weights.
static bool take_ids(const char *folder, const char *base, struct status *status)
{
    char *from = folder_file(base, "config.json"), *to = folder_file(folder, "config.json");
    struct json_source below;
    struct status ignored = {0};
    json_source_open_python(&below, from, &ignored);
    json_t *own = json_load_file(to, 0, NULL);
    for (size_t i = 0; own && i < sizeof ids / sizeof *ids; i++) {
        json_t *value = id_of(&below, ids[i]);
        if (value)
            CHECK(json_object_set(own, ids[i], value) == 0);
    }
    bool taken = own ? folder_write_json(folder, "config.json", own, status)
                     : status_set(status, STATUS_IO, "%s: cannot be read again", to);
    json_source_close(&below);
    free(to);
    free(from);
    return taken;
}

bool folder_take_along(const char *folder, const char *base, struct status *status)
{
    bool taken = take_ids(folder, base, status);
    for (size_t i = 0; taken && i < sizeof files / sizeof *files; i++) {
        char *from = folder_file(base, files[i]), *to = folder_file(folder, files[i]);
        taken = copy(from, to, status);
        free(to);
        free(from);
    }
    return taken;
}
