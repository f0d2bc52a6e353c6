// Command: `longbp train`, a training run on a file of tokens or on batch files.
#include "harness/command/rank_command.h"
#include "harness/data/token_summary.h"
#include "harness/folder/folder.h"
#include "harness/json/number_json.h"
#include "harness/options/command.h"
#include "harness/options/spec_doubts.h"
#include "harness/options/trial_flags.h"
#include "harness/process/interrupt.h"
#include "harness/step/ranks.h"
#include "harness/sweep/progress.h"
#include "harness/text/size.h"
#include "harness/train/checkpoint.h"
#include "harness/train/train.h"
#include "harness/train/train_folder.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

// Keys that do not apply here, or that a flag of the command replaces.
static const char *const without[] = {"profile", "interconnect", "labels", "documents", "prompt", NULL};

struct arguments {
    struct trial_flags flags;
    const char *tokens, *token_dtype, *out, *launch;
    bool resume, lost_updates, as_rank;
    bool interrupted; // the run
    size_t sequences, checkpoint, keep_checkpoints;
    enum progress_detail detail;
};

static const struct flag own_flags[] = {
    {"tokens", .flags = OPTION_FIRST, TEXT_AT(struct arguments, tokens), .arg = "FILE",
     .doc = "token ids, cut into windows of --context tokens: .npy, llm.c's .bin, or raw (random ones)"},
    {"token-dtype", TEXT_AT(struct arguments, token_dtype), .arg = "bytes|u16|u32",
     .doc = "dtype of a raw file of token ids (bytes, if the vocabulary is 256)"},
    {"sequences", COUNT_AT(struct arguments, sequences, 1, 0), .arg = "N",
     .doc = "sequences per micro-batch from --batch FILE or a folder of batch files; for windows use --batch N "
            "(required with batch files)"},
    {"out", .flags = OPTION_FIRST, TEXT_AT(struct arguments, out), .arg = "DIR",
     .doc = "new folder for weights, checkpoints and steps.jsonl (required)"},
    {"resume", .flags = OPTION_FIRST, SET_AT(struct arguments, resume),
     .doc = "resume after the last checkpoint in DIR, if there is one; --steps may grow if completed steps keep "
            "their learning rates"},
    {"checkpoint", COUNT_AT(struct arguments, checkpoint, 0, 0), .arg = "N",
     .doc = "write weights and optimizer state every N steps (0: only when interrupted)"},
    {"keep-checkpoints", COUNT_AT(struct arguments, keep_checkpoints, 1, 0), .arg = "N",
     .doc = "number of checkpoints to keep (1)"},
    {"lost-updates", SET_AT(struct arguments, lost_updates),
     .doc = "print for each step in bf16 the share of the updates that rounding lost, and of weights that did not "
            "change"},
    {"launch", TEXT_AT(struct arguments, launch), .arg = "LAUNCHER",
     .doc = "launcher of the ranks of --parallel, such as \"srun -n {ranks}\" (mpirun, on this machine)"},
    {"as-rank", SET_AT(struct arguments, as_rank), .flags = OPTION_HIDDEN},
    {"quiet", VALUE_AT(struct arguments, detail, PROGRESS_QUIET),
     .doc = "do not print steps, which DIR/steps.jsonl has"},
    {"verbose", VALUE_AT(struct arguments, detail, PROGRESS_VERBOSE),
     .doc = "print the trained model, its memory before the first step, and each checkpoint"},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_END:
        arguments_need(state, "--model", json_object_get(arguments->flags.trial, "model"), "--out", arguments->out);
        return 0;
    default:
        return trial_flags_parse(&arguments->flags, key, text);
    }
}

