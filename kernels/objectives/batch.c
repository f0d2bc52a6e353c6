#include "kernels/objectives/batch.h"
#include "kernels/base/host_memory.h"
#include "kernels/comm/comm.h"
#include "kernels/objectives/objective.h"
#include <math.h>
#include <string.h>
#include <xxhash.h>

// Zeroed host memory for a batch on this device. Returns NULL with the device's status if there is no room or the
// device has failed.
static void *host_new(struct device *device, size_t count, size_t bytes)
{
    void *values = device->status.code == STATUS_OK ? host_memory_try(count, bytes) : NULL;
    if (!values)
        status_set(&device->status, STATUS_OOM, "no room on the host for %zu values of a batch", count);
    return values;
}

void normaliser_add(struct normaliser *step, const struct normaliser *batch)
{
    step->rows += batch->rows;
    step->sequences += batch->sequences;
    step->pairs += batch->pairs;
    step->chosen_rows += batch->chosen_rows;
    step->tokens += batch->tokens;
    step->weight += batch->weight;
    step->desirable += batch->desirable;
    step->longest = batch->longest > step->longest ? batch->longest : step->longest;
}

// The sequence of row t * B + b.
static size_t sequence_of(const struct batch *batch, size_t row, size_t b)
{
    return batch->of ? (size_t)batch->of[row] : b;
}

static void count_rows(struct batch *batch, const int32_t *targets)
{
    struct normaliser *normaliser = &batch->normaliser;
    normaliser->rows = normaliser->chosen_rows = 0;
    for (size_t t = 0, row = 0; t < batch->context; t++) {
        for (size_t b = 0; b < batch->batch; b++, row++) {
            bool counts = targets[row] >= 0;
            normaliser->rows += counts;
            normaliser->chosen_rows += counts && sequence_of(batch, row, b) % 2 == 0;
        }
    }
}

void batch_open(struct batch *opened, struct device *device, const int32_t *ids, const int32_t *targets,
                size_t context, size_t batch)
{
    size_t rows = context * batch;
    *opened =
        (struct batch){.context = context,
                       .batch = batch,
                       .pieces = pieces_of(context, 1, 0),
                       .sequences = batch,
                       .normaliser = {.sequences = batch, .pairs = batch / 2, .tokens = rows, .longest = context},
                       .objective = objectives[0]};
    opened->ids = tensor_new(device, rows, 1, DTYPE_I32, CATEGORY_DATA);
    opened->targets = tensor_new(device, rows, 1, DTYPE_I32, CATEGORY_DATA);
    if (!ids)
        return;
    int32_t *turned_ids = host_new(device, rows, sizeof *turned_ids);
    int32_t *turned_targets = host_new(device, rows, sizeof *turned_targets);
    for (size_t b = 0; turned_targets && b < batch; b++) {
        for (size_t t = 0; t < context; t++) {
            size_t from = b * context + t, to = t * batch + b;
            turned_ids[to] = ids[from];
            turned_targets[to] = targets ? targets[from] : t + 1 < context ? ids[from + 1] : NO_TARGET;
        }
    }
    if (turned_targets) {
        count_rows(opened, turned_targets);
        op_upload(device, opened->ids, turned_ids);
        op_upload(device, opened->targets, turned_targets);
    }
    free(turned_ids);
    free(turned_targets);
}

// The batch's targets, to be freed; NULL: the device has failed.
static int32_t *targets_of(const struct batch *batch, struct device *device)
{
    int32_t *targets = host_new(device, batch->context * batch->batch, sizeof *targets);
    if (targets)
        op_download(device, targets, batch->targets);
    return targets;
}

// Removes targets of documents' last tokens, which the next document follows. At a row's end nothing follows, and
// the given target stays.
static void end_targets(struct batch *batch, struct device *device)
{
    size_t rows = batch->context * batch->batch, B = batch->batch;
    int32_t *targets = targets_of(batch, device);
    for (size_t row = 0; targets && row < rows; row++) {
        bool last = row + B < rows && batch->starts[row + B] != batch->starts[row];
        targets[row] = last ? NO_TARGET : targets[row];
    }
    if (targets) {
        count_rows(batch, targets);
        op_upload(device, batch->targets, targets);
    }
    free(targets);
}

