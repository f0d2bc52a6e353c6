#include "harness/options/spec_doubts.h"
#include "harness/data/doubtful_labels.h"
#include "harness/data/token_summary.h"
#include "harness/folder/folder.h"
#include "harness/spec/trial_keys.h"
#include <jansson.h>
#include <string.h>

// Whether the name comes for the first time.
static bool is_new(json_t *said, const char *name)
{
    bool known = json_object_get(said, name);
    json_object_set_new(said, name, json_true());
    return !known;
}

static void say_file(const struct trial *trial, const char *path)
{
    struct data_source source = {trial->data.kind, (char *)path};
    struct status unread = {0}; // the trial reports it
    if (source.kind == DATA_BATCH)
        doubtful_labels_say(path);
    else if (source.kind != DATA_BYTES || trial->config.vocab != 256)
        token_summary_say(&source, trial->config.vocab, trial->batch * trial->context, false, &unread);
}

// Once per file, because each trial is a separate process. said: what was reported, here and below.
static void say_data(const struct trial *trial, json_t *said)
{
    const char *const paths[] = {trial->data.path, trial->train.evaluate.path};
    for (size_t i = 0; (trial->data.kind == DATA_BATCH || !trial->planned) && i < sizeof paths / sizeof *paths; i++)
        if (paths[i] && is_new(said, paths[i]))
            say_file(trial, paths[i]);
}

// Once per folder.
static void say_folders(const struct trial *trial, json_t *said)
{
    const char *const folders[] = {trial->model_folder, trial->reference.folder};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (folders[i] && is_new(said, folders[i]))
            folder_say(folders[i]);
}

// Warns about a card's estimates beside the CPU's times or bytes, which is seldom intended; once per profile.
static void say_card(const struct trial *trial, json_t *said)
{
    bool card = trial->profile && trial->profile->multiprocessors.value > 0;
    if (card && !trial_is_of_card(trial) && !trial->framework && is_new(said, trial->profile->name))
        fprintf(stderr, "longbp: profile %s describes a card, but trials %s: time estimates are for the card\n",
                trial->profile->name, trial->planned ? "are planned as on the CPU" : "run on the CPU");
}

// Visits the trials that may differ in one of the keys, which end in NULL; the first alone if none may.
static void visit(const struct spec *spec, const char *const *keys,
                  void (*say)(const struct trial *trial, json_t *said))
{
    json_t *said = json_object();
    bool varies = false;
    for (; *keys; keys++)
        varies |= spec_varies(spec, trial_key_find(*keys));
    for (size_t i = 0; i < (varies ? spec->trial_count : 1); i++) {
        struct trial trial;
        struct status ignored = {0};
        if (spec_trial(spec, i, &trial, &ignored))
            say(&trial, said);
        trial_free(&trial);
    }
    json_decref(said);
}

void spec_doubts_say_trial(const struct trial *trial)
{
    json_t *said = json_object();
    say_folders(trial, said);
    if (trial->data.kind == DATA_BATCH)
        say_data(trial, said);
    json_decref(said);
}

void spec_doubts_say(const struct spec *spec)
{
    visit(spec, (const char *const[]){"model", "reference", "objective", NULL}, say_folders);
    visit(spec, (const char *const[]){"data", "train", NULL}, say_data);
}

void spec_doubts_say_cards(const struct spec *spec)
{
    visit(spec, (const char *const[]){"profile", "device", "dtype", NULL}, say_card);
}
