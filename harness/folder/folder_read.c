#include "harness/folder/adapter.h"
#include "harness/folder/folder.h"
#include "harness/folder/folder_config.h"
#include "harness/tensors/folder_contents.h"
#include "harness/tensors/shards.h"
#include <string.h>

// Names the config after the last part of its path.
static void name_config(struct config *config, const char *folder)
{
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && folder[start - 1] != '/')
        start--;
    size_t bytes = end - start < sizeof config->name - 1 ? end - start : sizeof config->name - 1;
    memcpy(config->name, folder + start, bytes);
    config->name[bytes] = '\0';
}

// Reads config.json alone. *composite: the model that contains it, or NULL.
static bool read_file(const char *folder, struct config *config, const struct composite **composite,
                      struct status *status)
{
    *config = (struct config){0};
    name_config(config, folder);
    struct json_source source;
    if (!folder_has(folder, "config.json") && adapter_is_in(folder)) {
        return status_set(
            status, STATUS_BAD_INPUT,
            "%s: is a PEFT adapter and no model: give the model that it was trained on, and the folder as "
            "\"lora\" (--lora %s)",
            folder, folder);
    }
    char contents[400] = "";
    if (!folder_has(folder, "config.json"))
        folder_contents(folder, false, contents, sizeof contents);
    if (*contents)
        return status_set(status, STATUS_IO, "%s: has no config.json%s", folder, contents);
    char *path = folder_file(folder, "config.json");
    bool ok = json_source_open_python(&source, path, status) &&
              folder_config_decode(json_field_root(&source), config, composite, status);
    struct status reason = {0};
    if (ok && !config_check(config, &reason))
        ok = status_set(status, reason.code, "%s: %s", path, reason.message);
    json_source_close(&source);
    free(path);
    return ok;
}

bool folder_read_config(const char *folder, struct config *config, struct status *status)
{
    const struct composite *composite;
    struct shards shards = {0};
    struct status ignored = {0}; // missing or wrong weights are reported when they are read
    if (!read_file(folder, config, &composite, status))
        return false;
    if (config->tied && shards_open_weights(&shards, folder, true, &ignored))
        config->tied = !shards_have_own_head(&shards);
    shards_close(&shards);
    return true;
}

void folder_say(const char *folder)
{
    struct config config;
    const struct composite *composite = NULL;
    struct shards shards = {0};
    struct status ignored = {0};
    bool read = folder && read_file(folder, &config, &composite, &ignored);
    bool open = read && shards_open_weights(&shards, folder, config.tied, &ignored);
    if (open && shards.aside) {
        fprintf(stderr, "longbp: %s: reads the language model alone; leaves %zu tensors of other parts aside\n",
                folder, shards.aside);
    } else if (read && composite) {
        fprintf(stderr, "longbp: %s: reads the language model of %s alone\n", folder, composite->model_type);
    }
    if (open && config.tied && shards_have_own_head(&shards)) {
        fprintf(stderr,
                "longbp: %s: reads \"tie_word_embeddings\" as false, as transformers does: " SHARDS_HEAD
                " is there and is not the embedding\n",
                folder);
    }
    shards_close(&shards);
}