// Copies to the device, if it has data.
static struct tensor place_integers(struct device *device, const int32_t *values, size_t count)
{
    struct tensor placed = tensor_new(device, count, 1, DTYPE_I32, CATEGORY_DATA);
    if (device->status.code == STATUS_OK && !device->ops->dataless)
        op_upload(device, placed, values);
    return placed;
}

static void find_longest(struct batch *batch)
{
    size_t *longest = &batch->normaliser.longest;
    *longest = 0;
    for (size_t row = 0; row < batch->context * batch->batch; row++) {
        size_t start = (size_t)batch->starts[row], tokens = row / batch->batch + 1 - start;
        tokens += batch->prefixes && start > 0 ? (size_t)batch->prefixes[row % batch->batch] : 0;
        *longest = tokens > *longest ? tokens : *longest;
    }
}

// A document begins wherever the numbers of a sequence's tokens change. numbers: [batch, context].
static void set_starts(struct batch *batch, struct device *device, const int32_t *numbers)
{
    size_t rows = batch->context * batch->batch, B = batch->batch;
    CHECK(!batch->starts && !batch->weights.data);
    batch->starts = host_new(device, rows, sizeof *batch->starts);
    if (!batch->starts)
        return;
    for (size_t row = 0; row < rows; row++) {
        size_t t = row / B, at = row % B * batch->context + t;
        bool first = t == 0 || numbers[at - 1] != numbers[at];
        batch->starts[row] = first ? (int32_t)t : batch->starts[row - B];
    }
    batch->documents = XXH3_64bits(batch->starts, rows * sizeof *batch->starts);
    batch->device_starts = place_integers(device, batch->starts, rows);
}

void batch_set_documents(struct batch *batch, struct device *device, const int32_t *documents)
{
    for (size_t at = 0; at < batch->context * batch->batch; at++)
        CHECK(at % batch->context == 0 || documents[at - 1] <= documents[at]);
    set_starts(batch, device, documents);
    if (batch->starts)
        find_longest(batch);
    if (device->status.code == STATUS_OK && !device->ops->dataless)
        end_targets(batch, device);
}

// Sets each sequence's prefix and each row's sequence; a prefix's rows, which have no target, get any.
static void set_sequences(struct batch *batch, struct device *device, const int32_t *of, size_t count)
{
    size_t rows = batch->context * batch->batch, B = batch->batch;
    batch->prefixes = host_new(device, B, sizeof *batch->prefixes);
    batch->of = host_new(device, rows, sizeof *batch->of);
    for (size_t row = 0; batch->of && row < rows; row++) {
        size_t t = row / B, b = row % B, at = b * batch->context + t;
        bool shared = of[at] < 0;
        CHECK(shared ? batch->prefixes[b] == (int32_t)t : (size_t)of[at] < count);
        batch->prefixes[b] += shared;
        batch->of[row] = shared ? batch->of[row] : of[at];
    }
}

void batch_set_branches(struct batch *batch, struct device *device, const int32_t *of, size_t count)
{
    size_t rows = batch->context * batch->batch;
    set_starts(batch, device, of);
    set_sequences(batch, device, of, count);
    if (!batch->of)
        return;
    find_longest(batch);
    batch->documents =
        XXH3_64bits_withSeed(batch->prefixes, batch->batch * sizeof *batch->prefixes, batch->documents);
    batch->device_prefixes = place_integers(device, batch->prefixes, batch->batch);
    batch->device_of = place_integers(device, batch->of, rows);
    batch->sequences = batch->normaliser.sequences = count;
    batch->normaliser.pairs = count / 2;
    if (device->status.code == STATUS_OK && !device->ops->dataless) {
        int32_t *targets = targets_of(batch, device);
        for (size_t row = 0; targets && row < rows; row++)
            CHECK(targets[row] < 0 || batch->starts[row] > 0 || batch->prefixes[row % batch->batch] == 0);
        if (targets)
            count_rows(batch, targets);
        free(targets);
    }
}

