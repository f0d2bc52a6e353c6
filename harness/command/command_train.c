// Command: `longbp train`, a training run of a model on a file of tokens.
#include "harness/command/command.h"
#include "harness/command/trial_flags.h"
#include "harness/files/folder.h"
#include "harness/files/share.h"
#include "harness/run/checkpoint.h"
#include "harness/run/choice.h"
#include "harness/run/progress.h"
#include "harness/run/train.h"
#include "harness/run/train_folder.h"
#include "harness/spec/method_decode.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum flag { FLAG_TOKENS = 0x100, FLAG_TOKEN_DTYPE, FLAG_OUT, FLAG_RESUME, FLAG_CHECKPOINT, FLAG_KEEP };

// What means nothing here, or has a flag of the command's own.
static const char *const without[] = {"profile", "labels", "documents", "parallel", NULL};

static const struct argp_option own_flags[] = {
    {.name = "tokens",
     .key = FLAG_TOKENS,
     .arg = "FILE",
     .doc = "token ids, of which every window is one sequence (random ones)"},
    {.name = "token-dtype", .key = FLAG_TOKEN_DTYPE, .arg = "KIND", .doc = "bytes, u16 or u32 (bytes)"},
    {.name = "out", .key = FLAG_OUT, .arg = "DIR", .doc = "new folder for weights, checkpoints and steps.jsonl"},
    {.name = "resume", .key = FLAG_RESUME, .doc = "go on after the last checkpoint in DIR, if there is one"},
    {.name = "checkpoint",
     .key = FLAG_CHECKPOINT,
     .arg = "N",
     .doc = "write weights and optimizer state every N steps (0: never, but when it is interrupted)"},
    {.name = "keep", .key = FLAG_KEEP, .arg = "N", .doc = "the last N checkpoints stay (1)"},
    {0}};

struct arguments {
    struct trial_flags flags;
    const char *tokens, *token_dtype, *out;
    bool resume;
    size_t checkpoint, keep;
};

static size_t count_of(const char *text, size_t least, const char *name, struct argp_state *state)
{
    char *end;
    errno = 0;
    unsigned long long count = strtoull(text, &end, 10);
    if (errno != 0 || *end || *text < '0' || *text > '9' || count < least)
        argp_error(state, "--%s is a whole number >= %zu, not \"%s\"", name, least, text);
    return (size_t)count;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case FLAG_TOKENS:
        arguments->tokens = text;
        return 0;
    case FLAG_TOKEN_DTYPE:
        arguments->token_dtype = text;
        return 0;
    case FLAG_OUT:
        arguments->out = text;
        return 0;
    case FLAG_RESUME:
        arguments->resume = true;
        return 0;
    case FLAG_CHECKPOINT:
        arguments->checkpoint = count_of(text, 0, "checkpoint", state);
        return 0;
    case FLAG_KEEP:
        arguments->keep = count_of(text, 1, "keep", state);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected \"%s\"", text);
        return 0;
    case ARGP_KEY_END:
        if (!json_object_get(arguments->flags.trial, "model") || !arguments->out)
            argp_error(state, "--model and --out are needed");
        return 0;
    default:
        return trial_flags_parse(&arguments->flags, key, text);
    }
}

// Fills in what is not the default of a trial: that it trains, with AdamW unless another optimizer is given.
static bool complete(struct arguments *arguments, struct status *status)
{
    json_t *trial = arguments->flags.trial;
    const char *kind = arguments->token_dtype;
    bool bytes = strcmp(kind, "bytes") == 0;
    if (!bytes && strcmp(kind, "u16") != 0 && strcmp(kind, "u32") != 0)
        return status_set(status, STATUS_BAD_INPUT, "--token-dtype is bytes, u16 or u32, not \"%s\"", kind);
    if (json_object_get(trial, "data"))
        return status_set(status, STATUS_BAD_INPUT,
                          "--batch is a number of windows; a batch file is one step alone");
    if (arguments->tokens)
        json_object_set_new(trial, "data",
                            bytes ? json_pack("{s:s}", "text", arguments->tokens)
                                  : json_pack("{s:s, s:s}", "tokens", arguments->tokens, "dtype", kind));
    if (!json_object_get(trial, "train"))
        json_object_set_new(trial, "train", json_object());
    if (!json_object_get(trial, "optimizer"))
        json_object_set_new(trial, "optimizer", json_string(optimizers[0]->name));
    return true;
}

