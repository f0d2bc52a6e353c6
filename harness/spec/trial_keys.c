#include "harness/spec/trial_keys.h"
#include "harness/spec/framework_decode.h"
#include "harness/spec/trial_values.h"
#include "harness/text/size.h"
#include <string.h>

#define CONTEXT_MAX ((double)INT32_MAX) // token positions are i32 on devices
#define BATCH_MAX   ((double)(1 << 20))
#define SAMPLES_MAX 100000.0
#define STEPS_MAX   1e9
#define COUNT_MAX   ((double)JSON_INTEGER_MAX)

#define KEY(key, kind) .name = key, .type = KEY_##kind
// Stored in a member of struct trial.
#define MEMBER(key, kind, member) KEY(key, kind), .offset = offsetof(struct trial, member)

static const struct trial_key measure_keys[] = {
    {MEMBER("warmup", COUNT, measure.warmup), .maximum = SAMPLES_MAX, .initial = 1, .unit = "steps",
     .meaning = "untimed steps before the samples"},
    {MEMBER("samples", COUNT, measure.samples), .minimum = 1, .maximum = SAMPLES_MAX, .initial = 5, .unit = "steps",
     .meaning = "timed steps; with drawn chunks, each step has its own draw"},
    {MEMBER("max_seconds", NUMBER, measure.max_seconds), .maximum = 1e9, .initial = 60, .unit = "seconds",
     .meaning = "time limit of the trial's process; 0: none"},
    {MEMBER("gradient", CHOICE, measure.gradient), .initial = GRADIENT_FULL_F64,
     .choices = (const char *const[]){"none", "full-f64", NULL}, .kind = "gradient check",
     .meaning = "reference that the gradient is checked against before anything is timed"},
    {MEMBER("timeline", BOOL, measure.timeline), .meaning = "record the live bytes over one step"},
    {MEMBER("gemm", BOOL, measure.gemm), .meaning = "record the device's GEMM rate beside the samples"},
    {MEMBER("bias", BOOL, measure.bias),
     .meaning = "compute expectation and spread of an estimate over every possible draw"},
    {MEMBER("pair_sums", BOOL, measure.pair_sums),
     .meaning = "record the error of a pair's difference by the dtype of its sums"},
    {MEMBER("lost_updates", BOOL, measure.lost_updates),
     .meaning = "record the share of a training run's updates that rounding weights to bf16 loses"},
    {MEMBER("routing", CHOICE, measure.routing),
     .choices = (const char *const[]){"none", "as-is", "reversed", NULL}, .kind = "routing check",
     .meaning =
         "record how often rebuilds that chose their experts anew would choose others, and the gradient's "
         "error then; reversed: behind the first pass sums are in another order, as another kernel's may be"},
    {MEMBER("categories", BOOL, measure.categories), .meaning = "record a step's time by category"},
    {0}};

static const struct trial_key limits_keys[] = {
    {MEMBER("memory", SIZE, memory_limit_bytes), .meaning = "memory limit of the device",
     .values = "a size such as 24GiB (or 24G, the same) or 80GB",
     .null = "free memory of the machine; planned: no limit, or for method auto the profile's usable memory less "
             "its reserve",
     .argument = "SIZE", .flag = "memory_limit"},
    {MEMBER("host_memory", SIZE, host_memory_limit_bytes), .meaning = "limit of memory kept on the host",
     .values = "a size such as 24GiB (or 24G, the same) or 80GB",
     .null = "free memory of the machine, on the CPU for both places together, or free space of the folder's disk",
     .argument = "SIZE"},
    {0}};

static const char *const exchanges[] = {"gather", "ring", "all-to-all", NULL};
static const char *const sums[] = {"ordered", "engine", NULL};

