// Command: `longbp grad`, one step's gradient of a model on given tokens, written to a file.
#include "harness/command/command.h"
#include "harness/command/trial_flags.h"
#include "harness/files/gradients.h"
#include "harness/files/output_file.h"
#include "harness/run/setup.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum flag { FLAG_TOKENS = 0x100, FLAG_TOKEN_DTYPE, FLAG_OUT };

// What means nothing here, or has a flag of the command's own.
static const char *const without[] = {"profile", "optimizer", NULL};

static const struct argp_option own_flags[] = {
    {.name = "tokens", .key = FLAG_TOKENS, .arg = "FILE", .doc = "token ids (random ones)"},
    {.name = "token-dtype", .key = FLAG_TOKEN_DTYPE, .arg = "KIND", .doc = "bytes, u16 or u32 (bytes)"},
    {.name = "out", .key = FLAG_OUT, .arg = "FILE", .doc = "the gradients, safetensors"},
    {0}};

struct arguments {
    struct trial_flags flags;
    const char *tokens, *token_dtype, *out;
};

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

// Fills in the data and, where none was given, the context: as many whole tokens as the file has per sequence.
static bool complete(struct arguments *arguments, struct status *status)
{
    json_t *trial = arguments->flags.trial;
    const char *kind = arguments->token_dtype;
    bool bytes = strcmp(kind, "bytes") == 0;
    size_t token_bytes = bytes ? 1 : strcmp(kind, "u16") == 0 ? 2 : strcmp(kind, "u32") == 0 ? 4 : 0;
    if (!token_bytes)
        return status_set(status, STATUS_BAD_INPUT, "--token-dtype is bytes, u16 or u32, not \"%s\"", kind);
    if (!output_file_check(arguments->out, status)) // before the step, not after it
        return false;
    if (!arguments->tokens)
        return true;
    json_object_set_new(trial, "data",
                        bytes ? json_pack("{s:s}", "text", arguments->tokens)
                              : json_pack("{s:s, s:s}", "tokens", arguments->tokens, "dtype", kind));
    json_int_t batch = json_integer_value(json_object_get(trial, "batch"));
    struct stat file;
    if (json_object_get(trial, "context"))
        return true;
    if (stat(arguments->tokens, &file) != 0)
        return status_set(status, STATUS_BAD_INPUT, "%s: %s", arguments->tokens, strerror(errno));
    json_int_t context = file.st_size / (json_int_t)token_bytes / (batch > 1 ? batch : 1);
    if (context == 0)
        return status_set(status, STATUS_BAD_INPUT, "%s: %lld bytes hold no token for every sequence",
                          arguments->tokens, (long long)file.st_size);
    json_object_set_new(trial, "context", json_integer(context));
    return true;
}

static void print_report(const struct trial *trial, const struct step_report *report, const struct setup *setup,
                         const char *out)
{
    json_t *columns = json_array();
    for (size_t i = 0; i < report->columns.count; i++)
        json_array_append_new(columns, json_integer(report->columns.items[i]));
    json_t *loss = json_real(report->loss); // NULL when it is not finite
    json_t *object =
        json_pack("{s:o, s:s, s:o, s:I, s:s}", "loss", loss ? loss : json_null(), "method", trial->method->name,
                  "columns", columns, "peak_bytes", (json_int_t)setup->device->arena.peak_bytes, "out", out);
    CHECK(object && json_dumpf(object, stdout, 0) == 0);
    putchar('\n');
    json_decref(object);
}

static bool compute(const struct trial *trial, const char *out, struct status *status)
{
    struct setup setup;
    struct setup_options options = setup_options_of(trial);
    struct step_report report = {0};
    bool done = setup_open(&setup, trial, &options, status);
    if (done) {
        model_zero_gradients(&setup.model);
        method_step(trial->method, &setup.model, &setup.batch, trial->options, &report);
        const struct status *step = &setup.device->status;
        done = step->code == STATUS_OK ? gradients_write(out, &setup.model, status)
                                       : status_set(status, step->code, "%s", step->message);
    }
    if (done)
        print_report(trial, &report, &setup, out);
    setup_close(&setup);
    step_report_free(&report);
    return done;
}

// A plan has no data, so nothing that could be written.
static bool check_device(const struct trial *trial, struct status *status)
{
    return !trial->planned ||
           status_set(status, STATUS_BAD_INPUT,
                      "--device %s computes no gradient; `longbp plan` says what a step would take", trial->device);
}

int command_grad(int argc, char **argv)
{
    struct arguments arguments = {.token_dtype = "bytes"};
    trial_flags_open(&arguments.flags, without, own_flags);
    const struct argp argp = {
        .options = arguments.flags.options,
        .parser = parse,
        .doc =
            "Computes the gradient of one step and writes it as safetensors under Hugging Face names; prints the "
            "loss as JSON.\vWithout --context it takes all of the token file. --chunk 64 and --head_chunk 64 are "
            "spelled as in specs; hyphens do as well."};
    struct status status = {0};
    struct trial trial = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    bool done = complete(&arguments, &status) && trial_flags_decode(&arguments.flags, NULL, &trial, &status) &&
                check_device(&trial, &status) && compute(&trial, arguments.out, &status);
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    trial_free(&trial);
    trial_flags_close(&arguments.flags);
    bool step_failed = status.code == STATUS_OOM || status.code == STATUS_FAILED;
    return done ? EXIT_FINE : step_failed ? EXIT_CHECK_FAILED : EXIT_BAD_INPUT;
}