// Sequences of row b of the batch, behind their prefix.
static int32_t sequences_of(const struct batch *batch, size_t b)
{
    size_t B = batch->batch, first = (size_t)batch->prefixes[b];
    int32_t count = 0;
    for (size_t t = first; t < batch->context; t++)
        count += t == first || batch->of[t * B + b] != batch->of[(t - 1) * B + b];
    return count;
}

// Tokens of each row of the batch up to its last target.
static void find_ends(const struct batch *batch, struct device *device, size_t *ends)
{
    int32_t *targets = device->ops->dataless ? NULL : targets_of(batch, device);
    for (size_t row = 0; targets && row < batch->context * batch->batch; row++)
        if (targets[row] >= 0)
            ends[row % batch->batch] = row / batch->batch + 1;
    free(targets);
}

void batch_count_repeats(struct batch *batch, struct device *device, const int32_t *lengths, bool to_targets)
{
    size_t B = batch->batch, rows = batch->context * B;
    int32_t *repeats = host_new(device, rows, sizeof *repeats);
    size_t *ends = host_new(device, B, sizeof *ends);
    for (size_t b = 0; ends && b < B; b++)
        ends[b] = lengths ? (size_t)lengths[b] : to_targets ? 0 : batch->context;
    if (ends && to_targets)
        find_ends(batch, device, ends);
    batch->normaliser.tokens = 0;
    for (size_t b = 0; repeats && ends && b < B; b++) {
        int32_t sequences = batch->prefixes ? sequences_of(batch, b) : 1;
        for (size_t t = 0; t < ends[b]; t++) {
            repeats[t * B + b] = batch->prefixes && t < (size_t)batch->prefixes[b] ? sequences : 1;
            batch->normaliser.tokens += (size_t)repeats[t * B + b];
        }
    }
    if (repeats)
        batch->repeats = place_integers(device, repeats, rows);
    free(ends);
    free(repeats);
}

void batch_set_chunks(struct batch *batch, struct device *device, size_t chunk)
{
    size_t rows = batch->context * batch->batch;
    CHECK(batch->chunk == 0 && !batch_is_shared(batch) && (chunk == 0 || !batch->prefixes));
    batch->chunk = chunk;
    if (chunk == 0 || chunk >= batch->context)
        return;
    batch->chunk_starts = host_new(device, rows, sizeof *batch->chunk_starts);
    for (size_t row = 0; batch->chunk_starts && row < rows; row++) {
        size_t t = row / batch->batch, start = batch->starts ? (size_t)batch->starts[row] : 0;
        batch->chunk_starts[row] = (int32_t)(t - (t - start) % chunk);
    }
    if (batch->chunk_starts)
        batch->device_chunk_starts = place_integers(device, batch->chunk_starts, rows);
}

struct documents batch_chunks(const struct batch *batch, struct span tokens)
{
    size_t row = tokens.start * batch->batch, rows = tokens.count * batch->batch;
    if (!batch->chunk_starts)
        return batch_documents(batch, tokens);
    return (struct documents){.starts = batch->chunk_starts + row,
                              .device_starts = tensor_rows(batch->device_chunk_starts, row, rows)};
}

// Positions from the first key on, of which those before it are 0.
static int32_t from_key(int32_t position, size_t key)
{
    return (size_t)position > key ? position - (int32_t)key : 0;
}

