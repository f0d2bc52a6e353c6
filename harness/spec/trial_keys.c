#include "harness/spec/trial_keys.h"
#include "harness/spec/train_keys.h"
#include "harness/spec/trial_key_words.h"
#include "harness/spec/trial_values.h"
#include "harness/text/size.h"
#include <string.h>

#define CONTEXT_MAX ((double)INT32_MAX) // token positions are i32 on devices
#define BATCH_MAX   ((double)(1 << 20))
#define SAMPLES_MAX 100000.0
#define COUNT_MAX   ((double)JSON_INTEGER_MAX)

#define AT(member) offsetof(struct trial, member)

static const struct trial_key measure_keys[] = {
    {.name = "warmup",
     .type = KEY_COUNT,
     .offset = AT(measure.warmup),
     .maximum = SAMPLES_MAX,
     .initial = 1,
     .unit = "steps",
     .meaning = "before the samples"},
    {.name = "samples",
     .type = KEY_COUNT,
     .offset = AT(measure.samples),
     .minimum = 1,
     .maximum = SAMPLES_MAX,
     .initial = 5,
     .unit = "steps",
     .meaning = "timed; where columns are drawn, of a draw each"},
    {.name = "max_seconds",
     .type = KEY_NUMBER,
     .offset = AT(measure.max_seconds),
     .maximum = 1e9,
     .initial = 60,
     .unit = "seconds",
     .meaning = "limit of the trial's process; 0: none"},
    {.name = "gradient",
     .type = KEY_CHOICE,
     .offset = AT(measure.gradient),
     .initial = GRADIENT_FULL_F64,
     .choices = (const char *const[]){"none", "full-f64", NULL},
     .kind = "gradient check",
     .meaning = "what the gradient is held against before anything is timed"},
    {.name = "timeline",
     .type = KEY_BOOL,
     .offset = AT(measure.timeline),
     .meaning = "record the live bytes over one step"},
    {.name = "gemm",
     .type = KEY_BOOL,
     .offset = AT(measure.gemm),
     .meaning = "record the device's GEMM rate beside the samples"},
    {.name = "bias",
     .type = KEY_BOOL,
     .offset = AT(measure.bias),
     .meaning = "expectation and spread of an estimate over everything that can be drawn"},
    {.name = "pair_sums",
     .type = KEY_BOOL,
     .offset = AT(measure.pair_sums),
     .meaning = "how far a pair's difference is off by the dtype of its sums"},
    {.name = "lost_updates",
     .type = KEY_BOOL,
     .offset = AT(measure.lost_updates),
     .meaning = "how much of a training run's updates is lost where weights are rounded to bf16"},
    {.name = "categories",
     .type = KEY_BOOL,
     .offset = AT(measure.categories),
     .meaning = "record where a step's time goes"},
    {0}};

static const char *const places[] = {"device", "host", NULL};

#define PLACE(of, said)                                                                                            \
    {                                                                                                              \
        .name = #of, .type = KEY_CHOICE, .offset = AT(of##_place), .choices = places, .kind = "place",             \
        .meaning = said, .argument = "device|host", .flag = "place_" #of, .tried = (const char *const[])           \
        {                                                                                                          \
            "host", NULL                                                                                           \
        }                                                                                                          \
    }
static const struct trial_key place_keys[] = {
    PLACE(weights, "while nothing reads them"),
    PLACE(gradients, "from when a unit's are complete until they are used"),
    PLACE(optimizer, "its state, but while a unit is updated"),
    {0}};

static const struct trial_key limits_keys[] = {
    {.name = "memory",
     .type = KEY_SIZE,
     .offset = AT(memory_limit_bytes),
     .meaning = "of the device",
     .values = "a size such as 24GiB (or 24G, the same) or 80GB",
     .null = "what the machine has free; planned: none, but of method auto what the profile calls usable, less its "
             "reserve",
     .argument = "SIZE",
     .flag = "memory_limit"},
    {.name = "host_memory",
     .type = KEY_SIZE,
     .offset = AT(host_memory_limit_bytes),
     .meaning = "of what is kept on the host",
     .values = "a size such as 24GiB (or 24G, the same) or 80GB",
     .null = "what the machine has free, on the CPU for both places together, or the folder's disk",
     .argument = "SIZE"},
    {0}};

static const char *const exchanges[] = {"gather", "ring", "all-to-all", NULL};
static const char *const sums[] = {"ordered", "engine", NULL};