static const struct trial_key parallel_keys[] = {
    {MEMBER("data", COUNT, parallel.data), .minimum = 1, .maximum = BATCH_MAX, .initial = 1, .unit = "ranks",
     .meaning = "ranks that take some of the sequences each; multiplies with sequence and stage"},
    {MEMBER("sequence", COUNT, parallel.sequence), .minimum = 1, .maximum = 65536, .initial = 1, .unit = "ranks",
     .meaning = "ranks that take some of the tokens of the same sequences each"},
    {MEMBER("stage", COUNT, parallel.stage), .minimum = 1, .maximum = 65536, .initial = 1, .unit = "ranks",
     .meaning = "ranks of a pipeline, each with some of the layers"},
    {MEMBER("experts", COUNT, parallel.experts), .minimum = 1, .maximum = ROUTING_EXPERTS_MAX, .initial = 1,
     .unit = "ranks",
     .meaning = "data ranks that have some of the experts of every layer each, and send each other their tokens; "
                "divides data and the number of experts"},
    {MEMBER("zero", COUNT, parallel.zero), .maximum = ZERO_WEIGHTS,
     .meaning = "ZeRO level, shares among ranks of data and sequence: 1 the optimizer's state, 2 gradients too, 3 "
                "weights too"},
    {MEMBER("exchange", CHOICE, parallel.exchange), .choices = exchanges, .kind = "exchange",
     .meaning = "attention between ranks of sequence: each gathers all keys and values, or they go round, or each "
                "attends for some of the heads"},
    {MEMBER("sum", CHOICE, parallel.sum), .choices = sums, .kind = "sum",
     .meaning = "sum of gradients over ranks of data and sequence: by the devices in the ranks' order, which fixes "
                "the bits, or by the transport's own all-reduce and reduce-scatter"},
    {MEMBER("overlap", BOOL, parallel.overlap),
     .meaning = "send weights and gradients between ranks of data and sequence while they compute, for the memory "
                "of a layer more"},
    {MEMBER("node", COUNT, parallel.node), .minimum = 1, .maximum = 65536, .initial = 1, .unit = "ranks",
     .meaning = "ranks per node: sums and gathers run within a node first, then between nodes; the numbers of "
                "ranks and of ranks per node fix the bits"},
    {0}};

static const char *const ramps[] = {"linear", "cosine", "1-sqrt", NULL}; // as of enum ramp

static const struct trial_key train_keys[] = {
    {MEMBER("steps", COUNT, train.steps), .first = true, .minimum = 1, .maximum = STEPS_MAX, .initial = 100,
     .unit = "steps", .meaning = "steps that update the weights", .argument = "N"},
    {MEMBER("accumulate", COUNT, train.accumulate), .minimum = 1, .maximum = STEPS_MAX, .initial = 1,
     .unit = "micro-batches", .meaning = "micro-batches per step, each of `batch` windows or sequences",
     .argument = "N"},
    {MEMBER("schedule", CHOICE, train.schedule),
     .choices = (const char *const[]){"constant", "linear", "cosine", "wsd", NULL}, .kind = "schedule",
     .meaning = "learning-rate schedule after the warm-up; wsd is warmup-stable-decay, as transformers has it",
     .argument = "constant|linear|cosine|wsd"},
    {MEMBER("warmup", COUNT, train.warmup), .maximum = STEPS_MAX, .unit = "steps",
     .meaning = "steps of the warm-up; the first has 1/N of the rate, under wsd the floor", .argument = "N"},
    {MEMBER("min_lr_ratio", NUMBER, train.min_lr_ratio), .maximum = 1,
     .meaning = "smallest share of the rate: a linear or cosine schedule reaches it one step behind the last, "
                "wsd's decay after `decay_steps`",
     .argument = "SHARE"},
    {MEMBER("stable_steps", COUNT, train.stable_steps), .maximum = STEPS_MAX, .unit = "steps",
     .meaning = "steps at the whole rate under wsd; 0: all but warm-up and decay", .argument = "N"},
    {MEMBER("decay_steps", COUNT, train.decay_steps), .maximum = STEPS_MAX, .unit = "steps",
     .meaning = "steps of wsd's decay to the floor; wsd needs it", .argument = "N"},
    {MEMBER("warmup_type", CHOICE, train.warmup_type), .choices = ramps, .kind = "ramp",
     .meaning = "shape of wsd's warm-up", .argument = "linear|cosine|1-sqrt"},
    {MEMBER("decay_type", CHOICE, train.decay_type), .choices = ramps, .initial = RAMP_COSINE, .kind = "ramp",
     .meaning = "shape of wsd's decay", .argument = "linear|cosine|1-sqrt"},
    {MEMBER("cycles", NUMBER, train.cycles), .maximum = STEPS_MAX, .initial = 0.5,
     .meaning = "waves of wsd's cosine decay; 0.5 falls once", .argument = "NUMBER"},
    {MEMBER("clip", NUMBER, train.clip), .maximum = 1e9,
     .meaning = "largest norm of all gradients together; 0: no clipping", .argument = "NORM"},
    {MEMBER("window", COUNT, train.window), .maximum = CONTEXT_MAX, .unit = "tokens",
     .meaning = "tokens of a window, of which a step takes the first `context` and an evaluation all; 0: `context`",
     .argument = "N[K|M]"},
    {MEMBER("shuffle", COUNT, train.shuffle), .maximum = COUNT_MAX,
     .meaning = "seed of the order of windows or sequences; 0: the data's own order", .argument = "SEED"},
    {MEMBER("held_out", NUMBER, train.held_out), .maximum = 1,
     .meaning = "share of the windows or sequences, the last ones, that are evaluated instead of trained on",
     .argument = "SHARE"},
    {MEMBER("evaluate", TEXT, train.evaluate.path),
     .meaning = "another file to evaluate on, of the same kind as the data",
     .values = "the path of a file of tokens, or of a batch file or a folder of such", .null = "none",
     .argument = "FILE", .spelling = SPELLED_TEXT},
    {MEMBER("evaluate_every", COUNT, train.evaluate_every), .maximum = STEPS_MAX, .unit = "steps",
     .meaning = "steps between evaluations; 0: only before the first step and after the last", .argument = "N"},
    {MEMBER("evaluate_windows", COUNT, train.evaluate_windows), .maximum = COUNT_MAX,
     .meaning = "largest number of windows or sequences to evaluate; 0: all", .argument = "N"},
    {0}};

