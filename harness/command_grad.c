// Command: `longbp grad`, one step's gradient of a model on given tokens, written to a file.
// The flags become the JSON object that a spec would hold, and the decoder of specs checks it.
#include "harness/arguments.h"
#include "harness/command.h"
#include "harness/flags.h"
#include "harness/gradients.h"
#include "harness/setup.h"
#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum flag { FLAG_TOKENS = 0x100, FLAG_TOKEN_DTYPE, FLAG_MEMORY_LIMIT, FLAG_METHOD, FLAG_OUT, FLAG_LORA, FLAG_CELL };

// Flags that are a cell's key of the same name, typed as a plain value.
static const struct argp_option cell_flags[] = {
    {.name = "model", .arg = "DIR|PRESET", .doc = "folder with config.json and *.safetensors, or a preset"},
    {.name = "dtype", .arg = "DTYPE", .doc = "f64, f32 or bf16 (f32)"},
    {.name = "device", .arg = "DEVICE", .doc = "where to compute (cpu)"},
    {.name = "context", .arg = "N", .doc = "tokens per sequence (all of the file)"},
    {.name = "batch", .arg = "N", .doc = "sequences (1)"},
    {.name = "seed", .arg = "N", .doc = "of a preset's random weights, and of random tokens (1)"},
    {.name = "labels", .arg = "FILE", .doc = "little-endian int32, -100: no target (the next token)"},
    {.name = "kv-gradient-dtype", .arg = "DTYPE", .doc = "accumulator of the gradient of keys and values"},
    {.name = "gradient-dtype", .arg = "DTYPE", .doc = "accumulator of the weights' gradients"},
};
#define CELL_FLAGS (sizeof cell_flags / sizeof *cell_flags)

static const struct argp_option own_flags[] = {
    {.name = "tokens", .key = FLAG_TOKENS, .arg = "FILE", .doc = "token ids (random ones)"},
    {.name = "token-dtype", .key = FLAG_TOKEN_DTYPE, .arg = "KIND", .doc = "bytes, u16 or u32 (bytes)"},
    {.name = "memory-limit", .key = FLAG_MEMORY_LIMIT, .arg = "BYTES", .doc = "such as 24GiB (what is free)"},
    {.name = "lora", .key = FLAG_LORA, .arg = "r=8,alpha=16,targets=q,v", .doc = "train LoRA factors alone"},
    {.name = "out", .key = FLAG_OUT, .arg = "FILE", .doc = "the gradients, safetensors"},
    {.name = "method", .key = FLAG_METHOD, .arg = "NAME", .doc = "see `longbp list methods` (full)"},
};
#define OWN_FLAGS (sizeof own_flags / sizeof *own_flags)

struct arguments {
    json_t *cell, *method;
    const char *tokens, *token_dtype, *out;
};

static size_t option_count(void)
{
    size_t count = 0;
    while (method_option_table[count].name)
        count++;
    return count;
}

// head_chunk as head-chunk, and the other way round.
static char *respelled(const char *name, char from, char to)
{
    char *copy = strdup(name);
    CHECK(copy);
    for (char *c = copy; *c; c++)
        *c = *c == from ? to : *c;
    return copy;
}

// Adds the flag under `name` with hyphens, and a hidden alias with underscores; the names live until release_flags.
static void add_flag(struct argp_option **next, struct argp_option flag)
{
    flag.name = respelled(flag.name, '_', '-');
    *(*next)++ = flag;
    *(*next)++ =
        (struct argp_option){.name = respelled(flag.name, '-', '_'), .flags = OPTION_ALIAS | OPTION_HIDDEN};
}

static struct argp_option *make_flags(void)
{
    size_t options = option_count();
    struct argp_option *flags = calloc(2 * (CELL_FLAGS + OWN_FLAGS + options) + 2, sizeof *flags), *next = flags;
    CHECK(flags);
    for (size_t i = 0; i < CELL_FLAGS; i++) {
        struct argp_option flag = cell_flags[i];
        flag.key = FLAG_CELL + (int)i;
        add_flag(&next, flag);
    }
    for (size_t i = 0; i < OWN_FLAGS; i++)
        add_flag(&next, own_flags[i]);
    *next++ = (struct argp_option){.doc = "Options of the method:"};
    for (size_t i = 0; i < options; i++)
        add_flag(&next, (struct argp_option){.name = method_option_table[i].name,
                                             .key = FLAG_CELL + (int)(CELL_FLAGS + i),
                                             .arg = "VALUE",
                                             .doc = method_option_table[i].help});
    return flags;
}

static void release_flags(struct argp_option *flags)
{
    for (struct argp_option *flag = flags; flag->name || flag->doc; flag++)
        free((char *)flag->name);
    free(flags);
}