// --- what the run is, to be held against when it is resumed

static json_t *bytes_of(const char *path)
{
    struct stat info;
    char found[PATH_MAX];
    return path && stat(share_resolve(path, found), &info) == 0 ? json_integer(info.st_size) : json_null();
}

static json_t *settings_of(const struct trial *trial)
{
    static const char *const free_to_change[] = {"limits", "host", "measure", NULL};
    json_t *settings = json_loads(trial->canonical, 0, NULL);
    CHECK(settings);
    for (size_t i = 0; free_to_change[i]; i++)
        json_object_del(settings, free_to_change[i]);
    json_object_set_new(settings, "method", method_json(trial->method, trial->options)); // of auto what was chosen
    json_object_set_new(settings, "data_bytes", bytes_of(trial->data.path));
    json_object_set_new(settings, "evaluate_bytes", bytes_of(trial->train.evaluate.path));
    return settings;
}

// --- the run

struct running {
    const struct arguments *arguments;
    const struct trial *trial;
    struct setup setup;
    struct train train;
    struct train_folder folder;
    struct progress progress;
    struct step_report report;
    size_t begun; // steps that were done before
    bool interrupted;
};

static volatile sig_atomic_t signalled;

static void note_signal(int number)
{
    (void)number;
    signalled = 1;
}

// A second one ends the program at once.
static void catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = {.sa_handler = note_signal, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
        sigaction(numbers[i], &action, NULL);
    }
}

static bool device_fine(const struct running *run, struct status *status)
{
    const struct status *device = &run->setup.device->status;
    return device->code == STATUS_OK ||
           status_set(status, device->code, "after step %zu: %.900s", run->train.step, device->message);
}

// The line, on stdout and in the folder.
static bool put(struct running *run, json_t *line, struct status *status)
{
    char *text = json_dumps(line, JSON_COMPACT);
    CHECK(text);
    if (isatty(STDOUT_FILENO))
        progress_clear(&run->progress);
    puts(text);
    fflush(stdout);
    bool ok = train_folder_note(&run->folder, text, status);
    free(text);
    json_decref(line);
    return ok;
}

static bool put_step(struct running *run, struct status *status)
{
    const struct train *train = &run->train;
    const struct trial *trial = run->trial;
    double tokens = (double)(trial->context * trial->batch * trial->train.accumulate);
    json_t *norm = json_real(train->gradient_norm); // NULL when it is not known
    json_t *line =
        json_pack("{s:I, s:f, s:o, s:f, s:f, s:f, s:I}", "step", (json_int_t)train->step, "loss", run->report.loss,
                  "gradient_norm", norm ? norm : json_null(), "rate", train->rate, "ms",
                  round(1e3 * run->report.ms) / 1e3, "tokens_per_s", round(1e6 * tokens / run->report.ms) / 1e3,
                  "peak_bytes", (json_int_t)run->setup.device->arena.peak_bytes);
    char words[128];
    CHECK(line);
    snprintf(words, sizeof words, "step %zu of %zu, loss %.4f", train->step, trial->train.steps, run->report.loss);
    bool ok = put(run, line, status);
    progress_step(&run->progress, train->step - run->begun, words);
    return ok;
}

static bool evaluate(struct running *run, struct status *status)
{
    double loss;
    if (!train_evaluates(&run->train))
        return true;
    if (!train_evaluate(&run->train, &loss, status) || !device_fine(run, status))
        return false;
    if (!isfinite(loss))
        return status_set(status, STATUS_FAILED, "the evaluation's loss after step %zu is not finite",
                          run->train.step);
    return put(run, json_pack("{s:I, s:f}", "step", (json_int_t)run->train.step, "evaluation_loss", loss), status);
}

static bool checkpoint(struct running *run, struct status *status)
{
    const struct arguments *arguments = run->arguments;
    size_t step = run->train.step;
    bool last = step == run->trial->train.steps;
    bool due = arguments->checkpoint && step % arguments->checkpoint == 0;
    run->interrupted = signalled && !last;
    return !(due || run->interrupted) ||
           train_folder_checkpoint(&run->folder, step, arguments->keep, &run->setup.model, run->trial->model_folder,
                                   status);
}

