#include "harness/train/train_folder.h"
#include "harness/data/sequences.h"
#include "harness/files/io.h"
#include "harness/files/output_file.h"
#include "harness/folder/folder.h"
#include "harness/spec/method_decode.h"
#include "harness/spec/trial_key_decode.h"
#include "harness/spec/trial_keys.h"
#include "harness/step/model_hash.h"
#include "harness/train/checkpoint.h"
#include "harness/train/train_schedule.h"
#include "kernels/base/clock.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SETTINGS "training.json"
#define STEPS    "steps.jsonl"

#define PATIENCE_S 2.0 // wait for processes that hold a folder to be resumed

// --- what a run is, to be held against when it is resumed

static json_t *bytes_of(const char *path)
{
    size_t bytes = path ? sequences_bytes(path) : 0;
    return bytes ? json_integer((json_int_t)bytes) : json_null();
}

// Omitted if there is nothing to hash.
static void set_hash(json_t *settings, const char *key, uint64_t hash)
{
    if (hash)
        CHECK(json_object_set_new(settings, key, json_sprintf("%016" PRIx64, hash)) == 0);
}

static uint64_t hash_of(const char *path)
{
    return path ? sequences_hash(path) : 0;
}

// JSON, a new reference: the trial with the method as chosen, sizes and hashes of the training and evaluation
// files, which are read completely, and the hash of its model's folder; without settings that may change on resume.
static json_t *train_settings(const struct trial *trial)
{
    static const char *const free_to_change[] = {"limits", "host", "measure", NULL};
    json_t *settings = json_loads(trial->canonical, 0, NULL);
    CHECK(settings);
    for (size_t i = 0; free_to_change[i]; i++)
        json_object_del(settings, free_to_change[i]);
    json_object_set_new(settings, "method",
                        method_json(trial->method, trial->options)); // with auto, the chosen one
    json_object_set_new(settings, "data_bytes", bytes_of(trial->data.path));
    json_object_set_new(settings, "evaluate_bytes", bytes_of(trial->train.evaluate.path));
    set_hash(settings, "model_hash", model_hash(trial));
    set_hash(settings, "data_hash", hash_of(trial->data.path));
    set_hash(settings, "evaluate_hash", hash_of(trial->train.evaluate.path));
    return settings;
}

static bool is_there(const struct train_folder *folder, const char *name)
{
    char *path = folder_file(folder->path, name);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

static bool failed(const struct train_folder *folder, const char *what, struct status *status)
{
    return status_set(status, STATUS_IO, "%s: cannot %s: %s", folder->path, what, strerror(errno));
}

// Ranks of a killed run end some moments after it.
static bool lock(int file, double patience_s)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    double end_s = clock_s() + patience_s;
    while (!io_lock(file, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK || clock_s() >= end_s)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

static bool open_locked(struct train_folder *folder, bool resume, struct status *status)
{
    folder->made = mkdir(folder->path, 0777) == 0;
    if (!folder->made && errno != EEXIST)
        return failed(folder, "make the folder", status);
    folder->lock = io_open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (folder->lock < 0)
        return failed(folder, "open the folder", status);
    return lock(folder->lock, resume ? PATIENCE_S : 0) ||
           (errno == EWOULDBLOCK
                ? status_set(status, STATUS_BAD_INPUT,
                             "%s: another process trains there; wait for it, or choose another --out", folder->path)
                : failed(folder, "lock it", status));
}

// A temporary file of a killed process (harness/files/output_file.h).
static bool is_temporary(const char *name)
{
    size_t bytes = strlen(name);
    return strncmp(name, "longbp-", 7) == 0 && bytes > 11 && strcmp(name + bytes - 4, ".tmp") == 0;
}

// Removes temporary files of a killed process. Returns whether the folder is otherwise empty.
static bool tidy(const struct train_folder *folder)
{
    DIR *entries = opendir(folder->path);
    const struct dirent *entry;
    bool empty = true;
    while (entries && (entry = readdir(entries)))
        if (is_temporary(entry->d_name))
            unlinkat(dirfd(entries), entry->d_name, 0);
        else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            empty = false;
    if (entries)
        closedir(entries);
    return empty;
}

// --- settings

// The path of the first difference, and both values as JSON; false: none.
static bool first_difference(const json_t *was, const json_t *is, char *path, size_t bytes, char **was_text,
                             char **is_text)
{
    const char *key;
    json_t *value;
    size_t used = strlen(path);
    for (int turn = 0; json_is_object(was) && json_is_object(is) && turn < 2; turn++) {
        json_object_foreach((json_t *)(turn ? is : was), key, value)
        {
            snprintf(path + used, bytes - used, "%s%s", used ? "." : "", key);
            if (first_difference(json_object_get(was, key), json_object_get(is, key), path, bytes, was_text,
                                 is_text))
                return true;
            path[used] = '\0';
        }
    }
    if ((json_is_object(was) && json_is_object(is)) || json_equal(was, is))
        return false;
    *was_text = was ? json_dumps(was, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15)) : strdup("absent");
    *is_text = is ? json_dumps(is, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15)) : strdup("absent");
    return true;
}

