#include "harness/train/train_data.h"
#include "harness/data/shared_prompt.h"
#include "harness/step/reference_model.h"
#include "harness/step/step_data.h"
#include "kernels/base/host_memory.h"
#include "kernels/objectives/batch.h"
#include <string.h>

// --- opening

// Tells whether the sequence has a label with a positive weight.
static bool counts(const struct batch_data *read, size_t b, bool weights)
{
    for (size_t i = b * read->context; i < (b + 1) * read->context; i++)
        if (read->labels[i] != NO_TARGET && (!weights || read->weights[i] > 0))
            return true;
    return false;
}

// FNV-1a (Fowler, Noll & Vo 1991), of 64-bit words.
#define HASH_BASIS 0xcbf29ce484222325

static uint64_t hash_add(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * 0x100000001b3;
}

// A document's length is with the prompt that it continues, as in struct normaliser.
static struct layout layout_of(const struct batch_data *rows)
{
    const int32_t *numbers = rows->of ? rows->of : rows->documents;
    struct layout layout = {rows->context, HASH_BASIS, numbers ? 0 : rows->context};
    for (size_t i = 0, start = 0, prompt = 0; numbers && i < rows->batch * rows->context; i++) {
        size_t at = i % rows->context;
        bool first = at == 0 || numbers[i] != numbers[i - 1];
        if (first)
            layout.hash = hash_add(layout.hash, i);
        start = first ? at : start;
        prompt = (at > 0 ? prompt : 0) + (rows->of && numbers[i] < 0);
        size_t tokens = at + 1 - start + (start > 0 ? prompt : 0);
        layout.longest = tokens > layout.longest ? tokens : layout.longest;
    }
    return layout;
}

// Reads all sequences, one pair or group at a time: checks values and records layouts.
static bool check_all(struct train_data *data, struct status *status)
{
    struct sequences *sequences = &data->sequences;
    const struct trial *trial = data->trial;
    const size_t together = sequences->together; // at least 1
    bool weights = objective_terms(trial->objective, trial->objective_options).required & BATCH_WEIGHTS, ok = true;
    data->blank = calloc(sequences->count, sizeof *data->blank);
    data->layouts = calloc(sequences->count / together + 1, sizeof *data->layouts);
    for (size_t i = 0; ok && i < sequences_count(sequences); i += together) {
        struct batch_data read;
        size_t item = sequences_item(sequences, i), number;
        const char *path = sequences_place(sequences, item, &number);
        ok = sequences_read(sequences, i, together, &read, status) &&
             step_data_check(&read, trial, path, number, status);
        for (size_t b = 0; ok && b < together; b++) {
            data->blank[item + b] = !counts(&read, b, weights);
            data->any_blank |= data->blank[item + b];
        }
        ok = ok && (trial->group <= 1 || shared_prompt_pack(&read, trial->group, path, status));
        if (ok)
            data->layouts[item / together] = layout_of(&read);
        batch_data_free(&read);
    }
    return ok;
}

bool train_data_open(struct train_data *data, const struct trial *trial, const struct data_source *source,
                     size_t context, uint64_t shuffle, struct status *status)
{
    *data = (struct train_data){.trial = trial, .of_files = source->kind == DATA_BATCH};
    if (!data->of_files)
        return windows_open(&data->windows, source, trial_window(trial), context, trial->config.vocab, trial->seed,
                            shuffle, status);
    return sequences_expect(source->path, trial->context, 1, status) &&
           sequences_open(&data->sequences, source->path, trial_together(trial), trial->config.vocab, shuffle,
                          status) &&
           check_all(data, status);
}

bool train_data_split(struct train_data *data, double share, struct train_data *held_out, struct status *status)
{
    size_t bytes =
        data->of_files ? sequences_count(&data->sequences) / data->sequences.together * sizeof *data->layouts : 0;
    *held_out = (struct train_data){.trial = data->trial, .of_files = data->of_files};
    if (bytes)
        CHECK(held_out->layouts = memcpy(malloc(bytes), data->layouts, bytes));
    return data->of_files ? sequences_split(&data->sequences, share, &held_out->sequences, status)
                          : windows_split(&data->windows, share, &held_out->windows, status);
}

struct layout train_data_layout(struct train_data *data, size_t index, size_t count)
{
    size_t together = data->sequences.together;
    struct layout all = {0, HASH_BASIS, 0};
    for (size_t i = 0; i < count; i += together) {
        const struct layout *own = &data->layouts[sequences_item(&data->sequences, index + i) / together];
        all.tokens = own->tokens > all.tokens ? own->tokens : all.tokens;
        all.hash = hash_add(all.hash, own->hash);
    }
    all.hash = hash_add(hash_add(all.hash, all.tokens), count);
    return all;
}