const struct trial_key trial_keys[] = {
    // A model's folder may be named 7.
    {KEY("model", OWN), .first = true, .required = true, .meaning = "the model",
     .values = "a preset, a folder with config.json and *.safetensors, or in a spec a shape", .quiet = true,
     .argument = "DIR|PRESET", .spelling = SPELLED_TEXT, .decode = decode_model},
    {KEY("dtype", OWN), .holds = HOLDS_TEXT, .first = true, .meaning = "dtype of weights and activations",
     .values = "f64, f32 or bf16", .standard = "f32", .argument = "DTYPE", .decode = decode_dtype},
    {KEY("device", OWN), .holds = HOLDS_TEXT, .first = true, .meaning = "device to compute on",
     .values = "cpu, cuda, cuda:1 for a second card, plan", .standard = "cpu", .argument = "DEVICE",
     .decode = decode_device},
    {KEY("profile", OWN), .holds = HOLDS_TEXT, .first = true,
     .meaning = "device profile for a time estimate, such as rtx-3090",
     .values = "its name or path, and numbers of another card behind: rtx-3090,memory_bytes=12GiB",
     .null = "no estimate", .quiet = true, .argument = "PROFILE|FILE", .spelling = SPELLED_TEXT,
     .decode = decode_profile},
    {KEY("interconnect", OWN), .holds = HOLDS_TEXT,
     .meaning = "interconnect of several ranks for a time estimate, such as infiniband",
     .values = "their name or path", .null = "the profile's", .quiet = true, .argument = "INTERCONNECT|FILE",
     .spelling = SPELLED_TEXT, .decode = decode_interconnect},
    {KEY("data", OWN), .meaning = "source of the tokens",
     .values = "random, {text: PATH} of bytes, {tokens: PATH} (.npy or llm.c's .bin; raw ids: dtype: u16 or u32), "
               "or {batch: PATH} of a batch file, to train also a folder",
     .standard = "random", .quiet = true, .decode = decode_data},
    {MEMBER("batch", COUNT, batch), .first = true, .minimum = 1, .maximum = BATCH_MAX, .initial = 1,
     .unit = "sequences", .meaning = "sequences per step, in a training run per micro-batch; a batch file sets it",
     .told = batch_of_data, .argument = "N|FILE", .spelling = SPELLED_BATCH},
    {MEMBER("context", COUNT, context), .first = true, .minimum = 1, .maximum = CONTEXT_MAX, .required = true,
     .unit = "tokens", .meaning = "tokens per sequence, such as 32768 or 32K (M: 1,048,576); a batch file sets it",
     .told = context_of_data, .argument = "N[K|M]"},
    {MEMBER("seed", COUNT, seed), .maximum = COUNT_MAX, .initial = 1,
     .meaning = "seed of a preset's random weights, of random tokens, and of a training run's draws of chunks",
     .argument = "N"},
    {MEMBER("labels", TEXT, labels), .meaning = "targets, little-endian int32; -100: no target",
     .values = "the path of a file of labels", .null = "the next token", .argument = "FILE",
     .spelling = SPELLED_TEXT},
    {KEY("documents", OWN), .meaning = "lengths in tokens of the documents packed into a sequence",
     .values = "512 or 2K, a list to be repeated, or {mean: 512}: at random",
     .null = "each sequence is one, or as in the batch file", .argument = "N|mean=N", .spelling = SPELLED_OBJECT,
     .decode = decode_documents},
    {MEMBER("prompt", COUNT, prompt), .maximum = CONTEXT_MAX, .unit = "tokens",
     .meaning = "tokens that each sequence begins with and does not predict; 0: none, or as an objective or a "
                "batch file has it",
     .argument = "N[K|M]"},
    {MEMBER("group", COUNT, group), .minimum = 1, .maximum = BATCH_MAX, .initial = 1, .unit = "sequences",
     .meaning = "consecutive sequences whose common prompt is computed once", .argument = "N"},
    {KEY("objective", OWN), .meaning = "loss that is minimised",
     .values = "a name of `longbp list objectives`, or {name: NAME, OPTION: VALUE, ...}", .standard = "token-mean",
     .telling = "name", .argument = "OBJECTIVE,OPTION=VALUE", .spelling = SPELLED_NAMED,
     .decode = decode_objective},
    {KEY("router_aux_loss", OWN), .meaning = "coefficient of the loss that balances the experts of a mixture",
     .values = "a number >= 0; 0: none",
     .null = "0, or of a folder with output_router_logits its router_aux_loss_coef", .argument = "NUMBER",
     .decode = decode_router_aux_loss},
    {MEMBER("router_aux_form", CHOICE, router_losses.form),
     .choices = (const char *const[]){"global", "layer", "sequence", NULL}, .kind = "form",
     .meaning = "balancing loss over all layers as in transformers, of each layer as in Switch and Megatron, or of "
                "each layer and sequence as in DeepSeek",
     .argument = "global|layer|sequence"},
    {MEMBER("router_aux_counts", CHOICE, router_losses.counts),
     .choices = (const char *const[]){"step", "cell", NULL}, .kind = "counts",
     .meaning = "tokens whose choices the balancing loss counts: the step's, which is exact, or a cell's alone, to "
                "measure the error of chunks with losses of their own",
     .argument = "step|cell"},
    {MEMBER("router_z_loss", NUMBER, router_losses.z), .maximum = 1e6,
     .meaning = "coefficient of the mean squared logsumexp of a router's logits", .argument = "NUMBER"},
    {MEMBER("router_bias_update", NUMBER, router_losses.bias_update), .maximum = 1e6,
     .meaning = "step by which an update moves each expert's correction bias towards equal counts",
     .argument = "NUMBER"},
    {KEY("lora", OWN), .holds = HOLDS_OBJECT, .first = true,
     .meaning = "train LoRA factors alone, new ones or those of a PEFT adapter's folder",
     .values = "{rank: 8, alpha: 16, targets: [q, v], rslora: false, adapter: DIR} or a part of it, or the folder "
               "alone; also, as in PEFT, exclude_modules, layers_to_transform, layers_pattern, rank_pattern, "
               "alpha_pattern, modules_to_save, ensure_weight_tying",
     .null = "every weight trains", .telling = "rank", .argument = "DIR|r=8,alpha=16,targets=q,v",
     .spelling = SPELLED_OBJECT, .decode = decode_lora},
    {KEY("reference", OWN), .holds = HOLDS_TEXT,
     .meaning = "source of the log-probs that an objective compares the model with",
     .values =
         "file (the batch file), random, adapter-off (the model without lora), or a folder with another model",
     .null = "the objective reads none; else file or random as the data are, else adapter-off", .quiet = true,
     .argument = "file|random|adapter-off|DIR", .spelling = SPELLED_TEXT, .decode = decode_reference},
    {KEY("weights", OWN), .holds = HOLDS_TEXT,
     .meaning = "quantise the layers' frozen projections, in blocks of 64, or 32 of mxfp4; needs lora",
     .values = "nf4, int8 or mxfp4", .null = "all are in the dtype",
     .tried = (const char *const[]){"nf4", "int8", NULL}, .argument = "nf4|int8|mxfp4", .spelling = SPELLED_TEXT,
     .decode = decode_weights},
    {KEY("optimizer", OWN), .holds = HOLDS_OBJECT, .first = true,
     .meaning = "optimizer, whose state the step keeps and whose update it takes",
     .values = "a name of `longbp list optimizers`, or {name: NAME, OPTION: VALUE, ...}", .null = "none",
     .telling = "name", .argument = "OPTIMIZER,OPTION=VALUE", .spelling = SPELLED_NAMED,
     .decode = decode_optimizer},
    {KEY("kv_gradient_dtype", OWN), .holds = HOLDS_TEXT,
     .meaning = "accumulator dtype of the gradients of keys and values",
     .values =
         "bf16, rounded to nearest, or bf16-stochastic, rounded without bias, of a model in bf16; else the default",
     .standard = "f32, of a model in f64 f64", .tried = (const char *const[]){"bf16", NULL}, .argument = "DTYPE",
     .decode = decode_kv_gradient_dtype},
    {KEY("gradient_dtype", OWN), .holds = HOLDS_TEXT, .meaning = "accumulator dtype of the weights' gradients",
     .values = "bf16 of a model in bf16, else the default", .standard = "f32, of a model in f64 f64",
     .argument = "DTYPE", .decode = decode_gradient_dtype},
    {MEMBER("deterministic", BOOL, deterministic), .meaning = "same bits in every run, at whatever cost",
     .words = "deterministic"},
    {MEMBER("tf32", BOOL, tf32), .meaning = "let GEMM in f32 round its factors to TF32, if the device can",
     .words = "TF32"},
    {MEMBER("whole_attention", BOOL, whole_attention),
     .meaning = "run attention's backward at once, where the device would run it in blocks",
     .words = "whole attention"},
    {MEMBER("attention_queries", COUNT, attention_queries), .minimum = 128, .maximum = 8192, .initial = 2048,
     .card_rows = 8192, .quiet = true, .unit = "tokens",
     .meaning = "largest number of queries in a block of attention's backward, where a device runs it in blocks",
     .argument = "N[K|M]"},
    {MEMBER("latent_block", COUNT, latent_block), .minimum = 1, .maximum = CONTEXT_MAX, .initial = LATENT_BLOCK,
     .quiet = true, .unit = "tokens",
     .meaning = "largest number of keys that latent attention projects from their latents at once",
     .argument = "N[K|M]"},
    {MEMBER("whole_keys", BOOL, whole_keys),
     .meaning = "run attention's forward over all keys at once, where a card would cut them into ranges",
     .words = "whole keys"},
    {MEMBER("unfused", BOOL, unfused),
     .meaning = "make the passes over memory that fused kernels spare, to time one against the other",
     .words = "unfused"},
    {MEMBER("gemm_algorithms", TEXT, gemm_algorithms),
     .meaning = "file of cuBLASLt's fastest candidate for each GEMM of a card; missing ones are timed and added",
     .values = "path of a file, which the first run writes", .null = "the library's first choice",
     .argument = "FILE", .spelling = SPELLED_TEXT},
    {MEMBER("pad_gradient", BOOL, pad_gradient),
     .meaning = "let the embedding's row of a folder's pad_token_id take a gradient, as others do",
     .words = "pad gradient"},
    {KEY("framework", OWN), .holds = HOLDS_OBJECT,
     .meaning = "how another framework, transformers, runs the step that device plan-transformers plans",
     .values = "{version: \"5.24\", trainer: hf, loss: default, loss_rows: 2048, outputs: default, mask: none, "
               "attention: flash, reentrant: default, gradients: fresh, adapters: f32, optimizer_form: foreach} or "
               "a part of it (`longbp list frameworks`)",
     .null = "this program's own step; on device plan-transformers the defaults", .telling = "name",
     .argument = "KEY=VALUE,KEY=VALUE", .spelling = SPELLED_OBJECT, .decode = decode_framework},
    {KEY("method", METHOD), .first = true, .required = true, .meaning = "method that computes the gradient",
     .values = "a name of `longbp list methods`, or {name: NAME, OPTION: VALUE, ...}", .argument = "METHOD",
     .spelling = SPELLED_TEXT},
    {KEY("parallel", OBJECT),
     .meaning = "ranks that share a step, one process each: data, sequence, stage, zero, sum, overlap, node and "
                "exchange of `longbp list keys`",
     .argument = "KEY=VALUE,KEY=VALUE", .spelling = SPELLED_OBJECT, .members = parallel_keys},
    {KEY("train", OBJECT),
     .meaning = "a training run: steps that update the weights, over windows of `context` tokens or the sequences "
                "of batch files",
     .null = "one step is measured again and again", .settle = settle_train, .members = train_keys},
    {KEY("measure", OBJECT), .meaning = "measurements of the trial", .quiet = true, .settle = settle_measure,
     .members = measure_keys},
    {KEY("limits", OBJECT), .meaning = "limits of the trial", .quiet = true, .members = limits_keys},
    {KEY("host", OWN), .holds = HOLDS_OBJECT, .meaning = "place of state that is kept on the host",
     .values = "{\"folder\": PATH}: files in that folder, on the CPU alone",
     .null = "in its memory, pinned for a card", .argument = "folder=DIR", .spelling = SPELLED_OBJECT,
     .telling = "folder", .decode = decode_host},
    {0}};

