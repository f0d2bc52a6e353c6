#include "harness/spec/trial_keys.h"
#include "harness/spec/trial_values.h"
#include "harness/text/size.h"
#include <string.h>

#define CONTEXT_MAX ((double)INT32_MAX) // token positions are i32 on devices
#define BATCH_MAX   ((double)(1 << 20))
#define SAMPLES_MAX 100000.0
#define STEPS_MAX   1e9
#define COUNT_MAX   ((double)JSON_INTEGER_MAX)

#define KEY(key, kind) .name = key, .type = KEY_##kind
// Held in a member of struct trial.
#define MEMBER(key, kind, member) KEY(key, kind), .offset = offsetof(struct trial, member)

static const struct trial_key measure_keys[] = {
    {MEMBER("warmup", COUNT, measure.warmup), .maximum = SAMPLES_MAX, .initial = 1, .unit = "steps",
     .meaning = "before the samples"},
    {MEMBER("samples", COUNT, measure.samples), .minimum = 1, .maximum = SAMPLES_MAX, .initial = 5, .unit = "steps",
     .meaning = "timed; where chunks are drawn, of a draw each"},
    {MEMBER("max_seconds", NUMBER, measure.max_seconds), .maximum = 1e9, .initial = 60, .unit = "seconds",
     .meaning = "limit of the trial's process; 0: none"},
    {MEMBER("gradient", CHOICE, measure.gradient), .initial = GRADIENT_FULL_F64,
     .choices = (const char *const[]){"none", "full-f64", NULL}, .kind = "gradient check",
     .meaning = "what the gradient is held against before anything is timed"},
    {MEMBER("timeline", BOOL, measure.timeline), .meaning = "record the live bytes over one step"},
    {MEMBER("gemm", BOOL, measure.gemm), .meaning = "record the device's GEMM rate beside the samples"},
    {MEMBER("bias", BOOL, measure.bias),
     .meaning = "expectation and spread of an estimate over everything that can be drawn"},
    {MEMBER("pair_sums", BOOL, measure.pair_sums),
     .meaning = "how far a pair's difference is off by the dtype of its sums"},
    {MEMBER("lost_updates", BOOL, measure.lost_updates),
     .meaning = "how much of a training run's updates is lost where weights are rounded to bf16"},
    {MEMBER("categories", BOOL, measure.categories), .meaning = "record where a step's time goes"},
    {0}};

static const char *const places[] = {"device", "host", NULL};
static const char *const on_host[] = {"host", NULL};

static const struct trial_key place_keys[] = {
    {MEMBER("weights", CHOICE, weights_place), .choices = places, .kind = "place",
     .meaning = "while nothing reads them", .argument = "device|host", .flag = "place_weights", .tried = on_host},
    {MEMBER("gradients", CHOICE, gradients_place), .choices = places, .kind = "place",
     .meaning = "from when a unit's are complete until they are used", .argument = "device|host",
     .flag = "place_gradients", .tried = on_host},
    {MEMBER("optimizer", CHOICE, optimizer_place), .choices = places, .kind = "place",
     .meaning = "its state, but while a unit is updated", .argument = "device|host", .flag = "place_optimizer",
     .tried = on_host},
    {0}};

static const struct trial_key limits_keys[] = {
    {MEMBER("memory", SIZE, memory_limit_bytes), .meaning = "of the device",
     .values = "a size such as 24GiB (or 24G, the same) or 80GB",
     .null = "what the machine has free; planned: none, but of method auto what the profile calls usable, less its "
             "reserve",
     .argument = "SIZE", .flag = "memory_limit"},
    {MEMBER("host_memory", SIZE, host_memory_limit_bytes), .meaning = "of what is kept on the host",
     .values = "a size such as 24GiB (or 24G, the same) or 80GB",
     .null = "what the machine has free, on the CPU for both places together, or the folder's disk",
     .argument = "SIZE"},
    {0}};

static const char *const exchanges[] = {"gather", "ring", "all-to-all", NULL};
static const char *const sums[] = {"ordered", "engine", NULL};

