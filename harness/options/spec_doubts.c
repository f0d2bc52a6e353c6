#include "harness/options/spec_doubts.h"
#include "harness/data/doubtful_labels.h"
#include "harness/data/token_summary.h"
#include "harness/folder/folder.h"
#include "harness/spec/trial_keys.h"
#include <jansson.h>
#include <string.h>

static void say_file(const struct trial *trial, const char *path)
{
    struct data_source source = {trial->data.kind, (char *)path};
    struct status unread = {0}; // the trial reports it
    if (source.kind == DATA_BATCH)
        doubtful_labels_say(path);
    else if (source.kind != DATA_BYTES || trial->config.vocab != 256)
        token_summary_say(&source, trial->config.vocab, trial->batch * trial->context, false, &unread);
}

// Once per file, because each trial is a separate process.
void spec_doubts_say_data(const struct spec *spec)
{
    json_t *said = json_object(); // by path
    size_t count = spec_varies(spec, trial_key_find("data")) || spec_varies(spec, trial_key_find("train"))
                       ? spec->trial_count
                       : 1;
    for (size_t i = 0; i < count; i++) {
        struct trial trial;
        struct status ignored = {0};
        bool reads = spec_trial(spec, i, &trial, &ignored) && (trial.data.kind == DATA_BATCH || !trial.planned);
        const char *const paths[] = {trial.data.path, trial.train.evaluate.path};
        for (size_t p = 0; reads && p < sizeof paths / sizeof *paths; p++)
            if (paths[p] && !json_object_get(said, paths[p])) {
                json_object_set_new(said, paths[p], json_true());
                say_file(&trial, paths[p]);
            }
        trial_free(&trial);
    }
    json_decref(said);
}

// Once per folder. said: paths already reported.
static void say_folders(const struct trial *trial, json_t *said)
{
    const char *const folders[] = {trial->model_folder, trial->reference.folder};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (folders[i] && !json_object_get(said, folders[i])) {
            json_object_set_new(said, folders[i], json_true());
            folder_say(folders[i]);
        }
}

void spec_doubts_say_trial_folders(const struct trial *trial)
{
    json_t *said = json_object();
    say_folders(trial, said);
    json_decref(said);
}

void spec_doubts_say_folders(const struct spec *spec)
{
    json_t *said = json_object();
    bool varies = spec_varies(spec, trial_key_find("model")) || spec_varies(spec, trial_key_find("reference")) ||
                  spec_varies(spec, trial_key_find("objective"));
    for (size_t i = 0; i < (varies ? spec->trial_count : 1); i++) {
        struct trial trial;
        struct status ignored = {0};
        if (spec_trial(spec, i, &trial, &ignored))
            say_folders(&trial, said);
        trial_free(&trial);
    }
    json_decref(said);
}

// Warns about a card's estimates beside the CPU's times or bytes, which is seldom intended; once per profile.
void spec_doubts_say_cards(const struct spec *spec)
{
    json_t *said = json_object(); // by profile
    bool varies = spec_varies(spec, trial_key_find("profile")) || spec_varies(spec, trial_key_find("device")) ||
                  spec_varies(spec, trial_key_find("dtype"));
    for (size_t i = 0; i < (varies ? spec->trial_count : 1); i++) {
        struct trial trial;
        struct status ignored = {0};
        bool card =
            spec_trial(spec, i, &trial, &ignored) && trial.profile && trial.profile->multiprocessors.value > 0;
        const char *does = !card || trial_is_of_card(&trial) ? NULL
                           : trial.planned                   ? "are planned as on the CPU"
                                                             : "run on the CPU";
        if (does && !json_object_get(said, trial.profile->name)) {
            json_object_set_new(said, trial.profile->name, json_true());
            fprintf(stderr,
                    "longbp: profile %s is of a card, but trials %s: estimates of time are of the card alone\n",
                    trial.profile->name, does);
        }
        trial_free(&trial);
    }
    json_decref(said);
}