void batch_block_keys(struct batch *batch, struct device *device, size_t block)
{
    size_t rows = batch->context * batch->batch, B = batch->batch;
    CHECK(batch->key_block == 0 && !batch_is_shared(batch));
    if (block == 0 || !batch->starts || block >= batch->context)
        return;
    size_t blocks = (batch->context + block - 1) / block;
    batch->key_block = block;
    batch->block_starts = host_new(device, blocks * rows, sizeof *batch->block_starts);
    for (size_t i = 0; batch->block_starts && i < blocks * rows; i++)
        batch->block_starts[i] = from_key(batch->starts[i % rows], i / rows * block);
    if (batch->block_starts)
        batch->device_block_starts = place_integers(device, batch->block_starts, blocks * rows);
    if (!batch->prefixes)
        return;
    batch->block_prefixes = host_new(device, blocks * B, sizeof *batch->block_prefixes);
    for (size_t i = 0; batch->block_prefixes && i < blocks * B; i++)
        batch->block_prefixes[i] = from_key(batch->prefixes[i % B], i / B * block);
    if (batch->block_prefixes)
        batch->device_block_prefixes = place_integers(device, batch->block_prefixes, blocks * B);
}

struct documents batch_documents_in_block(const struct batch *batch, size_t key, struct span tokens)
{
    size_t B = batch->batch, i = key / batch->key_block, row = (i * batch->pieces.context + tokens.start) * B;
    return (struct documents){.starts = batch->block_starts + row,
                              .device_starts = tensor_rows(batch->device_block_starts, row, tokens.count * B),
                              .prefixes = batch->block_prefixes ? batch->block_prefixes + i * B : NULL,
                              .device_prefixes = tensor_rows(batch->device_block_prefixes, i * B, B)};
}

struct documents batch_documents(const struct batch *batch, struct span tokens)
{
    size_t row = tokens.start * batch->batch, rows = tokens.count * batch->batch;
    return (struct documents){.starts = batch->starts ? batch->starts + row : NULL,
                              .device_starts = tensor_rows(batch->device_starts, row, rows),
                              .prefixes = batch->prefixes,
                              .device_prefixes = batch->device_prefixes};
}

static void release(struct batch *batch, struct device *device)
{
    tensor_free(device, &batch->units);
    tensor_free(device, &batch->sums);
    tensor_free(device, &batch->counts);
    tensor_free(device, &batch->gains);
    tensor_free(device, &batch->token_advantages);
    tensor_free(device, &batch->advantages);
    tensor_free(device, &batch->shares);
    tensor_free(device, &batch->reference);
    tensor_free(device, &batch->old);
    tensor_free(device, &batch->weights);
}

// In the statistics' dtype; values: [sequences, count], or NULL: not numbers.
static struct tensor place(struct device *device, size_t sequences, size_t count, const double *values)
{
    size_t rows = count * sequences;
    struct tensor placed = tensor_new(device, rows, 1, dtype_statistic(device->ops->dtype), CATEGORY_DATA);
    if (device->status.code != STATUS_OK || device->ops->dataless)
        return placed;
    double *turned = host_new(device, rows, sizeof *turned);
    for (size_t b = 0; turned && b < sequences; b++)
        for (size_t t = 0; t < count; t++)
            turned[t * sequences + b] = values ? values[b * count + t] : NAN;
    if (turned)
        tensor_write(device, placed, turned);
    free(turned);
    return placed;
}

// Rows of a pair's longer sequence beyond the shorter one's length get the weight `beyond`. counts: rows with a
// target per sequence.
static void share_out(const struct batch *batch, struct device *device, const int32_t *targets,
                      const int32_t *counts, double beyond)
{
    size_t rows = batch->context * batch->batch;
    double *shares = host_new(device, rows, sizeof *shares);
    int32_t *seen = host_new(device, batch->sequences, sizeof *seen);
    for (size_t row = 0; seen && row < rows; row++) {
        size_t b = sequence_of(batch, row, row % batch->batch);
        seen[b] += targets[row] >= 0;
        shares[row] = seen[b] > counts[b ^ 1] ? beyond : 1;
    }
    if (seen)
        tensor_write(device, batch->shares, shares);
    free(seen);
    free(shares);
}