static void set_cell_flag(struct arguments *arguments, size_t index, const char *text)
{
    if (index < CELL_FLAGS) {
        char *key = respelled(cell_flags[index].name, '-', '_');
        bool is_text = strcmp(key, "model") == 0 || strcmp(key, "labels") == 0; // a folder may be called 7
        json_object_set_new(arguments->cell, key, is_text ? json_string(text) : flag_value(text));
        free(key);
        return;
    }
    const struct option *option = &method_option_table[index - CELL_FLAGS];
    json_object_set_new(arguments->method, option->name,
                        option->type == OPTION_LIST ? flag_list(text) : flag_value(text));
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
    case FLAG_MEMORY_LIMIT:
        json_object_set_new(arguments->cell, "limits", json_pack("{s:o}", "memory", flag_value(text)));
        return 0;
    case FLAG_LORA:
        json_object_set_new(arguments->cell, "lora", flag_object(text));
        return 0;
    case FLAG_METHOD:
        json_object_set_new(arguments->method, "name", json_string(text));
        return 0;
    case FLAG_OUT:
        arguments->out = text;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected \"%s\"", text);
        return 0;
    case ARGP_KEY_END:
        if (!json_object_get(arguments->cell, "model") || !arguments->out)
            argp_error(state, "--model and --out are needed");
        return 0;
    default:
        if (key < FLAG_CELL || (size_t)(key - FLAG_CELL) >= CELL_FLAGS + option_count())
            return ARGP_ERR_UNKNOWN;
        set_cell_flag(arguments, (size_t)(key - FLAG_CELL), text);
        return 0;
    }
}

// Fills in the data and, where none was given, the context: as many whole tokens as the file has per sequence.
static bool complete(struct arguments *arguments, struct status *status)
{
    json_t *cell = arguments->cell;
    const char *kind = arguments->token_dtype;
    bool bytes = strcmp(kind, "bytes") == 0;
    size_t token_bytes = bytes ? 1 : strcmp(kind, "u16") == 0 ? 2 : strcmp(kind, "u32") == 0 ? 4 : 0;
    if (!token_bytes)
        return status_set(status, STATUS_BAD_INPUT, "--token-dtype is bytes, u16 or u32, not \"%s\"", kind);
    // Before the step, not after it.
    char *copy = strdup(arguments->out), *folder = dirname(copy);
    if (access(folder, W_OK) != 0)
        status_set(status, STATUS_IO, "--out %s: %s: %s", arguments->out, folder, strerror(errno));
    free(copy);
    if (status->code != STATUS_OK)
        return false;
    json_object_set(cell, "method", arguments->method);
    if (!arguments->tokens)
        return true;
    json_object_set_new(cell, "data",
                        bytes ? json_pack("{s:s}", "text", arguments->tokens)
                              : json_pack("{s:s, s:s}", "tokens", arguments->tokens, "dtype", kind));
    json_int_t batch = json_integer_value(json_object_get(cell, "batch"));
    struct stat file;
    if (json_object_get(cell, "context"))
        return true;
    if (stat(arguments->tokens, &file) != 0)
        return status_set(status, STATUS_BAD_INPUT, "%s: %s", arguments->tokens, strerror(errno));
    json_int_t context = file.st_size / (json_int_t)token_bytes / (batch > 1 ? batch : 1);
    if (context == 0)
        return status_set(status, STATUS_BAD_INPUT, "%s: %lld bytes hold no token for every sequence",
                          arguments->tokens, (long long)file.st_size);
    json_object_set_new(cell, "context", json_integer(context));
    return true;
}

static void print_report(const struct cell *cell, const struct step_report *report, const struct setup *setup,
                         const char *out)
{
    json_t *columns = json_array();
    for (size_t i = 0; i < report->column_count; i++)
        json_array_append_new(columns, json_integer(report->columns[i]));
    json_t *loss = json_real(report->loss); // NULL when it is not finite
    json_t *object =
        json_pack("{s:o, s:s, s:o, s:I, s:s}", "loss", loss ? loss : json_null(), "method", cell->method->name,
                  "columns", columns, "peak_bytes", (json_int_t)setup->device->arena.peak_bytes, "out", out);
    CHECK(object && json_dumpf(object, stdout, 0) == 0);
    putchar('\n');
    json_decref(object);
}

static bool compute(const struct cell *cell, const char *out, struct status *status)
{
    struct setup setup;
    struct setup_options options = setup_options_of(cell);
    struct step_report *report = calloc(1, sizeof *report);
    CHECK(report);
    bool done = setup_open(&setup, cell, &options, status);
    if (done) {
        method_step(cell->method, &setup.model, &setup.batch, &cell->options, report);
        const struct status *step = &setup.device->status;
        done = step->code == STATUS_OK ? gradients_write(out, &setup.model, status)
                                       : status_set(status, step->code, "%s", step->message);
    }
    if (done)
        print_report(cell, report, &setup, out);
    setup_close(&setup);
    free(report);
    return done;
}

int command_grad(int argc, char **argv)
{
    struct argp_option *flags = make_flags();
    const struct argp argp = {
        .options = flags,
        .parser = parse,
        .doc =
            "Computes the gradient of one step and writes it as safetensors under Hugging Face names; prints the "
            "loss as JSON.\v--chunk 64 and --head_chunk 64 are spelled as in specs; hyphens do as well."};
    struct arguments arguments = {.cell = json_object(), .method = json_object(), .token_dtype = "bytes"};
    struct status status = {0};
    struct cell cell = {0};
    json_object_set_new(arguments.method, "name", json_string("full"));
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    char *json = complete(&arguments, &status) ? json_dumps(arguments.cell, 0) : NULL;
    bool done = json && cell_decode(&cell, json, "command line", &status) && compute(&cell, arguments.out, &status);
    if (!done)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    cell_free(&cell);
    free(json);
    json_decref(arguments.cell);
    json_decref(arguments.method);
    release_flags(flags);
    bool step_failed = status.code == STATUS_OOM || status.code == STATUS_FAILED;
    return done ? EXIT_FINE : step_failed ? EXIT_CHECK_FAILED : EXIT_BAD_INPUT;
}
