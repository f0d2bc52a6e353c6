// Command: `longbp grad`, one step's gradient on given tokens, written to a file.
#include "harness/command/rank_command.h"
#include "harness/data/token_summary.h"
#include "harness/files/output_file.h"
#include "harness/json/number_json.h"
#include "harness/options/command.h"
#include "harness/options/spec_doubts.h"
#include "harness/options/trial_flags.h"
#include "harness/record/record.h"
#include "harness/spec/method_decode.h"
#include "harness/step/ranks.h"
#include "harness/step/setup.h"
#include "harness/tensors/gradients.h"
#include <math.h>
#include <string.h>

// Keys that do not apply here, or that a flag of the command replaces.
static const char *const without[] = {"train", "profile", "interconnect", "optimizer", NULL};

struct arguments {
    struct trial_flags flags;
    const char *tokens, *token_dtype, *out, *launch;
    bool as_rank; // this process is one of several ranks
};

static const struct flag own_flags[] = {
    {"tokens", .flags = OPTION_FIRST, TEXT_AT(struct arguments, tokens), .arg = "FILE",
     .doc = "token ids: .npy, llm.c's .bin, or raw (random ones)"},
    {"token-dtype", TEXT_AT(struct arguments, token_dtype), .arg = "bytes|u16|u32",
     .doc = "dtype of a raw file of token ids (bytes, if the vocabulary is 256)"},
    {"out", .flags = OPTION_FIRST, TEXT_AT(struct arguments, out), .arg = "FILE",
     .doc = "the gradients, safetensors (required)"},
    {"launch", TEXT_AT(struct arguments, launch), .arg = "LAUNCHER",
     .doc = "launcher of the ranks of --parallel, such as \"srun -n {ranks}\" (mpirun, on this machine)"},
    {"as-rank", SET_AT(struct arguments, as_rank), .flags = OPTION_HIDDEN},
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

static enum data_kind kind_of(const char *dtype)
{
    return !dtype                      ? DATA_ARRAY
           : strcmp(dtype, "u16") == 0 ? DATA_U16
           : strcmp(dtype, "u32") == 0 ? DATA_U32
                                       : DATA_BYTES;
}

// Fills in the data and, by default, a context of as many whole tokens as the file has per sequence.
static bool complete(struct arguments *arguments, struct status *status)
{
    json_t *trial = arguments->flags.trial;
    if (!output_file_check(arguments->out, status)) // before the step rather than after it
        return false;
    if (arguments->tokens && json_object_get(trial, "data"))
        return status_set(status, STATUS_BAD_INPUT, "--tokens and --batch FILE: a batch file has ids of its own");
    struct data_source source = {kind_of(arguments->token_dtype), (char *)arguments->tokens};
    size_t count = 0;
    if (!trial_flags_set_tokens(&arguments->flags, arguments->tokens, arguments->token_dtype, status))
        return false;
    if (!arguments->tokens || json_object_get(trial, "context"))
        return true;
    if ((source.kind == DATA_ARRAY && !tokens_kind(source.path, 0, &source.kind, status)) ||
        !tokens_count(&source, 0, &count, status))
        return false;
    json_int_t batch = json_integer_value(json_object_get(trial, "batch"));
    size_t context = count / (batch > 1 ? (size_t)batch : 1);
    if (context == 0 || count == SIZE_MAX)
        return status_set(status, STATUS_BAD_INPUT, "%s: %s; give --context", source.path,
                          context ? "is no regular file, and does not say how many tokens it has"
                                  : "has no token for every sequence");
    json_object_set_new(trial, "context", json_integer((json_int_t)context));
    return true;
}

static json_t *numbers_of(const struct index_list *chunks)
{
    json_t *numbers = json_array();
    for (size_t i = 0; i < chunks->count; i++)
        json_array_append_new(numbers, json_integer(chunks->items[i]));
    return numbers;
}

static void print_report(const struct trial *trial, const struct step_report *report, size_t peak_bytes,
                         const char *out)
{
    json_t *object = json_pack("{s:o, s:s, s:o, s:I, s:o}", "loss", number_json(report->sums.loss), "method",
                               trial->method->name, "drawn_chunks", numbers_of(&report->drawn_chunks), "peak_bytes",
                               (json_int_t)peak_bytes, "out", record_text(out));
    if (report->skipped_chunks.count)
        json_object_set_new(object, "skipped_chunks", numbers_of(&report->skipped_chunks));
    for (int m = METRIC_AUX_LOSS; m <= METRIC_ROUTER_Z_LOSS; m++)
        if (trial_has_metric(trial, (enum objective_metric)m, false))
            json_object_set_new(object, objective_metrics[m].name, number_json(report->sums.metrics[m]));
    if (trial->chosen)
        json_object_set_new(object, "chosen", trial_chosen(trial));
    command_print(object, 0);
}

// Rank 0 collects all gradients and writes them.
static bool write_all(const struct trial *trial, const struct setup *setup, const struct world *world,
                      const char *out, struct status *status)
{
    const struct model *model = &setup->model;
    if (world->comm.size == 1)
        return gradients_write(out, model, NULL, status);
    struct gradient_set set;
    ranks_gradients(&set, model, trial_split(trial), trial->context, world);
    const double **values = calloc(model->parameter_count + 1, sizeof *values);
    for (size_t i = 0, next = 0; i < model->parameter_count; i++)
        if (next < set.count && strcmp(model->parameters[i].name, set.tensors[next].name) == 0)
            values[i] = set.tensors[next++].values;
    bool done = world->comm.rank > 0 || gradients_write(out, model, values, status);
    free(values);
    gradient_set_free(&set);
    return done;
}

// Collects the ranks' sums and maximum peak memory.
static void gather(const struct world *world, struct objective_sums *sums, size_t *peak_bytes)
{
    struct objective_sums *all = calloc(world->comm.size, sizeof *all);
    size_t *peaks = calloc(world->comm.size, sizeof *peaks);
    world->ops->gather(world, all, sums, sizeof *sums);
    world->ops->gather(world, peaks, peak_bytes, sizeof *peak_bytes);
    for (size_t r = 1; r < world->comm.size; r++) {
        if (r == 1)
            *sums = all[0];
        objective_sums_add(sums, OBJECTIVE_SUMS, &all[r], 1);
        *peak_bytes = peaks[r] > *peak_bytes ? peaks[r] : *peak_bytes;
    }
    free(peaks);
    free(all);
}

static bool compute(const struct trial *trial, const struct world *world, void *context, struct status *status)
{
    const char *out = ((struct arguments *)context)->out;
    struct setup setup;
    struct setup_options options = setup_options_of(trial);
    struct step_report report = {0};
    char device[RANK_DEVICE_BYTES];
    ranks_device(device, trial, world);
    options.device = device;
    options.ranks = world->comm.size > 1 ? &world->comm : NULL;
    bool done = setup_open(&setup, trial, &options, status) && setup_check_targets(&setup, trial, status);
    if (done) {
        struct training_step step = setup_step(&setup, trial);
        training_step_take(&step, &report);
        done = status_take(status, &setup.device->status) && write_all(trial, &setup, world, out, status);
    }
    if (done) {
        size_t peak_bytes = setup.device->arena.peak_bytes;
        gather(world, &report.sums, &peak_bytes);
        if (world->comm.rank == 0)
            print_report(trial, &report, peak_bytes, out);
        if (world->comm.rank == 0 && !isfinite(report.sums.loss))
            done = status_set(status, STATUS_FAILED,
                              "the loss is not finite: a weight is not finite, or a value is too large for %s; the "
                              "gradient in %s is not finite either",
                              dtype_name(trial->dtype), out);
    }
    setup_close(&setup);
    step_report_free(&report);
    return done;
}

// Refuses plans, which have no data, and methods that compute only the loss.
static bool has_gradient(const struct trial *trial, struct status *status)
{
    if (trial->planned)
        return status_set(status, STATUS_BAD_INPUT, "--device %s computes no gradient; `longbp plan` plans a step",
                          trial->device);
    return !trial->method->no_gradient ||
           status_set(status, STATUS_BAD_INPUT, "--method %s computes no gradient; take another, such as %s",
                      trial->method->name, methods[0]->name);
}

int command_grad(int argc, char **argv)
{
    struct arguments arguments = {0};
    trial_flags_open(&arguments.flags, without, own_flags);
    trial_flags_describe(&arguments.flags, "context", "with --tokens FILE all of it; required for random tokens");
    const struct argp argp = {
        .options = arguments.flags.options,
        .parser = parse,
        .doc = "Computes the gradient of one step and writes it as safetensors under Hugging Face names; prints "
               "the loss as JSON.\vWithout --context it uses the whole token file. Options such as --head_chunk "
               "may be spelled as in specs or with hyphens. New LoRA factors A and B are both random, because with "
               "B = 0 the gradient of A would be 0."};
    struct status status = {0};
    struct trial trial = {0};
    arguments_parse(&argp, own_flags, argc, argv, &arguments);
    int code = EXIT_BAD_INPUT;
    if (complete(&arguments, &status) && trial_flags_decode(&arguments.flags, NULL, &trial, &status) &&
        has_gradient(&trial, &status) &&
        (arguments.as_rank ||
         token_summary_say(&trial.data, trial.config.vocab, trial.context * trial.batch, false, &status))) {
        if (!arguments.as_rank)
            spec_doubts_say_trial(&trial);
        code =
            rank_command_run(&trial, arguments.launch, arguments.as_rank, compute, &arguments, argc, argv, &status);
    }
    if (command_end(argv[0], &status) != EXIT_FINE)
        code = rank_command_code(&status);
    trial_free(&trial);
    trial_flags_close(&arguments.flags);
    return code;
}