// Adds keys missing in earlier versions: training keys at their defaults, and hashes at their current values.
static void complete_settings(json_t *was, const json_t *settings)
{
    static const char *const hashes[] = {"model_hash", "data_hash", "evaluate_hash"};
    CHECK(json_object_set_new(was, "train", trial_key_recorded(&trial_keys[trial_key_find("train")], was)) == 0);
    for (size_t i = 0; i < sizeof hashes / sizeof *hashes; i++) {
        json_t *hash = json_object_get(settings, hashes[i]);
        if (hash && !json_object_get(was, hashes[i]))
            CHECK(json_object_set(was, hashes[i], hash) == 0);
    }
}

// *steps: gets the run's original number of steps.
static bool check_settings(const struct train_folder *folder, const json_t *settings, size_t *steps,
                           struct status *status)
{
    char *file = folder_file(folder->path, SETTINGS), path[256] = "", *was_text, *is_text;
    json_error_t error;
    json_t *was = json_load_file(file, 0, &error);
    bool same = json_is_object(was) ||
                status_set(status, STATUS_BAD_INPUT, "%s: %s", file, was ? "is no object" : error.text);
    if (same) {
        complete_settings(was, settings);
        json_t *train = json_object_get(was, "train");
        json_int_t begun = json_integer_value(json_object_get(train, "steps"));
        if (begun > 0) { // otherwise it is reported like any other difference
            *steps = (size_t)begun;
            json_object_set(train, "steps", json_object_get(json_object_get(settings, "train"), "steps"));
        }
    }
    if (same && first_difference(was, settings, path, sizeof path, &was_text, &is_text)) {
        same =
            status_set(status, STATUS_BAD_INPUT,
                       "%s: the run was begun with %s %.200s, not %.200s; resume it as it was, or choose another "
                       "--out",
                       folder->path, path, was_text, is_text);
        free(was_text);
        free(is_text);
    }
    json_decref(was);
    free(file);
    return same;
}

json_t *train_folder_settings(const char *path)
{
    char *file = folder_file(path, SETTINGS);
    json_t *settings = json_load_file(file, 0, NULL);
    free(file);
    return settings;
}

// Checks that a run of `steps` steps can continue with the settings `now`.
static bool check_steps(const struct train_folder *folder, const struct training *now, size_t steps,
                        struct status *status)
{
    struct training begun = *now;
    begun.steps = steps;
    size_t done = folder->finished ? steps : folder->step;
    if (now->steps <= done)
        return status_set(status, STATUS_BAD_INPUT, "%s: %zu steps are done already; give --steps %zu or more",
                          folder->path, done, done + 1);
    if (folder->finished && !folder->step)
        return status_set(
            status, STATUS_BAD_INPUT,
            "%s: all %zu steps are done, and no checkpoint has the optimizer's state to take more; train "
            "in another --out, with --checkpoint",
            folder->path, steps);
    for (size_t i = 0; i < folder->step; i++) {
        double was = train_schedule_factor(&begun, i), is = train_schedule_factor(now, i);
        if (was < is || was > is) {
            char earlier[80] = "";
            size_t step = checkpoint_before(folder->path, i + 1);
            if (step)
                snprintf(earlier, sizeof earlier, "remove the checkpoints after that of step %zu, ", step);
            return status_set(
                status, STATUS_BAD_INPUT,
                "%s: step %zu was taken at %.4g of the rate, and in a run of %zu steps has %.4g; %sresume "
                "with --steps %zu, or choose another --out",
                folder->path, i + 1, was, now->steps, is, earlier, steps);
        }
    }
    return true;
}

// Files of weights mark a finished run, so they are removed first.
static bool begin_longer(struct train_folder *folder, json_t *settings, struct status *status)
{
    static const char *const weights[] = {FOLDER_WEIGHTS, FOLDER_ADAPTER};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        char *path = folder_file(folder->path, weights[i]);
        bool removed = unlink(path) == 0 || errno == ENOENT;
        free(path);
        if (!removed)
            return failed(folder, "remove the weights after the last step", status);
    }
    folder->finished = false;
    return folder_write_json(folder->path, SETTINGS, json_incref(settings), status);
}

// --- lines of steps.jsonl