// A resumed run keeps the method that auto chose at the start. A new choice could differ and end with other bits.
static void keep_choice(struct arguments *arguments)
{
    const char *name = json_string_value(json_object_get(arguments->flags.method, "name"));
    if (!arguments->resume || !name || strcmp(name, method_auto.name) != 0)
        return;
    json_t *settings = train_folder_settings(arguments->out), *method = arguments->flags.method;
    json_t *offload = json_incref(json_object_get(method, "offload"));
    json_object_update(method, json_object_get(settings, "method"));
    if (offload) // another one is refused
        json_object_set_new(method, "offload", offload);
    json_decref(settings);
}

// Sets defaults that differ from a trial's: training, with AdamW unless another optimizer is given.
static bool complete(struct arguments *arguments, struct status *status)
{
    json_t *trial = arguments->flags.trial;
    bool files = json_object_get(trial, "data"); // of batches
    if (files && arguments->tokens)
        return status_set(status, STATUS_BAD_INPUT, "--tokens and a batch file are both given; give one");
    if (files && !arguments->sequences)
        return status_set(status, STATUS_BAD_INPUT,
                          "--sequences is missing: give the number of sequences of --batch per micro-batch");
    if (!files && arguments->sequences)
        return status_set(status, STATUS_BAD_INPUT,
                          "--sequences needs a batch file: give one with --batch FILE, or --batch %zu for windows",
                          arguments->sequences);
    if (files)
        json_object_set_new(trial, "batch", json_integer((json_int_t)arguments->sequences));
    if (!trial_flags_set_tokens(&arguments->flags, arguments->tokens, arguments->token_dtype, status))
        return false;
    if (!json_object_get(trial, "train"))
        json_object_set_new(trial, "train", json_object());
    if (arguments->lost_updates)
        json_object_set_new(trial, "measure", json_pack("{s:b}", "lost_updates", true));
    if (!json_object_get(trial, "optimizer"))
        json_object_set_new(trial, "optimizer", json_string(optimizers[0]->name));
    keep_choice(arguments);
    return true;
}

// --- the run

struct running {
    const struct arguments *arguments;
    const struct trial *trial;
    const struct world *world;
    struct setup setup;
    struct train train;
    struct train_folder folder;
    struct progress progress;
    struct step_report report;
    size_t begun; // steps done before this process
    bool interrupted;
};

static bool device_fine(const struct running *run, struct status *status)
{
    const struct status *device = &run->setup.device->status;
    return device->code == STATUS_OK ||
           status_set(status, device->code, "after step %zu: %.900s", run->train.step, device->message);
}

static bool is_first(const struct running *run)
{
    return run->world->comm.rank == 0;
}

// Writes a line to stdout and to the folder; with several ranks the first does.
static bool put(struct running *run, json_t *line, struct status *status)
{
    if (!is_first(run)) {
        json_decref(line);
        return true;
    }
    char *text = json_dumps(line, JSON_COMPACT);
    if (isatty(STDOUT_FILENO))
        progress_clear(&run->progress);
    if (run->arguments->detail != PROGRESS_QUIET)
        puts(text);
    bool shown = fflush(stdout) == 0, gone = !shown && errno == EPIPE;
    if (gone)
        interrupt_ask(); // stdout has no reader
    else if (!shown)
        status_set(status, STATUS_IO, "cannot write to stdout: %s", strerror(errno));
    bool ok = (shown || gone) && train_folder_note(&run->folder, text, status);
    free(text);
    json_decref(line);
    return ok;
}

// Maximum over the ranks.
static size_t peak_bytes(const struct running *run)
{
    const struct world *world = run->world;
    size_t max = run->setup.device->arena.peak_bytes, *all = calloc(world->comm.size, sizeof *all);
    world->ops->gather(world, all, &max, sizeof max);
    for (size_t rank = 0; is_first(run) && rank < world->comm.size; rank++)
        max = all[rank] > max ? all[rank] : max;
    free(all);
    return max;
}

// Adds the metrics of the objective.
static void add_metrics(json_t *line, const struct trial *trial, const char *prefix, const double *metrics)
{
    for (int m = 0; m < OBJECTIVE_METRICS; m++) {
        char key[64];
        snprintf(key, sizeof key, "%s%s", prefix, objective_metrics[m].name);
        if (trial_has_metric(trial, (enum objective_metric)m, *prefix))
            json_object_set_new(line, key, number_json(metrics[m]));
    }
}

