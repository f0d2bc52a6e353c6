#include "harness/step/step_data.h"
#include "harness/data/sequences.h"
#include "harness/data/shared_prompt.h"
#include "kernels/base/host_memory.h"
#include "kernels/base/random.h"
#include <string.h>
#include <xxhash.h>

// Index of a random element (sequence, token), independent of the shape.
static uint64_t element(size_t sequence, size_t token)
{
    return (uint64_t)sequence << 32 | token;
}

// Normal values for the first `tokens` elements of every sequence.
static double *random_normal_values(const struct trial *trial, const char *name, size_t tokens, double deviation,
                                    struct status *status)
{
    struct random random = random_named(trial->seed, name);
    double *values = host_memory_try(trial->batch * tokens, sizeof *values);
    if (!values)
        status_set(status, STATUS_OOM, "no room on the host for %s of %zu sequences", name, trial->batch);
    for (size_t b = 0; values && b < trial->batch; b++)
        random_normals(&random, element(b, 0), tokens, 0, deviation, values + b * tokens);
    return values;
}

static double *random_weights(const struct trial *trial, struct status *status)
{
    struct random random = random_named(trial->seed, "row weights");
    double *weights = host_memory_try(trial->batch * trial->context, sizeof *weights);
    if (!weights)
        status_set(status, STATUS_OOM, "no room on the host for the weights of %zu sequences", trial->batch);
    for (size_t b = 0; weights && b < trial->batch; b++)
        for (size_t t = 0; t < trial->context; t++)
            weights[b * trial->context + t] = random_uniform(&random, element(b, t));
    return weights;
}

static int32_t *random_desirable(const struct trial *trial, struct status *status)
{
    struct random random = random_named(trial->seed, "desirable");
    int32_t *desirable = host_memory_try(trial->batch, sizeof *desirable);
    if (!desirable)
        status_set(status, STATUS_OOM, "no memory on the host for the data of %zu sequences", trial->batch);
    for (size_t b = 0; desirable && b < trial->batch; b++)
        desirable[b] = (int32_t)random_below(&random, b, 2);
    return desirable;
}

static struct objective_terms terms_of(const struct trial *trial)
{
    return objective_terms(trial->objective, trial->objective_options);
}

// Labels: the next token, except in prompts, whose length is given or random from one token to half a sequence, the
// same for a pair. At a shorter context, which a search may try, one token has a target. ids NULL: labels have
// arbitrary values.
static int32_t *completions(const struct trial *trial, const int32_t *ids, struct status *status)
{
    size_t context = trial->context;
    struct random random = random_named(trial->seed, "prompt lengths");
    int32_t *labels = host_memory_try(trial->batch * context, sizeof *labels);
    if (!labels)
        status_set(status, STATUS_OOM, "no room on the host for the labels of %zu sequences", trial->batch);
    for (size_t b = 0; labels && b < trial->batch; b++) {
        size_t prompt = 1 + (context > 1 ? random_below(&random, b / 2, context / 2) : 0);
        if (trial->prompt)
            prompt = trial->prompt < context ? trial->prompt : context - 1;
        for (size_t t = 0; t < context; t++) {
            size_t i = b * context + t;
            labels[i] = t + 1 < prompt || t + 1 == context ? NO_TARGET : ids ? ids[i + 1] : 0;
        }
    }
    return labels;
}

// Refuses rows whose weights sum to 0, which have no mean.
static bool check_weights(const struct batch_data *data, const char *path, struct status *status)
{
    for (size_t i = 0; i < data->batch * data->context; i++)
        if (data->labels[i] != NO_TARGET && data->weights[i] > 0)
            return true;
    return status_set(status, STATUS_BAD_INPUT,
                      "%s: all labelled positions have weight 0, so the loss has no tokens", path);
}

// Checks that both sequences of a pair have targets.
static bool check_pairs(const struct batch_data *data, const char *path, size_t first, struct status *status)
{
    for (size_t b = 0; b < data->batch; b++) {
        size_t t = 0;
        while (t < data->context && data->labels[b * data->context + t] == NO_TARGET)
            t++;
        if (t == data->context)
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: labels[%zu] are all -100, but each sequence of a pair needs a completion", path,
                              first + b);
    }
    return true;
}

static bool check_there(const char *path, const void *values, const char *name, const struct trial *trial,
                        const char *what, struct status *status)
{
    return values || status_set(status, STATUS_BAD_INPUT, "%s: has no tensor \"%s\"; objective %s needs it, %s",
                                path, name, trial->objective->name, what);
}