static const struct trial_key parallel_keys[] = {
    {.name = "data",
     .type = KEY_COUNT,
     .offset = AT(parallel.data),
     .minimum = 1,
     .maximum = BATCH_MAX,
     .initial = 1,
     .unit = "ranks",
     .meaning = "each takes some of the sequences; times those of sequence and stage"},
    {.name = "sequence",
     .type = KEY_COUNT,
     .offset = AT(parallel.sequence),
     .minimum = 1,
     .maximum = 65536,
     .initial = 1,
     .unit = "ranks",
     .meaning = "each takes some of the tokens of the same sequences"},
    {.name = "stage",
     .type = KEY_COUNT,
     .offset = AT(parallel.stage),
     .minimum = 1,
     .maximum = 65536,
     .initial = 1,
     .unit = "ranks",
     .meaning = "a pipeline: each has some of the layers"},
    {.name = "zero",
     .type = KEY_COUNT,
     .offset = AT(parallel.zero),
     .maximum = ZERO_WEIGHTS,
     .meaning = "what ranks of data and sequence have in shares: 1 the optimizer's state, 2 gradients too, 3 "
                "weights too"},
    {.name = "exchange",
     .type = KEY_CHOICE,
     .offset = AT(parallel.exchange),
     .choices = exchanges,
     .kind = "exchange",
     .meaning = "between ranks of sequence: each gets the keys and values of all, or they go round, or each "
                "attends for some of the heads"},
    {.name = "sum",
     .type = KEY_CHOICE,
     .offset = AT(parallel.sum),
     .choices = sums,
     .kind = "sum",
     .meaning =
         "of gradients over ranks of data and sequence: by their devices in the ranks' order, which fixes the "
         "bits, or by the all-reduce and reduce-scatter of what carries the bytes"},
    {.name = "overlap",
     .type = KEY_BOOL,
     .offset = AT(parallel.overlap),
     .meaning = "what ranks of data and sequence send each other of weights and gradients goes while they compute, "
                "which takes memory of a layer more"},
    {.name = "node",
     .type = KEY_COUNT,
     .offset = AT(parallel.node),
     .minimum = 1,
     .maximum = 65536,
     .initial = 1,
     .unit = "ranks",
     .meaning =
         "per node: gradients and weights are summed and gathered within a node first, then between nodes; the "
         "numbers of ranks and of ranks per node fix the bits"},
    {0}};