static bool put_step(struct running *run, struct status *status)
{
    const struct train *train = &run->train;
    const struct trial *trial = run->trial;
    double tokens = (double)(trial->context * trial->batch * trial->train.accumulate);
    json_t *line = json_pack("{s:I, s:f, s:o, s:f, s:f, s:f, s:I}", "step", (json_int_t)train->step, "loss",
                             train->sums.loss, "gradient_norm", number_json(train->gradient_norm), "rate",
                             train->rate, "ms", round(1e3 * run->report.ms) / 1e3, "tokens_per_s",
                             round(1e6 * tokens / run->report.ms) / 1e3, "peak_bytes", (json_int_t)peak_bytes(run));
    char words[128];
    CHECK(line);
    if (trial->measure.lost_updates) {
        json_object_set_new(line, "lost_updates", number_json(lost_updates_lost(&train->lost_updates)));
        json_object_set_new(line, "unchanged_weights", number_json(lost_updates_unchanged(&train->lost_updates)));
    }
    add_metrics(line, trial, "", train->sums.metrics);
    snprintf(words, sizeof words, "step %zu of %zu, loss %.4f", train->step, trial->train.steps, train->sums.loss);
    bool ok = put(run, line, status);
    progress_step(&run->progress, train->step - run->begun, words);
    return ok;
}

static bool evaluate(struct running *run, struct status *status)
{
    struct objective_sums found;
    if (!train_evaluates(&run->train))
        return true;
    if (!train_evaluate(&run->train, &found, status) || !device_fine(run, status))
        return false;
    if (!isfinite(found.loss))
        return status_set(status, STATUS_FAILED, "the evaluation's loss after step %zu is not finite",
                          run->train.step);
    json_t *line = json_pack("{s:I, s:f}", "step", (json_int_t)run->train.step, "evaluation_loss", found.loss);
    CHECK(line);
    add_metrics(line, run->trial, "evaluation_", found.metrics);
    return put(run, line, status);
}

// Number of checkpoints to keep.
static size_t kept_of(const struct arguments *arguments)
{
    return arguments->keep_checkpoints ? arguments->keep_checkpoints : 1;
}

static bool checkpoint(struct running *run, struct status *status)
{
    const struct arguments *arguments = run->arguments;
    size_t step = run->train.step;
    bool last = step == run->trial->train.steps;
    bool due = arguments->checkpoint && step % arguments->checkpoint == 0;
    run->interrupted = interrupt_asked() && !last;
    if (!due && !run->interrupted)
        return true;
    if (!train_folder_checkpoint(&run->folder, step, kept_of(arguments), &run->setup.model,
                                 run->trial->model_folder, run->world, status))
        return false;
    if (arguments->detail == PROGRESS_VERBOSE && is_first(run)) {
        progress_clear(&run->progress);
        fprintf(stderr, "%s: checkpoint after step %zu\n", arguments->out, step);
    }
    return true;
}

static bool take_steps(struct running *run, struct status *status)
{
    size_t steps = run->trial->train.steps;
    progress_open(&run->progress, NULL, steps - run->begun,
                  is_first(run) ? run->arguments->detail : PROGRESS_QUIET);
    bool ok = run->begun > 0 || evaluate(run, status);
    while (ok && run->train.step < steps && !run->interrupted)
        ok = train_step(&run->train, &run->report, status) && device_fine(run, status) && put_step(run, status) &&
             evaluate(run, status) && checkpoint(run, status);
    progress_clear(&run->progress);
    if (!ok && run->setup.device->status.code != STATUS_OK)
        device_fine(run, status);
    return ok && (run->interrupted || train_folder_finish(&run->folder, &run->setup.model, run->trial->model_folder,
                                                          run->world, status));
}