bool step_data_check(const struct batch_data *data, const struct trial *trial, const char *path, size_t first,
                     struct status *status)
{
    struct objective_terms terms = terms_of(trial);
    return (!(terms.required & BATCH_WEIGHTS) ||
            check_there(path, data->weights, "weights", trial, "[batch, context], a number >= 0 for every row",
                        status)) &&
           (!(terms.required & BATCH_ADVANTAGES) ||
            check_there(path, data->advantages ? data->advantages : data->token_advantages, "advantages", trial,
                        "[batch], one for every sequence, or [batch, context], one for every label", status)) &&
           (!(terms.required & BATCH_OLD) || check_there(path, data->old_logprobs, "old_logprobs", trial,
                                                         "[batch, context], beside sampling_logprobs", status)) &&
           (!(terms.required & BATCH_SAMPLING) ||
            check_there(path, data->sampling_logprobs, "sampling_logprobs", trial, "[batch, context]", status)) &&
           (!(terms.required & BATCH_DESIRABLE) ||
            check_there(path, data->desirable, "desirable", trial, "[batch], 1 or 0 for every sequence", status)) &&
           (trial->reference.kind != REFERENCE_FILE ||
            check_there(path, data->reference_logprobs, "reference_logprobs", trial,
                        "[batch, context]; or \"reference\" another than file", status)) &&
           (terms.divisor != PER_PAIR || check_pairs(data, path, first, status));
}

// Reads the first micro-batch of a training run, in file order.
static bool read_first(struct batch_data *data, const struct trial *trial, struct status *status)
{
    struct sequences sequences = {0};
    const char *path = trial->data.path;
    size_t number;
    bool ok = sequences_expect(path, trial->context, trial->batch, status) &&
              sequences_open(&sequences, path, trial_together(trial), trial->config.vocab, 0, status) &&
              sequences_read(&sequences, 0, trial->batch, data, status) &&
              step_data_check(data, trial, sequences_place(&sequences, 0, &number), 0, status);
    sequences_close(&sequences);
    return ok;
}

static bool read_batch_file(struct batch_data *data, const struct trial *trial, struct status *status)
{
    const char *path = trial->data.path;
    return trial->train.steps
               ? read_first(data, trial, status)
               : batch_file_read(data, path, trial->context, trial->batch, trial->config.vocab, status) &&
                     step_data_check(data, trial, path, 0, status) &&
                     (!(terms_of(trial).required & BATCH_WEIGHTS) || check_weights(data, path, status));
}

// Each token's document, by the trial's packing.
static int32_t *packed_documents(const struct trial *trial, struct status *status)
{
    const struct packing *packing = &trial->packing;
    size_t count = trial->batch * trial->context;
    int32_t *documents = host_memory_try(count, sizeof *documents);
    struct random random = random_named(trial->seed, "documents");
    if (!documents)
        status_set(status, STATUS_OOM, "no room on the host for the documents of %zu tokens", count);
    CHECK(trial->context > 0);
    size_t left = 0, drawn = 0; // tokens of a document
    int32_t document = 0;
    for (size_t i = 0; documents && i < count; i++) {
        document = i % trial->context == 0 ? 0 : left == 0 ? document + 1 : document;
        if (left == 0 || i % trial->context == 0) {
            left = packing->mean ? 1 + random_below(&random, drawn++, 2 * packing->mean - 1)
                                 : packing->lengths[(size_t)document % packing->count];
        }
        documents[i] = document;
        left--;
    }
    return documents;
}

// Makes the sequences of a group begin with the same tokens.
static void share_prompts(int32_t *ids, const struct trial *trial)
{
    for (size_t b = 0; trial->group > 1 && b < trial->batch; b++) {
        size_t first = b - b % trial->group;
        if (b > first)
            memcpy(ids + b * trial->context, ids + first * trial->context, trial->prompt * sizeof *ids);
    }
}

static void pack(struct batch_data *data, const struct trial *trial, struct status *status)
{
    if (trial->packing.count || trial->packing.mean)
        data->documents = packed_documents(trial, status);
}

// Reads tokens and labels of files other than batch files, and draws the rest at random.
static bool read_tokens(struct batch_data *data, const struct trial *trial, struct status *status)
{
    size_t vocab = trial->config.vocab;
    bool random = trial->data.kind == DATA_RANDOM;
    struct objective_terms terms = terms_of(trial);
    unsigned compared = BATCH_OLD | BATCH_REFERENCE | BATCH_ADVANTAGES | BATCH_DESIRABLE;
    data->ids = tokens_read(&trial->data, trial->context, trial->batch, vocab, trial->seed, status);
    if (!data->ids)
        return false;
    share_prompts(data->ids, trial);
    if (trial->labels)
        data->labels = tokens_read_labels(trial->labels, trial->context, trial->batch, vocab, status);
    else if (trial->prompt ||
             (random && (terms.divisor == PER_PAIR || (terms.required | terms.optional) & compared)))
        data->labels = completions(trial, data->ids, status);
    if (random && terms.required & BATCH_WEIGHTS)
        data->weights = random_weights(trial, status);
    if (random && terms.required & BATCH_ADVANTAGES)
        data->advantages = random_normal_values(trial, "advantages", 1, 1, status);
    if (random && terms.required & BATCH_DESIRABLE)
        data->desirable = random_desirable(trial, status);
    pack(data, trial, status);
    return status->code == STATUS_OK;
}