// The weight for desirable sequences, minus the weight for others, 0 for mismatched ones.
static struct tensor place_values(struct batch *batch, struct device *device, const struct objective_terms *terms,
                                  const int32_t *desirable)
{
    size_t step = sequence_stride(terms->sequences);
    double *values = desirable ? host_new(device, batch->sequences, sizeof *values) : NULL;
    for (size_t b = 0; values && b < batch->sequences; b += step) {
        values[b] = desirable[b] ? terms->desirable : -terms->undesirable;
        batch->normaliser.desirable += desirable[b] != 0;
    }
    struct tensor placed = place(device, batch->sequences, 1, values);
    free(values);
    return placed;
}

// Advantages of the batch's rows, [batch, context]; 0 without a target. targets: by row.
static double *row_advantages(const struct batch *batch, struct device *device, const struct batch_values *given,
                              const int32_t *targets)
{
    double *advantages = host_new(device, batch->context * batch->batch, sizeof *advantages);
    for (size_t i = 0; advantages && i < batch->context * batch->batch; i++) {
        size_t b = i / batch->context, row = i % batch->context * batch->batch + b;
        if (targets[row] >= 0) {
            advantages[i] = given->token_advantages ? given->token_advantages[i]
                                                    : given->advantages[sequence_of(batch, row, b)];
        }
    }
    return advantages;
}

// Removes the targets and counts of groups whose advantages are all 0.
static void mask_groups(struct batch *batch, struct device *device, size_t group, const double *advantages,
                        int32_t *targets)
{
    bool *gains = host_new(device, batch->sequences, sizeof *gains);
    size_t masked = 0;
    for (size_t i = 0; gains && i < batch->context * batch->batch; i++) {
        size_t b = i / batch->context, row = i % batch->context * batch->batch + b;
        gains[sequence_of(batch, row, b) / group] |= advantages[i] != 0;
    }
    for (size_t row = 0; gains && row < batch->context * batch->batch; row++) {
        size_t b = sequence_of(batch, row, row % batch->batch);
        targets[row] = gains[b / group] ? targets[row] : NO_TARGET;
    }
    for (size_t b = 0; gains && b < batch->sequences; b++)
        masked += !gains[b / group];
    if (gains) {
        batch->normaliser.sequences -= masked;
        count_rows(batch, targets);
        op_upload(device, batch->targets, targets);
    }
    free(gains);
}

static double sampling_factor(struct sampling sampling, double log_ratio)
{
    bool masks = sampling.by == SAMPLING_TOKEN_MASK || sampling.by == SAMPLING_SEQUENCE_MASK;
    double ratio = exp(log_ratio), max = sampling.largest > 0 ? sampling.largest : INFINITY;
    double within = fmin(fmax(ratio, sampling.smallest), max);
    return masks && within != ratio ? 0 : within;
}

static void correct(const struct batch *batch, struct device *device, struct sampling sampling,
                    const struct batch_values *given, const int32_t *targets, double *advantages)
{
    size_t rows = batch->context * batch->batch;
    bool whole = sampling.by == SAMPLING_SEQUENCE_TRUNCATE || sampling.by == SAMPLING_SEQUENCE_MASK;
    double *sums = host_new(device, batch->sequences, sizeof *sums);
    for (int pass = whole ? 0 : 1; sums && pass < 2; pass++) {
        for (size_t i = 0; i < rows; i++) {
            size_t b = i / batch->context, row = i % batch->context * batch->batch + b;
            if (targets[row] < 0)
                continue;
            size_t sequence = sequence_of(batch, row, b);
            double difference = given->old_logprobs[i] - given->sampling_logprobs[i];
            if (pass == 0)
                sums[sequence] += difference;
            else
                advantages[i] *= sampling_factor(sampling, whole ? sums[sequence] : difference);
        }
    }
    free(sums);
}