// Checks disk space for the weights, the last checkpoint, and one being written.
static bool check_room(const struct running *run, struct status *status)
{
    size_t kept = run->arguments->checkpoint ? kept_of(run->arguments) + 1 : 0;
    size_t bytes = checkpoint_bytes(&run->setup.model, run->world);
    return folder_has_room(run->arguments->out, (kept + 1) * bytes, "weights and checkpoints",
                           "or fewer checkpoints (--keep-checkpoints)", status);
}

static void tell_begin(const struct running *run)
{
    const struct trial *trial = run->trial;
    const char *out = run->arguments->out;
    if (run->arguments->detail != PROGRESS_QUIET && run->begun)
        fprintf(stderr, "%s: going on after step %zu of %zu\n", out, run->begun, trial->train.steps);
    if (run->arguments->detail != PROGRESS_QUIET && !run->begun && trial->data.kind == DATA_RANDOM)
        fprintf(stderr, "%s: trains on random tokens, for no --tokens was given\n", out);
    if (run->arguments->detail != PROGRESS_VERBOSE)
        return;
    char size[32];
    size_text(run->setup.device->arena.live_bytes, size, sizeof size);
    fprintf(stderr, "%s: %zu steps of %zu sequences of %zu tokens, method %s, on %s; %s before the first step\n",
            out, trial->train.steps, trial->batch * trial->train.accumulate, trial->context, trial->method->name,
            trial->device, size);
}

static bool begin(struct running *run, struct status *status)
{
    struct setup_options options = setup_options_of(run->trial);
    char device[RANK_DEVICE_BYTES];
    ranks_device(device, run->trial, run->world);
    options.device = device;
    options.ranks = run->world->comm.size > 1 ? &run->world->comm : NULL;
    if (!train_open(&run->train, run->trial, run->world, false, status) ||
        !setup_open(&run->setup, run->trial, &options, status) || !check_room(run, status))
        return false;
    train_begin(&run->train, &run->setup);
    run->begun = run->train.step = run->folder.step;
    if (is_first(run))
        tell_begin(run);
    return !run->begun ||
           (checkpoint_read(run->arguments->out, run->begun, &run->setup.trainer, run->world, status) &&
            device_fine(run, status));
}

// With several ranks an interrupt ends all at once, like any failure: their checkpoints could be of different
// steps.
static bool train(const struct trial *trial, const struct world *world, void *context, struct status *status)
{
    struct arguments *arguments = context;
    struct running *run = calloc(1, sizeof *run);
    run->arguments = arguments;
    run->trial = trial;
    run->world = world;
    if (world->comm.size == 1)
        interrupt_open();
    bool ok = !is_first(run) || train_folder_open(&run->folder, arguments->out, trial, arguments->resume, status);
    if (ok)
        train_folder_share(&run->folder, arguments->out, world);
    bool nothing_left = ok && run->folder.finished;
    if (nothing_left && is_first(run) && arguments->detail != PROGRESS_QUIET)
        fprintf(stderr, "%s: nothing left to do: all %zu steps are done\n", arguments->out, trial->train.steps);
    bool begun = ok && !nothing_left && begin(run, status);
    if (!nothing_left)
        ok = begun && take_steps(run, status);
    arguments->interrupted = run->interrupted;
    if (begun && run->folder.steps && run->folder.step && (!ok || run->interrupted))
        fprintf(stderr, "%s: stopped; the same command with --resume goes on after step %zu\n", arguments->out,
                run->folder.step);
    train_close(&run->train);
    setup_close(&run->setup);
    train_folder_close(&run->folder);
    step_report_free(&run->report);
    free(run);
    return ok;
}