static bool take_steps(struct running *run, struct status *status)
{
    size_t steps = run->trial->train.steps;
    progress_open(&run->progress, NULL, steps - run->begun);
    bool ok = run->begun > 0 || evaluate(run, status);
    while (ok && run->train.step < steps && !run->interrupted)
        ok = train_step(&run->train, &run->report, status) && device_fine(run, status) && put_step(run, status) &&
             evaluate(run, status) && checkpoint(run, status);
    progress_clear(&run->progress);
    if (!ok && run->setup.device->status.code != STATUS_OK)
        device_fine(run, status);
    return ok && (run->interrupted ||
                  train_folder_finish(&run->folder, &run->setup.model, run->trial->model_folder, status));
}

// The weights, the last checkpoint, and one that is being written.
static bool check_room(const struct running *run, struct status *status)
{
    size_t kept = run->arguments->checkpoint ? run->arguments->keep + 1 : 0;
    return folder_has_room(run->arguments->out, (kept + 1) * checkpoint_bytes(&run->setup.model),
                           "weights and checkpoints", "or fewer checkpoints (--keep)", status);
}

static bool begin(struct running *run, struct status *status)
{
    struct setup_options options = setup_options_of(run->trial);
    if (!setup_open(&run->setup, run->trial, &options, status) ||
        !train_open(&run->train, run->trial, &run->setup, status) || !check_room(run, status))
        return false;
    run->begun = run->train.step = run->folder.step;
    if (run->begun)
        fprintf(stderr, "%s: going on after step %zu of %zu\n", run->arguments->out, run->begun,
                run->trial->train.steps);
    return !run->begun || (checkpoint_read(run->arguments->out, run->begun, &run->setup.model, status) &&
                           device_fine(run, status));
}

static bool train(const struct trial *trial, const struct arguments *arguments, bool *interrupted,
                  struct status *status)
{
    struct running *run = calloc(1, sizeof *run);
    CHECK(run);
    run->arguments = arguments;
    run->trial = trial;
    json_t *settings = settings_of(trial);
    catch_signals();
    bool ok = train_folder_open(&run->folder, arguments->out, settings, arguments->resume, status);
    if (ok && run->folder.finished)
        fprintf(stderr, "%s: nothing left to do: all %zu steps are done\n", arguments->out, trial->train.steps);
    else
        ok = ok && begin(run, status) && take_steps(run, status);
    *interrupted = run->interrupted;
    if (run->folder.steps && run->folder.step && (!ok || run->interrupted))
        fprintf(stderr, "%s: stopped; the same command with --resume goes on after step %zu\n", arguments->out,
                run->folder.step);
    train_close(&run->train);
    setup_close(&run->setup);
    train_folder_close(&run->folder);
    step_report_free(&run->report);
    json_decref(settings);
    free(run);
    return ok;
}

// A plan has no weights that could be written.
static bool check_device(const struct trial *trial, struct status *status)
{
    return !trial->planned || status_set(status, STATUS_BAD_INPUT, "--device %s trains nothing", trial->device);
}

int command_train(int argc, char **argv)
{
    struct arguments arguments = {.token_dtype = "bytes", .keep = 1};
    trial_flags_open(&arguments.flags, without, own_flags);
    const struct argp argp = {
        .options = arguments.flags.options,
        .parser = parse,
        .doc = "Trains a model and writes its weights, or with --lora a PEFT adapter, to DIR; prints a line of "
               "JSON per "
               "step and per evaluation, which DIR/steps.jsonl keeps.\vThe sequences are windows of --context "
               "tokens, in "
               "the order of the file and again from its beginning; the last token of each has no target. With "
               "--checkpoint a run that was ended, by whatever, goes on by --resume and ends with the same bits "
               "(on a card "
               "with --deterministic). Values of --chunk and the like are spelled as in specs."};
    struct status status = {0};
    struct trial trial = {0};
    bool interrupted = false;
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    bool done = complete(&arguments, &status) && trial_flags_decode(&arguments.flags, NULL, &trial, &status) &&
                check_device(&trial, &status) && choose_within(&trial, &status) &&
                train(&trial, &arguments, &interrupted, &status);
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    trial_free(&trial);
    trial_flags_close(&arguments.flags);
    bool step_failed = status.code == STATUS_OOM || status.code == STATUS_FAILED;
    if (done)
        return interrupted ? EXIT_INTERRUPTED : EXIT_FINE;
    return step_failed ? EXIT_CHECK_FAILED : EXIT_BAD_INPUT;
}