unsigned step_data_noise(const struct trial *trial)
{
    struct objective_terms terms = terms_of(trial);
    unsigned sampled = (terms.required | terms.optional) & (BATCH_OLD | BATCH_SAMPLING);
    return (trial->data.kind == DATA_RANDOM ? sampled : 0) |
           (trial->reference.kind == REFERENCE_RANDOM ? BATCH_REFERENCE : 0);
}

bool step_data_read_shape(struct batch_data *data, const struct trial *trial, struct status *status)
{
    *data = (struct batch_data){.context = trial->context, .batch = trial->batch};
    pack(data, trial, status);
    if (trial->group > 1 && trial->data.kind != DATA_BATCH)
        data->labels = completions(trial, NULL, status);
    return status->code == STATUS_OK && (trial->data.kind != DATA_BATCH || read_batch_file(data, trial, status));
}

bool step_data_read(struct batch_data *data, const struct trial *trial, struct status *status)
{
    unsigned noise = step_data_noise(trial);
    *data = (struct batch_data){.context = trial->context, .batch = trial->batch};
    if (!(trial->data.kind == DATA_BATCH ? read_batch_file : read_tokens)(data, trial, status))
        return false;
    if (noise & BATCH_OLD)
        data->old_logprobs = random_normal_values(trial, "old log-probs", trial->context, STEP_DATA_NOISE, status);
    if (noise & BATCH_SAMPLING)
        data->sampling_logprobs =
            random_normal_values(trial, "sampling log-probs", trial->context, STEP_DATA_NOISE, status);
    if (noise & BATCH_REFERENCE) {
        free(data->reference_logprobs);
        data->reference_logprobs =
            random_normal_values(trial, "reference log-probs", trial->context, STEP_DATA_NOISE, status);
    }
    return status->code == STATUS_OK;
}

uint64_t step_data_hash(const struct batch_data *data, const struct trial *trial)
{
    size_t rows = data->batch * data->context;
    const struct part {
        const void *values;
        size_t bytes;
    } parts[] = {{data->ids, rows * sizeof *data->ids},
                 {data->labels, rows * sizeof *data->labels},
                 {data->lengths, data->batch * sizeof *data->lengths},
                 {data->documents, rows * sizeof *data->documents},
                 {data->weights, rows * sizeof *data->weights},
                 {data->old_logprobs, rows * sizeof *data->old_logprobs},
                 {data->advantages, data->batch * sizeof *data->advantages},
                 {data->reference_logprobs, rows * sizeof *data->reference_logprobs}}; // only from a file
    // Data without these keep their earlier hash.
    const struct part rare[] = {{data->desirable, data->batch * sizeof *data->desirable},
                                {data->sampling_logprobs, rows * sizeof *data->sampling_logprobs},
                                {data->token_advantages, rows * sizeof *data->token_advantages}};
    size_t count = sizeof parts / sizeof *parts - (trial->reference.kind != REFERENCE_FILE);
    XXH64_hash_t hashes[sizeof parts / sizeof *parts] = {0};
    if (trial->data.kind == DATA_RANDOM)
        return 0;
    for (size_t i = 0; i < count; i++)
        hashes[i] = parts[i].values ? XXH3_64bits(parts[i].values, parts[i].bytes) : 0;
    XXH64_hash_t all = XXH3_64bits(hashes, count * sizeof *hashes);
    for (size_t i = 0; i < sizeof rare / sizeof *rare; i++)
        if (rare[i].values)
            all = XXH3_64bits_withSeed(rare[i].values, rare[i].bytes, all + i);
    return all;
}

// Packs groups; the length of a row is known only here, so the method's options are checked again.
bool step_data_pack(struct batch_data *data, const struct trial *trial, struct status *status)
{
    const struct method *method = trial->method;
    return trial->group <= 1 ||
           (shared_prompt_pack(data, trial->group, trial->data.path, status) &&
            (!method->check || method->check(trial->options, &trial->config, data->context, status)));
}
