// Command: `longbp init`, a folder of random weights that this program and transformers can load.
#include "harness/folder/folder.h"
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "harness/sweep/progress.h"
#include "harness/text/names.h"
#include "harness/text/size.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

struct arguments {
    const char *model, *out, *dtype, *seed;
};

struct writing {
    const char *out;
    struct progress progress;
};

// Prints the size first, then the progress.
static void show(void *context, size_t bytes, size_t total_bytes)
{
    struct writing *writing = context;
    char size[32];
    if (bytes == 0) {
        size_text(total_bytes, size, sizeof size);
        size_t bytes_of_name = strlen(writing->out);
        while (bytes_of_name > 1 && writing->out[bytes_of_name - 1] == '/')
            bytes_of_name--;
        fprintf(stderr, "%.*s/" FOLDER_WEIGHTS ": %s\n", (int)bytes_of_name, writing->out, size);
        progress_open(&writing->progress, NULL, total_bytes, PROGRESS_PLAIN);
    }
    progress_bytes(&writing->progress, bytes);
}

static bool init(const struct arguments *arguments, struct status *status)
{
    if (!arguments->model || !arguments->out)
        return status_set(status, STATUS_BAD_INPUT, "--model and --out are needed");
    const struct config *config = config_preset(arguments->model);
    struct config of_folder;
    if (!config && access(arguments->model, F_OK) == 0) {
        if (!folder_read_config(arguments->model, &of_folder, status))
            return false;
        config = &of_folder;
    }
    if (!config) {
        struct names names = {0};
        for (const struct config *c = config_presets; c->name[0]; c++)
            names_add(&names, c->name);
        char hint[640];
        names_hint(&names, arguments->model, "models", hint, sizeof hint);
        return status_set(status, STATUS_BAD_INPUT, "no model \"%s\"; %s", arguments->model, hint);
    }
    enum dtype dtype;
    CHECK(dtype_from_name(arguments->dtype, &dtype));
    char *end;
    errno = 0;
    unsigned long long seed = strtoull(arguments->seed, &end, 10);
    if (errno != 0 || *end || arguments->seed[0] < '0' || arguments->seed[0] > '9')
        return status_set(status, STATUS_BAD_INPUT, "--seed is a whole number, not \"%s\"", arguments->seed);
    struct writing writing = {.out = arguments->out};
    struct folder_listener listener = {show, &writing};
    bool written = folder_write(arguments->out, config, seed, dtype, &listener, status);
    progress_clear(&writing.progress);
    return written;
}

int command_init(int argc, char **argv)
{
    static const struct flag options[] = {
        {"model", .key = 'm', TEXT_AT(struct arguments, model), .arg = "PRESET|DIR",
         .doc = "one of `longbp list models`, or a folder with a config.json (required)"},
        {"seed", .key = 's', TEXT_AT(struct arguments, seed), .arg = "N", .doc = "seed of the random weights (1)"},
        {"dtype", .key = 'd', TEXT_AT(struct arguments, dtype), .arg = "f64|f32|bf16",
         .doc = "dtype of the file: f64, f32 or bf16 (f32)"},
        {"out", .key = 'o', TEXT_AT(struct arguments, out), .arg = "DIR", .doc = "the new folder (required)"},
        {0}};
    static const struct argp argp = {
        .doc = "Creates a folder with config.json and random weights in model.safetensors, if the disk has room. "
               "An interrupted run leaves nothing behind."};
    struct arguments arguments = {.dtype = "f32", .seed = "1"};
    arguments_parse(&argp, options, argc, argv, &arguments);
    struct status status = {0};
    init(&arguments, &status);
    return command_end(argv[0], &status);
}