static bool check_checkpoints(const struct arguments *arguments, size_t steps, struct status *status)
{
    if (arguments->checkpoint > steps)
        return status_set(status, STATUS_BAD_INPUT,
                          "--checkpoint %zu would write none in %zu steps; give at most %zu, or leave it out",
                          arguments->checkpoint, steps, steps);
    return arguments->checkpoint || !arguments->keep_checkpoints ||
           status_set(status, STATUS_BAD_INPUT,
                      "--keep-checkpoints %zu needs --checkpoint N; give it, or leave both out",
                      arguments->keep_checkpoints);
}

// Refuses plans, which have no weights to write.
static bool check_trial(const struct trial *trial, const struct arguments *arguments, struct status *status)
{
    if (trial->planned)
        return status_set(status, STATUS_BAD_INPUT,
                          "--device %s does not train; give cpu or cuda, or plan a step with `longbp plan`",
                          trial->device);
    if (!check_checkpoints(arguments, trial->train.steps, status))
        return false;
    return !arguments->lost_updates || trial->measure.lost_updates ||
           status_set(status, STATUS_BAD_INPUT,
                      "--lost-updates needs weights in bf16 (--dtype bf16) that sgd or adamw updates");
}

// Adds this command's default optimizer to the help.
static void describe_optimizer(struct trial_flags *flags)
{
    char standard[80];
    snprintf(standard, sizeof standard, "%s, rate=%g", optimizers[0]->name,
             option_find(&optimizers[0]->options, "rate")->initial);
    trial_flags_describe(flags, "optimizer", standard);
}

// Prints the tokens' format and checks all tokens that the run will read, so that it does not end at a wrong id.
static bool check_tokens(const struct trial *trial, bool quiet, struct status *status)
{
    const struct training *train = &trial->train;
    size_t tokens = train->steps;
    bool all = train->shuffle || train->held_out > 0 ||
               __builtin_mul_overflow(tokens, train->accumulate, &tokens) ||
               __builtin_mul_overflow(tokens, trial->batch, &tokens) ||
               __builtin_mul_overflow(tokens, trial->context, &tokens);
    return token_summary_say(&trial->data, trial->config.vocab, all ? SIZE_MAX : tokens, quiet, status) &&
           token_summary_say(&train->evaluate, trial->config.vocab, SIZE_MAX, quiet, status);
}

int command_train(int argc, char **argv)
{
    struct arguments arguments = {0};
    trial_flags_open(&arguments.flags, without, own_flags);
    describe_optimizer(&arguments.flags);
    const struct argp argp = {
        .options = arguments.flags.options,
        .parser = parse,
        .doc = "Trains a model and writes its weights, or with --lora a PEFT adapter, to DIR; prints a line of "
               "JSON per step and per evaluation, also kept in DIR/steps.jsonl.\vThe sequences are windows of "
               "--context tokens, in file order and repeatedly, the last token of each without a target; or, with "
               "--batch FILE --sequences N, those of a batch file or a folder of batch files, with their labels, "
               "documents, pairs, groups, log-probs and advantages. With --checkpoint an interrupted run resumes "
               "with --resume and ends with the same bits (on a card with --deterministic). Values of --chunk and "
               "similar options are spelled as in specs."};
    struct status status = {0};
    struct trial trial = {0};
    arguments_parse(&argp, own_flags, argc, argv, &arguments);
    int code = EXIT_BAD_INPUT;
    if (complete(&arguments, &status) && trial_flags_decode(&arguments.flags, NULL, &trial, &status) &&
        check_trial(&trial, &arguments, &status) &&
        (arguments.as_rank || check_tokens(&trial, arguments.detail == PROGRESS_QUIET, &status))) {
        if (!arguments.as_rank)
            spec_doubts_say_trial(&trial);
        code =
            rank_command_run(&trial, arguments.launch, arguments.as_rank, train, &arguments, argc, argv, &status);
    }
    if (command_end(argv[0], &status) != EXIT_FINE)
        code = rank_command_code(&status);
    else if (arguments.interrupted)
        code = EXIT_INTERRUPTED;
    trial_free(&trial);
    trial_flags_close(&arguments.flags);
    return code;
}