static void place_gains(struct batch *batch, struct device *device, const double *advantages)
{
    double *gains = host_new(device, batch->sequences * GAINS, sizeof *gains);
    for (size_t i = 0; gains && i < batch->context * batch->batch; i++) {
        size_t b = i / batch->context, row = i % batch->context * batch->batch + b;
        double advantage = advantages[i], *of = gains + GAINS * sequence_of(batch, row, b);
        of[advantage < 0 ? GAIN_BELOW : GAIN_ABOVE] += advantage;
        of[GAIN_ROWS_ABOVE] += advantage > 0;
        of[GAIN_ROWS_BELOW] += advantage < 0;
    }
    if (gains)
        tensor_write(device, batch->gains, gains);
    free(gains);
}

// Sets advantages of sequences or rows; for a ratio of sequences also their totals by sign.
static void place_advantages(struct batch *batch, struct device *device, const struct objective_terms *terms,
                             const struct batch_values *given, bool by_token)
{
    bool fills = device->status.code == STATUS_OK && !device->ops->dataless;
    bool ratio = terms->sequences.kind == SEQUENCE_RATIO, read = !ratio || terms->sequences.held;
    int32_t *targets = fills ? targets_of(batch, device) : NULL;
    double *rows = targets ? row_advantages(batch, device, given, targets) : NULL;
    if (rows && terms->masked_group)
        mask_groups(batch, device, terms->masked_group, rows, targets);
    if (rows && terms->sampling.by != SAMPLING_OFF)
        correct(batch, device, terms->sampling, given, targets, rows);
    if (read && by_token)
        batch->token_advantages = place(device, batch->batch, batch->context, rows);
    else if (read)
        batch->advantages = place(device, batch->sequences, 1, given->advantages);
    if (ratio) {
        batch->gains =
            tensor_new(device, batch->sequences, GAINS, dtype_statistic(device->ops->dtype), CATEGORY_DATA);
    }
    if (ratio && rows)
        place_gains(batch, device, rows);
    free(rows);
    free(targets);
}

// Counts rows with targets per sequence, for pairs whose S is a mean, and sums the weights of these rows.
static void count(struct batch *batch, struct device *device, const double *weights,
                  const struct objective_terms *terms)
{
    size_t B = batch->batch;
    int32_t *targets = targets_of(batch, device), *counts = host_new(device, batch->sequences, sizeof *counts);
    for (size_t b = 0; counts && b < B; b++) {
        for (size_t t = 0; t < batch->context; t++) {
            bool is_counted = targets[t * B + b] >= 0;
            counts[sequence_of(batch, t * B + b, b)] += is_counted;
            batch->normaliser.weight += is_counted && weights ? weights[b * batch->context + t] : 0;
        }
    }
    if (counts && batch->counts.data)
        op_upload(device, batch->counts, counts);
    if (counts && batch->shares.data)
        share_out(batch, device, targets, counts, terms->beyond);
    if (counts && batch->units.data) {
        double units[2];
        for (size_t b = 0; b < 2; b++)
            units[b] = (b ? -1 : 1) * (terms->sequences.mean ? objective_share(counts[b]) : 1);
        op_upload(device, batch->units, units);
    }
    free(counts);
    free(targets);
}