const struct trial_key trial_keys[] = {
    {.name = "model",
     .first = true,
     .type = KEY_OWN,
     .required = true,
     .meaning = "what is trained",
     .values = "a preset, a folder with config.json and *.safetensors, or in a spec a shape",
     .quiet = true,
     .argument = "DIR|PRESET",
     .spelling = SPELLED_TEXT, // it may be called 7
     .decode = decode_model},
    {.name = "dtype",
     .first = true,
     .type = KEY_OWN,
     .meaning = "of weights and activations",
     .values = "f64, f32 or bf16",
     .standard = "f32",
     .argument = "DTYPE",
     .decode = decode_dtype},
    {.name = "device",
     .first = true,
     .type = KEY_OWN,
     .meaning = "where to compute",
     .values = "cpu, cuda, cuda:1 for a second card, plan",
     .standard = "cpu",
     .argument = "DEVICE",
     .decode = decode_device},
    {.name = "profile",
     .first = true,
     .type = KEY_OWN,
     .meaning = "device profile that a time estimate is made from, such as rtx-3090",
     .values = "its name or path, and numbers of another card behind: rtx-3090,memory_bytes=12GiB",
     .null = "no estimate",
     .quiet = true,
     .argument = "PROFILE|FILE",
     .spelling = SPELLED_TEXT,
     .decode = decode_profile},
    {.name = "links",
     .type = KEY_OWN,
     .meaning = "between ranks, that a time estimate of several is made from, such as infiniband",
     .values = "their name or path",
     .null = "the profile's",
     .quiet = true,
     .argument = "LINKS|FILE",
     .spelling = SPELLED_TEXT,
     .decode = decode_links},
    {.name = "data",
     .type = KEY_OWN,
     .meaning = "the tokens",
     .values = "random, {text: PATH} of bytes, {tokens: PATH} (.npy or llm.c's .bin; raw ids: dtype: u16 or u32), "
               "or {batch: PATH} of a batch file, to train also a folder",
     .standard = "random",
     .quiet = true,
     .decode = decode_data},
    {.name = "batch",
     .first = true,
     .type = KEY_COUNT,
     .offset = AT(batch),
     .minimum = 1,
     .maximum = BATCH_MAX,
     .initial = 1,
     .unit = "sequences",
     .meaning = "per step, in a training run per micro-batch; a batch file sets it",
     .told = batch_of_data,
     .argument = "N|FILE",
     .spelling = SPELLED_BATCH},
    {.name = "context",
     .first = true,
     .type = KEY_COUNT,
     .offset = AT(context),
     .minimum = 1,
     .maximum = CONTEXT_MAX,
     .required = true,
     .unit = "tokens",
     .meaning = "of a sequence, such as 32768 or 32K (M: 1,048,576); a batch file sets it",
     .told = context_of_data,
     .argument = "N[K|M]"},
    {.name = "seed",
     .type = KEY_COUNT,
     .offset = AT(seed),
     .maximum = COUNT_MAX,
     .initial = 1,
     .meaning = "of a preset's random weights, and of random tokens",
     .argument = "N"},
    {.name = "labels",
     .type = KEY_TEXT,
     .offset = AT(labels),
     .meaning = "little-endian int32, -100: no target",
     .values = "the path of a file of labels",
     .null = "the next token",
     .argument = "FILE",
     .spelling = SPELLED_TEXT},
    {.name = "documents",
     .type = KEY_OWN,
     .meaning = "lengths in tokens of the documents that are packed into a sequence",
     .values = "512 or 2K, a list to be repeated, or {mean: 512}: at random",
     .null = "each sequence is one, or what a batch file says",
     .argument = "N|mean=N",
     .spelling = SPELLED_OBJECT,
     .decode = decode_documents},
    {.name = "prompt",
     .type = KEY_COUNT,
     .offset = AT(prompt),
     .maximum = CONTEXT_MAX,
     .unit = "tokens",
     .meaning =
         "that each sequence begins with and does not predict; 0: none, or as an objective or a batch file has it",
     .argument = "N[K|M]"},
    {.name = "group",
     .type = KEY_COUNT,
     .offset = AT(group),
     .minimum = 1,
     .maximum = BATCH_MAX,
     .initial = 1,
     .unit = "sequences",
     .meaning = "one after another, whose common prompt is walked once",
     .argument = "N"},
    {.name = "objective",
     .type = KEY_OWN,
     .meaning = "what is minimised",
     .values = "a name of `longbp list objectives`, or {name: NAME, OPTION: VALUE, ...}",
     .standard = "token-mean",
     .telling = "name",
     .argument = "OBJECTIVE,OPTION=VALUE",
     .spelling = SPELLED_NAMED,
     .decode = decode_objective},
    {.name = "lora",
     .first = true,
     .type = KEY_OWN,
     .meaning = "train LoRA factors alone, new ones or those of a PEFT adapter's folder",
     .values = "{rank: 8, alpha: 16, targets: [q, v], rslora: false, adapter: DIR} or a part of it, or the folder "
               "alone; also, as in PEFT, exclude_modules, layers_to_transform, layers_pattern, rank_pattern, "
               "alpha_pattern, modules_to_save, ensure_weight_tying",
     .null = "every weight trains",
     .telling = "rank",
     .argument = "DIR|r=8,alpha=16,targets=q,v",
     .spelling = SPELLED_OBJECT,
     .decode = decode_lora},
    {.name = "reference",
     .type = KEY_OWN,
     .meaning = "log-probs that an objective holds the model's against",
     .values =
         "file (the batch file), random, adapter-off (the model without lora), or a folder with another model",
     .null = "the objective reads none; else file or random as the data are, else adapter-off",
     .quiet = true,
     .argument = "file|random|adapter-off|DIR",
     .spelling = SPELLED_TEXT,
     .decode = decode_reference},
    {.name = "weights",
     .type = KEY_OWN,
     .meaning = "quantise the layers' frozen projections, in blocks of 64; needs lora",
     .values = "nf4 or int8",
     .null = "all are in the dtype",
     .tried = (const char *const[]){"nf4", "int8", NULL},
     .rounds = true,
     .argument = "nf4|int8",
     .spelling = SPELLED_TEXT,
     .decode = decode_weights},
    {.name = "optimizer",
     .first = true,
     .type = KEY_OWN,
     .meaning = "whose state the step keeps, and whose update it takes",
     .values = "a name of `longbp list optimizers`, or {name: NAME, OPTION: VALUE, ...}",
     .null = "none",
     .telling = "name",
     .argument = "OPTIMIZER,OPTION=VALUE",
     .spelling = SPELLED_NAMED,
     .decode = decode_optimizer},
    {.name = "kv_gradient_dtype",
     .type = KEY_OWN,
     .meaning = "of the sums of the gradient of keys and values",
     .values =
         "bf16, rounded to nearest, or bf16-stochastic, rounded without bias, of a model in bf16; else the default",
     .standard = "f32, of a model in f64 f64",
     .tried = (const char *const[]){"bf16", NULL},
     .rounds = true,
     .argument = "DTYPE",
     .decode = decode_kv_gradient_dtype},
    {.name = "gradient_dtype",
     .type = KEY_OWN,
     .meaning = "of the sums of the weights' gradients",
     .values = "bf16 of a model in bf16, else the default",
     .standard = "f32, of a model in f64 f64",
     .argument = "DTYPE",
     .decode = decode_gradient_dtype},
    {.name = "deterministic",
     .type = KEY_BOOL,
     .offset = AT(deterministic),
     .meaning = "the same bits in every run, at whatever cost",
     .words = "deterministic"},
    {.name = "tf32",
     .type = KEY_BOOL,
     .offset = AT(tf32),
     .meaning = "GEMM in f32 may round its factors to TF32, where the device can",
     .words = "TF32"},
    {.name = "whole_attention",
     .type = KEY_BOOL,
     .offset = AT(whole_attention),
     .meaning = "attention's backward at once, where the device would run it in blocks",
     .words = "whole attention"},
    {.name = "attention_queries",
     .type = KEY_COUNT,
     .offset = AT(attention_queries),
     .minimum = 128,
     .maximum = 8192,
     .initial = 2048,
     .card_rows = 8192,
     .quiet = true,
     .unit = "tokens",
     .meaning = "queries of a block of attention's backward, at most, where a device runs it in blocks",
     .argument = "N[K|M]"},
    {.name = "unfused",
     .type = KEY_BOOL,
     .offset = AT(unfused),
     .meaning = "copies that a product could spare are made all the same, to time one against the other",
     .words = "unfused"},
    {.name = "gemm_algorithms",
     .type = KEY_TEXT,
     .offset = AT(gemm_algorithms),
     .meaning = "which of cuBLASLt's candidates each GEMM of a card takes; what the file lacks is timed and added",
     .values = "the path of a file, which the first run makes",
     .null = "the library's first choice",
     .argument = "FILE",
     .spelling = SPELLED_TEXT},
    {.name = "pad_gradient",
     .type = KEY_BOOL,
     .offset = AT(pad_gradient),
     .meaning = "the embedding's row of a folder's pad_token_id takes a gradient as others do",
     .words = "pad gradient"},
    {.name = "method",
     .first = true,
     .type = KEY_METHOD,
     .required = true,
     .meaning = "how the gradient is computed",
     .values = "a name of `longbp list methods`, or {name: NAME, OPTION: VALUE, ...}",
     .argument = "METHOD",
     .spelling = SPELLED_TEXT},
    {.name = "parallel",
     .type = KEY_OBJECT,
     .meaning =
         "ranks that share a step, a process each: data, sequence, stage, zero, sum, overlap, node and exchange of "
         "`longbp list keys`",
     .argument = "KEY=VALUE,KEY=VALUE",
     .spelling = SPELLED_OBJECT,
     .members = parallel_keys},
    {.name = "train",
     .type = KEY_OBJECT,
     .meaning =
         "a training run: steps that update the weights, over the windows of `context` tokens of the data, or over "
         "the sequences of batch files",
     .null = "one step is measured again and again",
     .settle = settle_train,
     .members = train_keys},
    {.name = "measure",
     .type = KEY_OBJECT,
     .meaning = "what is measured",
     .quiet = true,
     .settle = settle_measure,
     .members = measure_keys},
    {.name = "limits",
     .type = KEY_OBJECT,
     .meaning = "what the trial may take",
     .quiet = true,
     .members = limits_keys},
    {.name = "place", .type = KEY_OBJECT, .meaning = "where is kept what every method has", .members = place_keys},
    {.name = "host",
     .type = KEY_OWN,
     .meaning = "where the host keeps what is put there",
     .values = "{\"folder\": PATH}: files in that folder, on the CPU alone",
     .null = "in its memory, pinned for a card",
     .argument = "folder=DIR",
     .spelling = SPELLED_OBJECT,
     .telling = "folder",
     .decode = decode_host},
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

const struct trial_key *trial_key_at(const char *parent, const char *name)
{
    const struct trial_key *keys = trial_keys;
    size_t bytes = strcspn(parent, ".");
    for (const struct trial_key *key = trial_keys; *parent && key->name; key++) {
        if (strlen(key->name) == bytes && strncmp(key->name, parent, bytes) == 0 && parent[bytes] == '.' &&
            parent[bytes + 1] == '\0')
            keys = key->members;
    }
    if (*parent && keys == trial_keys)
        return NULL;
    while (keys && keys->name && strcmp(keys->name, name) != 0)
        keys++;
    return keys && keys->name ? keys : NULL;
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