// Cuts the lines after the last checkpoint, an incomplete line, and the final evaluation of a run that is now
// longer.
static bool cut_steps(struct train_folder *folder, const struct training *training, struct status *status)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t bytes;
    off_t end = 0;
    while (folder->step > 0 && (bytes = getline(&line, &capacity, folder->steps)) > 0) {
        json_t *json = json_loads(line, 0, NULL);
        const json_t *number = json_object_get(json, "step");
        size_t step = (size_t)json_integer_value(number);
        bool kept = line[bytes - 1] == '\n' && json_is_integer(number) && step <= folder->step &&
                    (!json_object_get(json, "evaluation_loss") || train_schedule_evaluates(training, step));
        json_decref(json);
        if (!kept)
            break;
        end += bytes;
    }
    free(line);
    if (ferror(folder->steps))
        return failed(folder, "read " STEPS, status);
    return (io_truncate(fileno(folder->steps), end) && fseeko(folder->steps, end, SEEK_SET) == 0) ||
           failed(folder, "shorten " STEPS, status);
}

static bool open_steps(struct train_folder *folder, const struct training *training, struct status *status)
{
    char *path = folder_file(folder->path, STEPS);
    int file = io_open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    free(path);
    if (file < 0)
        return failed(folder, "open " STEPS, status);
    folder->steps = fdopen(file, "r+");
    return cut_steps(folder, training, status);
}

static bool open_settings(struct train_folder *folder, const struct trial *trial, struct status *status)
{
    json_t *settings = train_settings(trial);
    size_t steps = trial->train.steps;
    bool ok = folder->begun ? check_settings(folder, settings, &steps, status)
                            : folder_write_json(folder->path, SETTINGS, json_incref(settings), status);
    folder->finished =
        is_there(folder, trial->lora.rank ? FOLDER_ADAPTER : FOLDER_WEIGHTS); // the last file written
    folder->step = checkpoint_last(folder->path);
    if (ok && steps != trial->train.steps)
        ok = check_steps(folder, &trial->train, steps, status) && begin_longer(folder, settings, status);
    json_decref(settings);
    return ok;
}

bool train_folder_open(struct train_folder *folder, const char *path, const struct trial *trial, bool resume,
                       struct status *status)
{
    *folder = (struct train_folder){.path = path, .lock = -1};
    if (!open_locked(folder, resume, status))
        return false;
    bool empty = tidy(folder);
    folder->begun = is_there(folder, SETTINGS);
    if (!empty && !resume)
        return status_set(status, STATUS_BAD_INPUT, "%s: is there already, and not empty%s", path,
                          folder->begun ? "; --resume continues its training run" : "");
    if (!empty && !folder->begun)
        return status_set(status, STATUS_BAD_INPUT, "%s: holds no training run that could be resumed", path);
    folder->ours = !folder->begun;
    return open_settings(folder, trial, status) && (folder->finished || open_steps(folder, &trial->train, status));
}

bool train_folder_note(struct train_folder *folder, const char *line, struct status *status)
{
    folder->begun = true;
    return (fprintf(folder->steps, "%s\n", line) > 0 && fflush(folder->steps) == 0) ||
           failed(folder, "write to " STEPS, status);
}

void train_folder_share(struct train_folder *folder, const char *path, const struct world *world)
{
    if (world->comm.rank > 0)
        *folder = (struct train_folder){.path = path, .lock = -1};
    world->ops->broadcast(world, &folder->finished, sizeof folder->finished);
    world->ops->broadcast(world, &folder->step, sizeof folder->step);
}

// Syncs the lines to disk.
static bool sync_steps(const struct train_folder *folder, struct status *status)
{
    return !folder->steps || io_sync(fileno(folder->steps)) || failed(folder, "write to " STEPS, status);
}

bool train_folder_checkpoint(struct train_folder *folder, size_t step, size_t keep, struct model *model,
                             const char *base, const struct world *world, struct status *status)
{
    if (!sync_steps(folder, status) || !checkpoint_write(folder->path, step, model, base, world, status))
        return false;
    folder->step = step;
    if (world->comm.rank == 0)
        checkpoint_prune(folder->path, keep);
    return true;
}

bool train_folder_finish(struct train_folder *folder, struct model *model, const char *base,
                         const struct world *world, struct status *status)
{
    return sync_steps(folder, status) && folder_save(folder->path, model, base, world, status);
}

void train_folder_close(struct train_folder *folder)
{
    if (folder->steps)
        fclose(folder->steps);
    if (folder->ours && !folder->begun) {
        unlinkat(folder->lock, STEPS, 0);
        unlinkat(folder->lock, SETTINGS, 0);
        if (folder->made)
            rmdir(folder->path);
    }
    if (folder->lock >= 0)
        close(folder->lock);
    *folder = (struct train_folder){.lock = -1};
}