static const struct trial_key parallel_keys[] = {
    {MEMBER("data", COUNT, parallel.data), .minimum = 1, .maximum = BATCH_MAX, .initial = 1, .unit = "ranks",
     .meaning = "each takes some of the sequences; times those of sequence and stage"},
    {MEMBER("sequence", COUNT, parallel.sequence), .minimum = 1, .maximum = 65536, .initial = 1, .unit = "ranks",
     .meaning = "each takes some of the tokens of the same sequences"},
    {MEMBER("stage", COUNT, parallel.stage), .minimum = 1, .maximum = 65536, .initial = 1, .unit = "ranks",
     .meaning = "a pipeline: each has some of the layers"},
    {MEMBER("zero", COUNT, parallel.zero), .maximum = ZERO_WEIGHTS,
     .meaning = "what ranks of data and sequence have in shares: 1 the optimizer's state, 2 gradients too, 3 "
                "weights too"},
    {MEMBER("exchange", CHOICE, parallel.exchange), .choices = exchanges, .kind = "exchange",
     .meaning = "between ranks of sequence: each gets the keys and values of all, or they go round, or each "
                "attends for some of the heads"},
    {MEMBER("sum", CHOICE, parallel.sum), .choices = sums, .kind = "sum",
     .meaning =
         "of gradients over ranks of data and sequence: by their devices in the ranks' order, which fixes the "
         "bits, or by the all-reduce and reduce-scatter of what carries the bytes"},
    {MEMBER("overlap", BOOL, parallel.overlap),
     .meaning = "what ranks of data and sequence send each other of weights and gradients goes while they compute, "
                "which takes memory of a layer more"},
    {MEMBER("node", COUNT, parallel.node), .minimum = 1, .maximum = 65536, .initial = 1, .unit = "ranks",
     .meaning =
         "per node: gradients and weights are summed and gathered within a node first, then between nodes; the "
         "numbers of ranks and of ranks per node fix the bits"},
    {0}};

static const char *const ramps[] = {"linear", "cosine", "1-sqrt", NULL}; // as of enum ramp

static const struct trial_key train_keys[] = {
    {MEMBER("steps", COUNT, train.steps), .first = true, .minimum = 1, .maximum = STEPS_MAX, .initial = 100,
     .unit = "steps", .meaning = "that update the weights", .argument = "N"},
    {MEMBER("accumulate", COUNT, train.accumulate), .minimum = 1, .maximum = STEPS_MAX, .initial = 1,
     .unit = "micro-batches", .meaning = "of a step, each of `batch` windows or sequences", .argument = "N"},
    {MEMBER("schedule", CHOICE, train.schedule),
     .choices = (const char *const[]){"constant", "linear", "cosine", "wsd", NULL}, .kind = "schedule",
     .meaning = "learning-rate schedule after the warm-up; wsd is warmup-stable-decay, as transformers has it",
     .argument = "constant|linear|cosine|wsd"},
    {MEMBER("warmup", COUNT, train.warmup), .maximum = STEPS_MAX, .unit = "steps",
     .meaning = "over which the rate rises to what it is; the first has 1/N of it, under wsd the floor",
     .argument = "N"},
    {MEMBER("min_lr_ratio", NUMBER, train.min_lr_ratio), .maximum = 1,
     .meaning =
         "smallest share of the rate: a linear or cosine schedule comes to it one step behind the last, wsd's "
         "decay after `decay_steps`",
     .argument = "SHARE"},
    {MEMBER("stable_steps", COUNT, train.stable_steps), .maximum = STEPS_MAX, .unit = "steps",
     .meaning = "at the whole rate under wsd; 0: all but those of warm-up and decay", .argument = "N"},
    {MEMBER("decay_steps", COUNT, train.decay_steps), .maximum = STEPS_MAX, .unit = "steps",
     .meaning = "over which wsd lets the rate fall to the floor; wsd needs it", .argument = "N"},
    {MEMBER("warmup_type", CHOICE, train.warmup_type), .choices = ramps, .kind = "ramp",
     .meaning = "how the rate rises in wsd's warm-up", .argument = "linear|cosine|1-sqrt"},
    {MEMBER("decay_type", CHOICE, train.decay_type), .choices = ramps, .initial = RAMP_COSINE, .kind = "ramp",
     .meaning = "how the rate falls in wsd's decay", .argument = "linear|cosine|1-sqrt"},
    {MEMBER("cycles", NUMBER, train.cycles), .maximum = STEPS_MAX, .initial = 0.5,
     .meaning = "waves of wsd's cosine decay: a half falls once", .argument = "NUMBER"},
    {MEMBER("clip", NUMBER, train.clip), .maximum = 1e9,
     .meaning = "largest norm of all gradients together; 0: any", .argument = "NORM"},
    {MEMBER("shuffle", COUNT, train.shuffle), .maximum = COUNT_MAX,
     .meaning = "seed of the order of windows or sequences; 0: that of the data", .argument = "SEED"},
    {MEMBER("held_out", NUMBER, train.held_out), .maximum = 1,
     .meaning = "share of the windows or sequences, the last ones, that are evaluated instead of trained on",
     .argument = "SHARE"},
    {MEMBER("evaluate", TEXT, train.evaluate.path),
     .meaning = "another file to be evaluated, of the kind that the data are",
     .values = "the path of a file of tokens, or of a batch file or a folder of such", .null = "none",
     .argument = "FILE", .spelling = SPELLED_TEXT},
    {MEMBER("evaluate_every", COUNT, train.evaluate_every), .maximum = STEPS_MAX, .unit = "steps",
     .meaning = "between evaluations; 0: only before the first step and after the last", .argument = "N"},
    {MEMBER("evaluate_windows", COUNT, train.evaluate_windows), .maximum = COUNT_MAX,
     .meaning = "windows or sequences that are evaluated, at most; 0: all", .argument = "N"},
    {0}};