void batch_set_objective(struct batch *batch, struct device *device, const struct objective *objective,
                         const void *settings, const struct batch_values *values)
{
    static const struct batch_values none;
    bool dataless = device->ops->dataless;
    const struct batch_values *given = values && !dataless ? values : &none;
    struct objective_terms terms = objective_terms(objective, settings);
    unsigned required = terms.required, optional = values && values->old_logprobs ? terms.optional & BATCH_OLD : 0;
    CHECK(dataless || !(required & BATCH_WEIGHTS) || given->weights);
    bool by_token = terms.sampling.by != SAMPLING_OFF || (values && values->token_advantages);
    CHECK(dataless || !(required & BATCH_ADVANTAGES) || given->advantages || given->token_advantages);
    CHECK(dataless || !(required & BATCH_OLD) || given->old_logprobs);
    CHECK(dataless || !(required & BATCH_SAMPLING) || given->sampling_logprobs);
    CHECK(dataless || !(required & BATCH_DESIRABLE) || given->desirable);
    release(batch, device);
    batch->objective = objective;
    batch->settings = settings;
    batch->normaliser.sequences = batch->sequences;
    batch->normaliser.weight = 0;
    batch->normaliser.desirable = 0;
    if (required & BATCH_WEIGHTS)
        batch->weights = place(device, batch->batch, batch->context, given->weights);
    if ((required | optional) & BATCH_OLD)
        batch->old = place(device, batch->batch, batch->context, given->old_logprobs);
    if (required & BATCH_REFERENCE)
        batch->reference = place(device, batch->batch, batch->context, given->reference_logprobs);
    if (terms.desensitised) {
        batch->shares = tensor_new(device, batch->context * batch->batch, 1, dtype_statistic(device->ops->dtype),
                                   CATEGORY_DATA);
    }
    if (required & BATCH_ADVANTAGES)
        place_advantages(batch, device, &terms, given, by_token);
    if (required & BATCH_DESIRABLE)
        batch->advantages = place_values(batch, device, &terms, given->desirable);
    if (objective_counts(&terms))
        batch->counts = tensor_new(device, batch->sequences, 1, DTYPE_I32, CATEGORY_DATA);
    if (terms.sequences.kind != SEQUENCE_NONE)
        batch->sums = tensor_new(device, batch->sequences, 1, DTYPE_F64, CATEGORY_DATA);
    if (terms.deferred && batch->sequences == 2)
        batch->units = tensor_new(device, 2, 1, DTYPE_F64, CATEGORY_DATA);
    if (device->status.code == STATUS_OK && !dataless)
        count(batch, device, batch->weights.data ? given->weights : NULL, &terms);
}

// Keeps only the pieces' rows, in a tensor and in host memory.
static void keep_rows(struct device *device, struct tensor *t, const struct pieces *pieces, size_t B)
{
    if (!t->data)
        return;
    struct tensor kept = tensor_new(device, pieces_count(pieces) * B, t->cols, t->dtype, t->category), all = *t;
    char *bytes = host_new(device, tensor_bytes(all) + 1, 1);
    size_t row_bytes = B * t->cols * dtype_bytes(t->dtype), row = 0;
    if (bytes)
        op_download(device, bytes, all);
    for (size_t i = 0; bytes && i < PIECES; i++) {
        struct span piece = pieces->items[i];
        op_upload(device, tensor_rows(kept, row, piece.count * B), bytes + piece.start * row_bytes);
        row += piece.count * B;
    }
    free(bytes);
    tensor_free(device, t);
    *t = kept;
}
static void keep_on_host(int32_t *values, const struct pieces *pieces, size_t B)
{
    size_t row = 0;
    for (size_t i = 0; values && i < PIECES; i++) {
        struct span piece = pieces->items[i];
        memmove(values + row, values + piece.start * B, piece.count * B * sizeof *values);
        row += piece.count * B;
    }
}

void batch_share(struct batch *batch, struct device *device, size_t ranks, size_t rank)
{
    struct tensor *of_rows[] = {&batch->ids,    &batch->targets,          &batch->weights,
                                &batch->old,    &batch->reference,        &batch->device_of,
                                &batch->shares, &batch->token_advantages, &batch->repeats};
    struct pieces pieces = pieces_of(batch->context, ranks, rank);
    CHECK(!batch_is_shared(batch));
    for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++)
        keep_rows(device, of_rows[i], &pieces, batch->batch);
    keep_on_host(batch->of, &pieces, batch->batch);
    batch->pieces = pieces;
    batch->context = pieces_count(&pieces);
}

// Number of pieces over all ranks, in order.
static size_t piece_count(const struct batch *batch)
{
    return PIECES * batch->pieces.ranks;
}
static size_t piece_start(const struct batch *batch, size_t piece)
{
    return comm_share(batch->pieces.context, piece_count(batch), piece).start;
}

