#define _GNU_SOURCE // versionsort
#include "harness/files/folder_contents.h"
#include "harness/files/folder_path.h"
#include "harness/files/known_format.h"
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

// The first pattern that a name in the folder matches says what it is.
static const struct {
    const char *pattern, *format; // printf's, of the name that matches
} kinds[] = {
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
};

// Neither the folder itself, nor what would write to a terminal.
static int is_name(const struct dirent *entry)
{
    const char *name = entry->d_name;
    while (*name && !iscntrl((unsigned char)*name))
        name++;
    return !*name && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

// A folder within with a config.json; the last by name. NULL: none.
static const char *model_within(const char *folder, struct dirent *const *entries, int count)
{
    const char *found = NULL;
    for (int i = 0; i < count; i++) {
        char *path = folder_file(folder, entries[i]->d_name);
        found = folder_has(path, "config.json") ? entries[i]->d_name : found;
        free(path);
    }
    return found;
}

static void describe_folder(const char *folder, struct dirent *const *entries, int count, char *text, size_t bytes)
{
    const char *within = model_within(folder, entries, count), *tokenizer = NULL;
    if (folder_has(folder, FOLDER_WEIGHTS) || folder_has(folder, FOLDER_INDEX)) {
        snprintf(text, bytes, " beside its weights; copy it from where they come from");
        return;
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int i = 0; i < count; i++)
            if (fnmatch(kinds[k].pattern, entries[i]->d_name, 0) == 0) {
                snprintf(text, bytes, kinds[k].format, entries[i]->d_name);
                return;
            }
    for (int i = 0; i < count; i++)
        tokenizer = fnmatch("tokenizer*", entries[i]->d_name, 0) == 0 ? entries[i]->d_name : tokenizer;
    if (within)
        snprintf(text, bytes, "; its folder %s has a config.json: give that", within);
    else if (tokenizer)
        snprintf(text, bytes, ": it holds a tokenizer alone (%s); " PUBLISHED, tokenizer);
    else
        snprintf(text, bytes, count ? "" : ": it is empty");
}

static void describe_file(const char *path, char *text, size_t bytes)
{
    unsigned char head[KNOWN_FORMAT_BYTES];
    FILE *file = fopen(path, "re");
    size_t count = file ? fread(head, 1, sizeof head, file) : 0;
    const struct known_format *known = known_format_find(head, count);
    if (file)
        fclose(file);
    snprintf(text, bytes, ": it is %s; %s", known ? known->name : "a file",
             known && known->elsewhere ? known->elsewhere
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
void folder_contents(const char *path, char *text, size_t bytes)
{
    struct stat info;
    struct dirent **entries = NULL;
    char *snapshots = folder_file(path, "snapshots");
    int count = *path ? scandir(snapshots, &entries, is_name, versionsort) : -1;
    *text = '\0';
    if (count > 0) {
        const char *revision = model_within(snapshots, entries, count);
        snprintf(text, bytes, ": it is a folder of the hub's cache, whose models lie in snapshots; give %s/%s",
                 snapshots, revision ? revision : entries[0]->d_name);
    } else if ((count = scandir(path, &entries, is_name, versionsort)) >= 0) {
        describe_folder(path, entries, count, text, bytes);
    } else if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        describe_file(path, text, bytes);
    } else if (count < 0 && errno == ENOENT && is_hub_name(path)) {
        snprintf(text, bytes,
                 ": there is no such folder here, and nothing is downloaded; if it is a model of the hub, `hf "
                 "download %s --local-dir DIR` fetches "
                 "it to a "
                 "DIR that can be given",
                 path);
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    free(snapshots);
}
