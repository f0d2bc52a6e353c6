#include "harness/data/shared_prompt.h"
#include "kernels/base/host_memory.h"
#include "kernels/objectives/batch.h"
#include <string.h>

// Tokens that all sequences of the group at `first` share.
static size_t tokens_shared(const struct batch_data *data, size_t first, size_t group)
{
    size_t T = data->context, shared = 0;
    for (bool same = true; shared < T; shared++) {
        for (size_t b = first; same && b < first + group; b++)
            same = data->labels[b * T + shared] == NO_TARGET &&
                   (!data->ids || data->ids[b * T + shared] == data->ids[first * T + shared]);
        if (!same)
            break;
    }
    return shared;
}

// Tokens of a sequence from `shared` up to its last label.
static size_t tokens_own(const struct batch_data *data, size_t b, size_t shared)
{
    size_t end = data->context;
    while (end > shared && data->labels[b * data->context + end - 1] == NO_TARGET)
        end--;
    return end - shared;
}

// A range of tokens: its position in the sequences and in the rows.
struct piece {
    size_t from, to, count;
};

struct layout {
    struct piece *pieces;
    size_t count, context, batch;
    int32_t *of; // [batch, context]
};

static void add_piece(struct layout *layout, size_t from, size_t to, size_t count)
{
    layout->pieces[layout->count++] = (struct piece){from, to, count};
}

static size_t row_tokens(const struct batch_data *data, size_t first, size_t group)
{
    size_t shared = tokens_shared(data, first, group), tokens = shared;
    for (size_t b = first; b < first + group; b++)
        tokens += tokens_own(data, b, shared);
    return tokens;
}

// Padding belongs to the last sequence.
static void lay_row(struct layout *layout, const struct batch_data *data, size_t row, size_t group)
{
    size_t T = data->context, first = row * group, shared = tokens_shared(data, first, group);
    size_t begin = row * layout->context, at = begin + shared, end = begin + layout->context;
    add_piece(layout, first * T, begin, shared);
    for (size_t i = begin; i < at; i++)
        layout->of[i] = -1;
    for (size_t b = first; b < first + group; b++) {
        size_t own = tokens_own(data, b, shared);
        add_piece(layout, b * T + shared, at, own);
        for (size_t i = at; i < (b + 1 < first + group ? at + own : end); i++)
            layout->of[i] = (int32_t)b;
        at += own;
    }
}

size_t shared_prompt_tokens(const struct batch_data *data, size_t group)
{
    size_t longest = 0;
    for (size_t row = 0; row < data->batch / group; row++) {
        size_t tokens = row_tokens(data, row * group, group);
        longest = tokens > longest ? tokens : longest;
    }
    return longest;
}

static bool lay(struct layout *layout, const struct batch_data *data, size_t group, struct status *status)
{
    layout->batch = data->batch / group;
    layout->context = shared_prompt_tokens(data, group);
    layout->pieces = host_memory_try(data->batch + layout->batch, sizeof *layout->pieces);
    layout->of = host_memory_try(layout->batch * layout->context + 1, sizeof *layout->of);
    if (!layout->pieces || !layout->of)
        return status_set(status, STATUS_OOM, "no room on the host for rows of %zu tokens", layout->context);
    for (size_t row = 0; row < layout->batch; row++)
        lay_row(layout, data, row, group);
    return true;
}

// Copies values of `size` bytes into the rows; padding gets `padding`. NULL: there are none.
static void *laid(const struct layout *layout, void *values, size_t size, const void *padding)
{
    size_t count = layout->batch * layout->context;
    char *rows = values ? malloc(count * size) : NULL;
    for (size_t i = 0; rows && i < count; i++)
        memcpy(rows + i * size, padding, size);
    for (size_t i = 0; rows && i < layout->count; i++) {
        const struct piece *piece = &layout->pieces[i];
        memcpy(rows + piece->to * size, (const char *)values + piece->from * size, piece->count * size);
    }
    free(values);
    return rows;
}

static bool check(const struct batch_data *data, size_t group, const char *path, struct status *status)
{
    if (data->documents)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: has a tensor \"documents\", but sequences of a group share a prompt: leave it or "
                          "\"group\" out",
                          path);
    for (size_t b = 0; data->ids && b < data->batch; b++) {
        size_t first = b / group * group;
        int32_t expected = data->ids[first * data->context], found = data->ids[b * data->context];
        if (found != expected)
            return status_set(
                status, STATUS_BAD_INPUT,
                "%s: ids[%zu, 0] is %d, but ids[%zu, 0] is %d: sequences %zu to %zu are one group and must begin "
                "with the same prompt; set \"group\" to the number of sequences that share one",
                path, b, found, first, expected, first, first + group - 1);
    }
    return true;
}

bool shared_prompt_pack(struct batch_data *data, size_t group, const char *path, struct status *status)
{
    static const int32_t no_target = NO_TARGET, no_id = 0;
    static const double nothing = 0;
    struct layout layout = {0};
    bool packed = check(data, group, path, status) && lay(&layout, data, group, status);
    if (packed) {
        double **numbers[] = {&data->weights, &data->old_logprobs, &data->reference_logprobs,
                              &data->sampling_logprobs, &data->token_advantages};
        data->ids = laid(&layout, data->ids, sizeof no_id, &no_id);
        data->labels = laid(&layout, data->labels, sizeof no_target, &no_target);
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            *numbers[i] = laid(&layout, *numbers[i], sizeof nothing, &nothing);
        data->sequences = data->batch;
        data->batch = layout.batch;
        data->context = layout.context;
        data->of = layout.of;
        layout.of = NULL;
    }
    free(layout.of);
    free(layout.pieces);
    return packed;
}