size_t train_data_longest(const struct train_data *data)
{
    size_t longest = 0;
    for (size_t i = 0; data->of_files && i < data->sequences.count / data->sequences.together; i++)
        longest = data->layouts[i].longest > longest ? data->layouts[i].longest : longest;
    return longest;
}

size_t train_data_count(const struct train_data *data)
{
    return data->of_files ? sequences_count(&data->sequences) : data->windows.order.count;
}

void train_data_close(struct train_data *data)
{
    windows_close(&data->windows);
    sequences_close(&data->sequences);
    free(data->blank);
    free(data->layouts);
    free(data->reference);
    *data = (struct train_data){0};
}

bool train_data_feeds(struct train_data *data, size_t steps, size_t count, struct status *status)
{
    struct sequences *sequences = &data->sequences;
    for (size_t step = 0; data->any_blank && step < steps; step++) {
        size_t i = 0;
        while (i < count && data->blank[sequences_item(sequences, step * count + i)])
            i++;
        if (i == count)
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: all labels of the %zu sequences of step %zu are -100, or have weight 0, so the "
                              "loss has no tokens: leave such sequences out, or use more in a step",
                              data->trial->data.path, count, step + 1);
    }
    return true;
}

// --- a second model

static bool refer_batch(struct train_data *data, struct reference_model *reference, size_t index, size_t count,
                        size_t longest, struct status *status)
{
    struct batch_data read;
    size_t context = data->sequences.context;
    bool ok = sequences_read(&data->sequences, index, count, &read, status);
    double *log_probs = ok ? reference_model_logprobs(reference, &read, longest, status) : NULL;
    for (size_t i = 0; log_probs && i < count; i++)
        memcpy(data->reference + sequences_item(&data->sequences, index + i) * context, log_probs + i * context,
               context * sizeof *log_probs);
    free(log_probs);
    batch_data_free(&read);
    return status->code == STATUS_OK;
}

bool train_data_refer(struct train_data *data, size_t count, size_t longest, const char *device,
                      struct status *status)
{
    const struct trial *trial = data->trial;
    struct reference_model reference;
    struct setup_options options = setup_options_of(trial);
    size_t all = train_data_count(data);
    if (trial->reference.kind != REFERENCE_FOLDER)
        return true;
    data->reference = host_memory_try(data->sequences.count * data->sequences.context, sizeof *data->reference);
    if (!data->reference)
        return status_set(status, STATUS_OOM, "no room on the host for the reference's log-probs of %zu sequences",
                          data->sequences.count);
    count = count < all ? count : all;
    options.device = device;
    bool ok = reference_model_open(&reference, trial, &options, status);
    for (size_t first = 0; ok && first < count; first += trial->batch)
        ok = refer_batch(data, &reference, first, count - first < trial->batch ? count - first : trial->batch,
                         longest, status);
    reference_model_close(&reference);
    return ok;
}

// --- reading

static bool read_windows(struct train_data *data, size_t index, size_t count, struct batch_data *read,
                         struct status *status)
{
    size_t context = data->windows.context;
    *read = (struct batch_data){.context = context, .batch = count};
    read->ids = host_memory_try(count * context, sizeof *read->ids);
    if (!read->ids)
        return status_set(status, STATUS_OOM, "no room on the host for %zu windows of %zu tokens", count, context);
    return windows_read(&data->windows, index, count, read->ids, status);
}

static bool read_sequences(struct train_data *data, size_t index, size_t count, struct batch_data *read,
                           struct status *status)
{
    struct sequences *sequences = &data->sequences;
    size_t context = sequences->context;
    if (!sequences_read(sequences, index, count, read, status))
        return false;
    if (data->reference) {
        double *reference = host_memory_try(count * context, sizeof *reference);
        if (!reference)
            return status_set(status, STATUS_OOM, "no room on the host for the log-probs of %zu sequences", count);
        for (size_t i = 0; i < count; i++)
            memcpy(reference + i * context, data->reference + sequences_item(sequences, index + i) * context,
                   context * sizeof *reference);
        free(read->reference_logprobs);
        read->reference_logprobs = reference;
    }
    return step_data_pack(read, data->trial, status);
}

bool train_data_read(struct train_data *data, size_t index, size_t count, struct batch_data *read,
                     struct status *status)
{
    return (data->of_files ? read_sequences : read_windows)(data, index, count, read, status);
}
