#include "harness/tensors/folder_contents.h"
#include "harness/files/known_format.h"
#include "harness/tensors/folder_path.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HUB_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./"

#define PUBLISHED "give a folder with config.json and model.safetensors, as it is published for transformers"

// A pattern of file names, and the message for a folder with a match: a printf format for the name.
struct kind {
    const char *pattern, *format;
};

// The first match explains a folder that should hold a model.
static const struct kind model_kinds[] = {
    {"*.gguf",
     ": it holds %s, a GGUF model of llama.cpp; give the folder of the safetensors that it was made from"},
    {"*.safetensors.index.json", ": it holds %s, but the index is read from " FOLDER_INDEX},
    {"consolidated*", ": it holds %s, weights in Meta's or Mistral's own format; " PUBLISHED},
    {"params.json", ": it holds %s, of a model in Meta's or Mistral's own format; " PUBLISHED},
    {"pytorch_model*.bin*",
     ": it holds %s, weights as pickles; save the model again by transformers' save_pretrained"},
    {"*.pth", ": it holds %s, weights as pickles; save the model again by transformers' save_pretrained"},
    {"*.distcp", ": it holds %s, of a distributed checkpoint; save the model by transformers' save_pretrained"},
    {"*.h5", ": it holds %s, weights of TensorFlow; " PUBLISHED},
    {"*.msgpack", ": it holds %s, weights of Flax; " PUBLISHED},
    {"*.onnx", ": it holds %s; " PUBLISHED},
    {"model-*-of-*.safetensors", ": it holds %s, a shard, but not their index; copy " FOLDER_INDEX ", too"},
    {FOLDER_ADAPTER,
     ": it holds %s, an adapter without the weights below it; give their folder, and this one as the "
     "adapter (--lora)"},
    {"*.safetensors", ": it holds %s, but weights are read from " FOLDER_WEIGHTS},
    {0},
};
static const struct kind adapter_kinds[] = {
    {"adapter_model.bin", ": it holds %s, an adapter as a pickle; save it again by peft's save_pretrained"},
    {FOLDER_ADAPTER_CONFIG, ": it holds %s, but not the weights beside it; copy " FOLDER_ADAPTER ", too"},
    {FOLDER_ADAPTER, ": it holds %s, but not what describes it; copy " FOLDER_ADAPTER_CONFIG ", too"},
    {"config.json", ": it holds %s, of a model; give its folder as the model"},
    {"*.gguf", ": it holds %s, in the format of llama.cpp; give the folder that peft's save_pretrained wrote"},
    {0},
};

// Neither the folder itself, nor what would write to a terminal.
static int is_name(const struct dirent *entry)
{
    const char *name = entry->d_name;
    while (*name && !iscntrl((unsigned char)*name))
        name++;
    return !*name && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static const char *config_of(bool adapter)
{
    return adapter ? FOLDER_ADAPTER_CONFIG : "config.json";
}

// A folder within with a configuration; the last by name. NULL: none.
static const char *find_within(const char *folder, bool adapter, struct dirent *const *entries, int count)
{
    const char *found = NULL;
    for (int i = 0; i < count; i++) {
        char *path = folder_file(folder, entries[i]->d_name);
        found = folder_has(path, config_of(adapter)) ? entries[i]->d_name : found;
        free(path);
    }
    return found;
}

static void describe_folder(const char *folder, bool adapter, struct dirent *const *entries, int count, char *text,
                            size_t bytes)
{
    const char *within = find_within(folder, adapter, entries, count), *tokenizer = NULL;
    if (!adapter && (folder_has(folder, FOLDER_WEIGHTS) || folder_has(folder, FOLDER_INDEX))) {
        snprintf(text, bytes, " beside its weights; copy it from where they come from");
        return;
    }
    for (const struct kind *kind = adapter ? adapter_kinds : model_kinds; kind->pattern; kind++)
        for (int i = 0; i < count; i++)
            if (fnmatch(kind->pattern, entries[i]->d_name, 0) == 0) {
                snprintf(text, bytes, kind->format, entries[i]->d_name);
                return;
            }
    for (int i = 0; i < count && !adapter; i++)
        tokenizer = fnmatch("tokenizer*", entries[i]->d_name, 0) == 0 ? entries[i]->d_name : tokenizer;
    if (within)
        snprintf(text, bytes, "; its folder %s has %s %s: give that", within, adapter ? "an" : "a",
                 config_of(adapter));
    else if (tokenizer)
        snprintf(text, bytes, ": it holds a tokenizer alone (%s); " PUBLISHED, tokenizer);
    else
        snprintf(text, bytes, count ? "" : ": it is empty");
}

static void describe_file(const char *path, bool adapter, char *text, size_t bytes)
{
    unsigned char head[KNOWN_FORMAT_BYTES];
    FILE *file = fopen(path, "re");
    size_t count = file ? fread(head, 1, sizeof head, file) : 0;
    const struct known_format *known = known_format_find(head, count);
    if (file)
        fclose(file);
    snprintf(text, bytes, ": it is %s; %s", known ? known->name : "a file",
             known && known->elsewhere ? known->elsewhere
             : adapter                 ? "give the folder that holds " FOLDER_ADAPTER_CONFIG " and " FOLDER_ADAPTER
                                       : "give the folder that holds config.json and model.safetensors");
}

// ORGANISATION/NAME, which is not here.
static bool is_hub_name(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash && !strchr(slash + 1, '/') && isalnum((unsigned char)*path) && isalnum((unsigned char)slash[1]) &&
           !path[strspn(path, HUB_CHARACTERS)];
}

// The hub's cache keeps each revision in models--ORGANISATION--NAME/snapshots.
void folder_contents(const char *path, bool adapter, char *text, size_t bytes)
{
    struct stat info;
    struct dirent **entries = NULL;
    char *snapshots = folder_file(path, "snapshots");
    int count = *path ? scandir(snapshots, &entries, is_name, versionsort) : -1;
    *text = '\0';
    if (count > 0) {
        const char *revision = find_within(snapshots, adapter, entries, count);
        snprintf(text, bytes, ": it is a folder of the hub's cache, whose revisions lie in snapshots; give %s/%s",
                 snapshots, revision ? revision : entries[0]->d_name);
    } else if ((count = scandir(path, &entries, is_name, versionsort)) >= 0) {
        describe_folder(path, adapter, entries, count, text, bytes);
    } else if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        describe_file(path, adapter, text, bytes);
    } else if (count < 0 && errno == ENOENT && is_hub_name(path)) {
        snprintf(text, bytes,
                 ": there is no such folder here, and nothing is downloaded; if it is %s of the hub, `hf "
                 "download %s --local-dir DIR` fetches it to a DIR that can be given",
                 adapter ? "an adapter" : "a model", path);
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    free(snapshots);
}