const struct trial_key trial_keys[] = {
    // A folder of a model may be called 7.
    {KEY("model", OWN), .first = true, .required = true, .meaning = "what is trained",
     .values = "a preset, a folder with config.json and *.safetensors, or in a spec a shape", .quiet = true,
     .argument = "DIR|PRESET", .spelling = SPELLED_TEXT, .decode = decode_model},
    {KEY("dtype", OWN), .holds = HOLDS_TEXT, .first = true, .meaning = "of weights and activations",
     .values = "f64, f32 or bf16", .standard = "f32", .argument = "DTYPE", .decode = decode_dtype},
    {KEY("device", OWN), .holds = HOLDS_TEXT, .first = true, .meaning = "where to compute",
     .values = "cpu, cuda, cuda:1 for a second card, plan", .standard = "cpu", .argument = "DEVICE",
     .decode = decode_device},
    {KEY("profile", OWN), .holds = HOLDS_TEXT, .first = true,
     .meaning = "device profile that a time estimate is made from, such as rtx-3090",
     .values = "its name or path, and numbers of another card behind: rtx-3090,memory_bytes=12GiB",
     .null = "no estimate", .quiet = true, .argument = "PROFILE|FILE", .spelling = SPELLED_TEXT,
     .decode = decode_profile},
    {KEY("interconnect", OWN), .holds = HOLDS_TEXT,
     .meaning = "between ranks, that a time estimate of several is made from, such as infiniband",
     .values = "their name or path", .null = "the profile's", .quiet = true, .argument = "INTERCONNECT|FILE",
     .spelling = SPELLED_TEXT, .decode = decode_interconnect},
    {KEY("data", OWN), .meaning = "the tokens",
     .values = "random, {text: PATH} of bytes, {tokens: PATH} (.npy or llm.c's .bin; raw ids: dtype: u16 or u32), "
               "or {batch: PATH} of a batch file, to train also a folder",
     .standard = "random", .quiet = true, .decode = decode_data},
    {MEMBER("batch", COUNT, batch), .first = true, .minimum = 1, .maximum = BATCH_MAX, .initial = 1,
     .unit = "sequences", .meaning = "per step, in a training run per micro-batch; a batch file sets it",
     .told = batch_of_data, .argument = "N|FILE", .spelling = SPELLED_BATCH},
    {MEMBER("context", COUNT, context), .first = true, .minimum = 1, .maximum = CONTEXT_MAX, .required = true,
     .unit = "tokens", .meaning = "of a sequence, such as 32768 or 32K (M: 1,048,576); a batch file sets it",
     .told = context_of_data, .argument = "N[K|M]"},
    {MEMBER("seed", COUNT, seed), .maximum = COUNT_MAX, .initial = 1,
     .meaning = "of a preset's random weights, and of random tokens", .argument = "N"},
    {MEMBER("labels", TEXT, labels), .meaning = "little-endian int32, -100: no target",
     .values = "the path of a file of labels", .null = "the next token", .argument = "FILE",
     .spelling = SPELLED_TEXT},
    {KEY("documents", OWN), .meaning = "lengths in tokens of the documents that are packed into a sequence",
     .values = "512 or 2K, a list to be repeated, or {mean: 512}: at random",
     .null = "each sequence is one, or what a batch file says", .argument = "N|mean=N", .spelling = SPELLED_OBJECT,
     .decode = decode_documents},
    {MEMBER("prompt", COUNT, prompt), .maximum = CONTEXT_MAX, .unit = "tokens",
     .meaning =
         "that each sequence begins with and does not predict; 0: none, or as an objective or a batch file has it",
     .argument = "N[K|M]"},
    {MEMBER("group", COUNT, group), .minimum = 1, .maximum = BATCH_MAX, .initial = 1, .unit = "sequences",
     .meaning = "one after another, whose common prompt is walked once", .argument = "N"},
    {KEY("objective", OWN), .meaning = "what is minimised",
     .values = "a name of `longbp list objectives`, or {name: NAME, OPTION: VALUE, ...}", .standard = "token-mean",
     .telling = "name", .argument = "OBJECTIVE,OPTION=VALUE", .spelling = SPELLED_NAMED,
     .decode = decode_objective},
    {KEY("lora", OWN), .holds = HOLDS_OBJECT, .first = true,
     .meaning = "train LoRA factors alone, new ones or those of a PEFT adapter's folder",
     .values = "{rank: 8, alpha: 16, targets: [q, v], rslora: false, adapter: DIR} or a part of it, or the folder "
               "alone; also, as in PEFT, exclude_modules, layers_to_transform, layers_pattern, rank_pattern, "
               "alpha_pattern, modules_to_save, ensure_weight_tying",
     .null = "every weight trains", .telling = "rank", .argument = "DIR|r=8,alpha=16,targets=q,v",
     .spelling = SPELLED_OBJECT, .decode = decode_lora},
    {KEY("reference", OWN), .holds = HOLDS_TEXT, .meaning = "log-probs that an objective holds the model's against",
     .values =
         "file (the batch file), random, adapter-off (the model without lora), or a folder with another model",
     .null = "the objective reads none; else file or random as the data are, else adapter-off", .quiet = true,
     .argument = "file|random|adapter-off|DIR", .spelling = SPELLED_TEXT, .decode = decode_reference},
    {KEY("weights", OWN), .holds = HOLDS_TEXT,
     .meaning = "quantise the layers' frozen projections, in blocks of 64; needs lora", .values = "nf4 or int8",
     .null = "all are in the dtype", .tried = (const char *const[]){"nf4", "int8", NULL}, .rounds = true,
     .argument = "nf4|int8", .spelling = SPELLED_TEXT, .decode = decode_weights},
    {KEY("optimizer", OWN), .holds = HOLDS_OBJECT, .first = true,
     .meaning = "whose state the step keeps, and whose update it takes",
     .values = "a name of `longbp list optimizers`, or {name: NAME, OPTION: VALUE, ...}", .null = "none",
     .telling = "name", .argument = "OPTIMIZER,OPTION=VALUE", .spelling = SPELLED_NAMED,
     .decode = decode_optimizer},
    {KEY("kv_gradient_dtype", OWN), .holds = HOLDS_TEXT,
     .meaning = "of the sums of the gradient of keys and values",
     .values =
         "bf16, rounded to nearest, or bf16-stochastic, rounded without bias, of a model in bf16; else the default",
     .standard = "f32, of a model in f64 f64", .tried = (const char *const[]){"bf16", NULL}, .rounds = true,
     .argument = "DTYPE", .decode = decode_kv_gradient_dtype},
    {KEY("gradient_dtype", OWN), .holds = HOLDS_TEXT, .meaning = "of the sums of the weights' gradients",
     .values = "bf16 of a model in bf16, else the default", .standard = "f32, of a model in f64 f64",
     .argument = "DTYPE", .decode = decode_gradient_dtype},
    {MEMBER("deterministic", BOOL, deterministic), .meaning = "the same bits in every run, at whatever cost",
     .words = "deterministic"},
    {MEMBER("tf32", BOOL, tf32), .meaning = "GEMM in f32 may round its factors to TF32, where the device can",
     .words = "TF32"},
    {MEMBER("whole_attention", BOOL, whole_attention),
     .meaning = "attention's backward at once, where the device would run it in blocks",
     .words = "whole attention"},
    {MEMBER("attention_queries", COUNT, attention_queries), .minimum = 128, .maximum = 8192, .initial = 2048,
     .card_rows = 8192, .quiet = true, .unit = "tokens",
     .meaning = "queries of a block of attention's backward, at most, where a device runs it in blocks",
     .argument = "N[K|M]"},
    {MEMBER("whole_keys", BOOL, whole_keys),
     .meaning = "attention's forward takes all keys at once, where a card would cut them into ranges",
     .words = "whole keys"},
    {MEMBER("unfused", BOOL, unfused),
     .meaning = "passes over memory that others could spare are made all the same, to time one against the other",
     .words = "unfused"},
    {MEMBER("gemm_algorithms", TEXT, gemm_algorithms),
     .meaning = "which of cuBLASLt's candidates each GEMM of a card takes; what the file lacks is timed and added",
     .values = "the path of a file, which the first run makes", .null = "the library's first choice",
     .argument = "FILE", .spelling = SPELLED_TEXT},
    {MEMBER("pad_gradient", BOOL, pad_gradient),
     .meaning = "the embedding's row of a folder's pad_token_id takes a gradient as others do",
     .words = "pad gradient"},
    {KEY("method", METHOD), .first = true, .required = true, .meaning = "how the gradient is computed",
     .values = "a name of `longbp list methods`, or {name: NAME, OPTION: VALUE, ...}", .argument = "METHOD",
     .spelling = SPELLED_TEXT},
    {KEY("parallel", OBJECT),
     .meaning =
         "ranks that share a step, a process each: data, sequence, stage, zero, sum, overlap, node and exchange of "
         "`longbp list keys`",
     .argument = "KEY=VALUE,KEY=VALUE", .spelling = SPELLED_OBJECT, .members = parallel_keys},
    {KEY("train", OBJECT),
     .meaning =
         "a training run: steps that update the weights, over the windows of `context` tokens of the data, or over "
         "the sequences of batch files",
     .null = "one step is measured again and again", .settle = settle_train, .members = train_keys},
    {KEY("measure", OBJECT), .meaning = "what is measured", .quiet = true, .settle = settle_measure,
     .members = measure_keys},
    {KEY("limits", OBJECT), .meaning = "what the trial may take", .quiet = true, .members = limits_keys},
    {KEY("place", OBJECT), .meaning = "where is kept what every method has", .members = place_keys},
    {KEY("host", OWN), .holds = HOLDS_OBJECT, .meaning = "where the host keeps what is put there",
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

size_t trial_keys_tried(struct tried_key tried[TRIAL_KEYS_MAX])
{
    size_t count = 0;
    for (const struct trial_key *key = trial_keys; key->name; key++) {
        if (key->tried)
            tried[count++] = (struct tried_key){key, NULL};
        for (const struct trial_key *member = key->members; member && member->name; member++)
            if (member->tried)
                tried[count++] = (struct tried_key){member, key};
    }
    return count;
}

json_t *tried_key_value(struct tried_key tried, const json_t *canonical)
{
    return json_object_get(tried.parent ? json_object_get(canonical, tried.parent->name) : canonical,
                           tried.key->name);
}

void trial_key_names(struct names *names, const struct trial_key *keys)
{
    for (; keys->name; keys++)
        names_add(names, keys->name);
}

// --- in words

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