size_t trial_key_count(void)
{
    return sizeof trial_keys / sizeof *trial_keys - 1;
}

size_t trial_key_find(const char *name)
{
    size_t i = 0;
    while (trial_keys[i].name && strcmp(trial_keys[i].name, name) != 0)
        i++;
    return i;
}

const struct trial_key *trial_key_named(const char *name)
{
    size_t i = trial_key_find(name);
    return i < trial_key_count() ? &trial_keys[i] : NULL;
}

size_t trial_keys_tried(const struct trial_key *tried[TRIAL_KEYS_MAX])
{
    size_t count = 0;
    for (const struct trial_key *key = trial_keys; key->name; key++)
        if (key->tried)
            tried[count++] = key;
    return count;
}

void trial_key_names(struct names *names, const struct trial_key *keys)
{
    for (; keys->name; keys++)
        names_add(names, keys->name);
}

// --- descriptions

void trial_key_unit(const struct trial_key *key, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s%s", key->unit ? " of " : "", key->unit ? key->unit : "");
}

void trial_key_values(const struct trial_key *key, char *text, size_t bytes)
{
    char unit[64], upto[32] = "";
    size_t used = 0;
    trial_key_unit(key, unit, sizeof unit);
    if (key->maximum < (double)JSON_INTEGER_MAX)
        snprintf(upto, sizeof upto, " and <= %.0f", key->maximum);
    switch (key->type) {
    case KEY_BOOL:
        snprintf(text, bytes, "true or false");
        break;
    case KEY_COUNT:
        snprintf(text, bytes, "a whole number%s >= %.0f%s%s", unit, key->minimum, upto,
                 strcmp(unit, " of tokens") == 0 ? ", or 32K, 1M" : "");
        break;
    case KEY_NUMBER:
        snprintf(text, bytes, "a number%s >= %g%s", unit, key->minimum, upto);
        break;
    case KEY_CHOICE:
        for (size_t i = 0; key->choices[i] && used < bytes; i++) {
            const char *joint = key->choices[i + 1] ? ", " : " or ";
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? joint : "", key->choices[i]);
        }
        break;
    case KEY_OBJECT:
        snprintf(text, bytes, "an object of the keys below");
        break;
    default:
        snprintf(text, bytes, "%s", key->values);
    }
}

void trial_key_default(const struct trial_key *key, char *text, size_t bytes)
{
    if (key->required)
        snprintf(text, bytes, "must be given");
    else if (key->null)
        snprintf(text, bytes, "null: %s", key->null);
    else if (key->type == KEY_BOOL)
        snprintf(text, bytes, "%s", key->initial > 0 ? "true" : "false");
    else if (key->type == KEY_CHOICE)
        snprintf(text, bytes, "%s", key->choices[(size_t)key->initial]);
    else if (key->type == KEY_OBJECT)
        snprintf(text, bytes, "{}");
    else if (key->standard)
        snprintf(text, bytes, "%s", key->standard);
    else if (key->card_rows > 0)
        snprintf(text, bytes, OPTION_ON_CARD, key->initial, key->card_rows);
    else
        snprintf(text, bytes, "%.15g", key->initial);
}
