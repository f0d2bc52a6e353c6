#include "harness/command/trial_flags.h"
#include "harness/command/flags.h"
#include "harness/files/json_source.h"
#include "harness/spec/method_decode.h"
#include <string.h>

#define FIRST_KEY 0x1000

static json_t *limits(const char *text)
{
    return json_pack("{s:s}", "memory", text);
}

static json_t *yes(const char *text)
{
    (void)text;
    return json_true();
}

static const struct flag {
    const char *key, *arg, *doc; // arg NULL: the flag alone says it
    json_t *(*read)(const char *text);
} table[] = {
    {"model", "DIR|PRESET", "folder with config.json and *.safetensors, or a preset",
     json_string}, // may be called 7
    {"dtype", "DTYPE", "f64, f32 or bf16 (f32)", flag_value},
    {"device", "DEVICE", "where to compute: cpu, cuda, cuda:1 for a second card (cpu)", flag_value},
    {"profile", "NAME|FILE", "device profile that a time estimate is made from, such as rtx-3090", json_string},
    {"context", "N", "tokens per sequence", flag_value},
    {"batch", "N", "sequences (1)", flag_value},
    {"seed", "N", "of a preset's random weights, and of random tokens (1)", flag_value},
    {"labels", "FILE", "little-endian int32, -100: no target (the next token)", json_string},
    {"objective", "NAME", "what is minimised, see `longbp list objectives` (token-mean)", json_string},
    {"row_weights", "FILE", "little-endian f32, one per token, of objective weighted-mean", json_string},
    {"lora", "r=8,alpha=16,targets=q,v", "train LoRA factors alone", flag_object},
    {"optimizer", "NAME", "keep its state and let it take its step: adamw (none)", json_string},
    {"kv_gradient_dtype", "DTYPE", "accumulator of the gradient of keys and values", flag_value},
    {"gradient_dtype", "DTYPE", "accumulator of the weights' gradients", flag_value},
    {"deterministic", NULL, "the same bits in every run, at whatever cost", yes},
    {"tf32", NULL, "GEMM in f32 may round its factors to TF32, where the device can", yes},
    {"whole_attention", NULL, "attention's backward at once, where the device would run it in blocks", yes},
    {"memory_limit", "SIZE", "such as 24GiB or 24G, the same, or 80GB (what is free)", limits},
    {"method", "NAME", "see `longbp list methods` (full)", json_string},
};

static const struct flag *flag_of(const char *key)
{
    const struct flag *flag = table;
    while (strcmp(flag->key, key) != 0) {
        flag++;
        CHECK(flag < table + sizeof table / sizeof *table);
    }
    return flag;
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

// Adds the flag under `name` with hyphens, and a hidden alias with underscores; the names live until the flags do.
static void add_flag(struct argp_option **next, struct argp_option flag)
{
    flag.name = respelled(flag.name, '_', '-');
    *(*next)++ = flag;
    *(*next)++ =
        (struct argp_option){.name = respelled(flag.name, '-', '_'), .flags = OPTION_ALIAS | OPTION_HIDDEN};
}

void trial_flags_open(struct trial_flags *flags, const char *const *keys, const struct argp_option *own)
{
    size_t options = 0, others = 0;
    *flags = (struct trial_flags){.trial = json_object(), .method = json_object()};
    while (methods_option(options))
        options++;
    while (own[others].name)
        others++;
    for (; keys[flags->key_count]; flags->key_count++) {
        CHECK(flags->key_count < sizeof flags->keys / sizeof *flags->keys);
        flags->keys[flags->key_count] = keys[flags->key_count];
    }
    flags->options = calloc(2 * (flags->key_count + others + options) + 2, sizeof *flags->options);
    CHECK(flags->options && flags->trial && flags->method);
    struct argp_option *next = flags->options;
    for (size_t i = 0; i < others; i++)
        add_flag(&next, own[i]);
    for (size_t i = 0; i < flags->key_count; i++) {
        const struct flag *flag = flag_of(keys[i]);
        add_flag(&next, (struct argp_option){
                            .name = flag->key, .key = FIRST_KEY + (int)i, .arg = flag->arg, .doc = flag->doc});
    }
    *next++ = (struct argp_option){.doc = "Options of the method:"};
    for (size_t i = 0; i < options; i++)
        add_flag(&next, (struct argp_option){.name = methods_option(i)->name,
                                             .key = FIRST_KEY + (int)(flags->key_count + i),
                                             .arg = "VALUE",
                                             .doc = methods_option(i)->help});
}

static void set_option(struct trial_flags *flags, const struct option *option, const char *text)
{
    json_object_set_new(flags->method, option->name,
                        option->type == OPTION_LIST ? flag_list(text) : flag_value(text));
}

error_t trial_flags_parse(struct trial_flags *flags, int key, const char *text)
{
    if (key < FIRST_KEY || key > 0xffff) // argp's own keys are above
        return ARGP_ERR_UNKNOWN;
    size_t i = (size_t)(key - FIRST_KEY);
    if (i >= flags->key_count) {
        set_option(flags, methods_option(i - flags->key_count), text);
        return 0;
    }
    const struct flag *flag = flag_of(flags->keys[i]);
    json_t *value = flag->read(text);
    if (!value) // not UTF-8
        value = json_string("?");
    if (strcmp(flag->key, "method") == 0)
        json_object_set_new(flags->method, "name", value);
    else
        json_object_set_new(flags->trial, flag->read == limits ? "limits" : flag->key, value);
    return 0;
}

// The method's entry: all that was given, or for a named method what it knows of it.
static json_t *entry_of(const struct trial_flags *flags, const char *name)
{
    const struct method *method = name ? method_find(name) : NULL;
    json_t *entry = json_object(), *value;
    const char *key;
    json_object_set_new(entry, "name", json_string(name ? name : "full"));
    json_object_foreach(flags->method, key, value)
    {
        if (!method || option_find(&method->options, key))
            json_object_set(entry, key, value);
    }
    return entry;
}

bool trial_flags_decode(const struct trial_flags *flags, const char *method, struct trial *trial,
                        struct status *status)
{
    json_t *object = json_copy(flags->trial);
    json_object_set_new(object, "method", entry_of(flags, method));
    char *json = json_dumps(object, 0);
    CHECK(json);
    bool ok = trial_decode(trial, json, JSON_COMMAND_LINE, status);
    free(json);
    json_decref(object);
    return ok;
}

void trial_flags_close(struct trial_flags *flags)
{
    for (struct argp_option *option = flags->options; option && (option->name || option->doc); option++)
        free((char *)option->name);
    free(flags->options);
    json_decref(flags->trial);
    json_decref(flags->method);
    *flags = (struct trial_flags){0};
}