// starts: of all ranks' rows, counted from each piece's first key; the result is on the host and in *placed.
static int32_t *shifted_starts(const struct batch *batch, struct device *device, const int32_t *starts,
                               struct tensor *placed)
{
    struct token_run runs[PIECES];
    size_t B = batch->batch, own = batch->context * B, pieces = piece_count(batch);
    size_t count = pieces_runs(&batch->pieces, (struct span){0, batch->context}, runs);
    int32_t *shifted = starts ? host_new(device, pieces * own, sizeof *shifted) : NULL;
    if (!shifted)
        return NULL;
    for (size_t at = 0; at < pieces * count; at++) {
        const struct token_run *run = &runs[at % count];
        size_t key = piece_start(batch, at / count);
        int32_t *of_run = shifted + at / count * own + run->first * B;
        for (size_t row = 0; row < run->count * B; row++) {
            size_t start = (size_t)starts[run->start * B + row];
            of_run[row] = start > key ? (int32_t)(start - key) : 0;
        }
    }
    *placed = place_integers(device, shifted, pieces * own);
    return shifted;
}

void batch_shift_documents(struct batch *batch, struct device *device)
{
    CHECK(batch_is_shared(batch) && !batch->prefixes && !batch->shifted);
    batch->shifted = shifted_starts(batch, device, batch->starts, &batch->device_shifted);
    batch->shifted_chunks = shifted_starts(batch, device, batch->chunk_starts, &batch->device_shifted_chunks);
}

struct documents batch_documents_from(const struct batch *batch, size_t key, struct token_run run, bool chunked)
{
    size_t B = batch->batch, piece = 0;
    bool of_chunks = chunked && batch->shifted_chunks;
    const int32_t *shifted = of_chunks ? batch->shifted_chunks : batch->shifted;
    if (!shifted)
        return (struct documents){0};
    while (piece_start(batch, piece) != key) {
        piece++;
        CHECK(piece < piece_count(batch));
    }
    size_t row = (piece * batch->context + run.first) * B;
    struct tensor placed = of_chunks ? batch->device_shifted_chunks : batch->device_shifted;
    return (struct documents){.starts = shifted + row, .device_starts = tensor_rows(placed, row, run.count * B)};
}

void batch_copy_own(const struct batch *batch, struct device *device, struct tensor all, struct tensor own,
                    bool out)
{
    size_t B = batch->batch, row = 0;
    for (size_t i = 0; i < PIECES; i++) {
        struct span piece = batch->pieces.items[i];
        if (piece.count > 0) {
            struct tensor here = tensor_rows(own, row, piece.count * B);
            struct tensor there = tensor_rows(all, piece.start * B, piece.count * B);
            op_copy(device, out ? there : here, out ? here : there);
        }
        row += piece.count * B;
    }
}

void batch_close(struct batch *batch, struct device *device)
{
    tensor_free(device, &batch->device_shifted_chunks);
    tensor_free(device, &batch->device_shifted);
    tensor_free(device, &batch->device_block_prefixes);
    tensor_free(device, &batch->device_block_starts);
    tensor_free(device, &batch->device_chunk_starts);
    tensor_free(device, &batch->repeats);
    tensor_free(device, &batch->device_of);
    tensor_free(device, &batch->device_prefixes);
    tensor_free(device, &batch->device_starts);
    int32_t **const on_host[] = {&batch->shifted_chunks, &batch->block_prefixes, &batch->block_starts,
                                 &batch->chunk_starts,   &batch->shifted,        &batch->of,
                                 &batch->prefixes,       &batch->starts};
    for (size_t i = 0; i < sizeof on_host / sizeof *on_host; i++) {
        free(*on_host[i]);
        *on_host[i] = NULL;
    }
    release(batch, device);
    tensor_free(device, &batch->ids);
    tensor_free(device, &batch->targets);
}
