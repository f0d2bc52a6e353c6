// Training sequences: a batch file of sequences for tests of training runs, in pairs and groups that begin alike,
// with labels here and there and all numbers that an objective may ask for, and a model for them.
#pragma once
#include "harness/tensors/safetensors.h"
#include "kernels/base/random.h"
#include "kernels/objectives/batch.h"
#include "tests/scratch.h"

#define MODEL                                                                                                      \
    "'model': {'layers': 2, 'width': 16, 'heads': 4, 'kv_heads': 2, 'head_dim': 4, 'ffn': 24, 'vocab': 37}"
enum { CONTEXT = 17, GROUP = 4, ALL = 12, VOCAB = 37 };

// Tensors of a file of sequences [first, first + count) besides ids and labels.
enum { WITH_DOCUMENTS = 1, WITH_NUMBERS = 2 };

static inline size_t prompt_of(size_t b)
{
    return 3 + b / GROUP % 3;
}

static inline size_t length_of(size_t b)
{
    return CONTEXT - 5 * b % 8;
}

static inline int32_t id_of(size_t b, size_t t)
{
    size_t of = t < prompt_of(b) ? b / GROUP * GROUP : b;
    return (int32_t)((7 * of + 3 * t + of * t % 5) % VOCAB);
}

static inline bool has_label(size_t b, size_t t)
{
    return t + 1 >= prompt_of(b) && t + 1 < length_of(b) && (t + b) % 6;
}

static inline void write_file(const struct scratch *scratch, const char *name, size_t first, size_t count,
                              unsigned with)
{
    enum { TOKENS = 3, NUMBERS = 5 };
    struct safetensors_item items[TOKENS + NUMBERS] = {
        {"ids", DTYPE_I32, 2, {count, CONTEXT}},
        {"labels", DTYPE_I32, 2, {count, CONTEXT}},
        {"documents", DTYPE_I32, 2, {count, CONTEXT}},
        {"weights", DTYPE_F64, 2, {count, CONTEXT}},
        {"old_logprobs", DTYPE_F64, 2, {count, CONTEXT}},
        {"reference_logprobs", DTYPE_F64, 2, {count, CONTEXT}},
        {"advantages", DTYPE_F64, 1, {count}},
        {"desirable", DTYPE_I32, 1, {count}},
    };
    struct safetensors_item some[TOKENS + NUMBERS];
    size_t kept = 0;
    for (size_t i = 0; i < TOKENS + NUMBERS; i++)
        if (i < 2 || (i == 2 && with & WITH_DOCUMENTS) || (i >= TOKENS && with & WITH_NUMBERS))
            some[kept++] = items[i];
    struct safetensors_writer writer;
    struct status status = {0};
    struct random random = random_named(3, "log-probs");
    char *path;
    assert_true(asprintf(&path, "%s/%s", scratch->folder, name) > 0);
    assert_true(safetensors_create(&writer, path, some, kept, &status));
    for (size_t i = 0; i < kept; i++) {
        for (size_t row = first * CONTEXT; row < (first + count) * CONTEXT; row++) {
            size_t b = row / CONTEXT, t = row % CONTEXT;
            int32_t integer = some[i].name == items[0].name   ? id_of(b, t)
                              : some[i].name == items[1].name ? (has_label(b, t) ? id_of(b, t + 1) : NO_TARGET)
                              : some[i].rank == 1             ? b % 3 != 2
                                                              : (int32_t)(t * (1 + b % 3) / 9);
            double number = some[i].name == items[3].name ? (double)(row % 5) / 4
                            : some[i].rank == 1           ? (b % 2 ? -0.7 : 1.1) + 0.1 * (double)(b % 3)
                                                          : -3.6 + random_normal(&random, 7 * row + i) / 2;
            if (some[i].rank == 1 && t > 0)
                continue;
            if (some[i].dtype == DTYPE_I32)
                assert_true(safetensors_append_bytes(&writer, &integer, 1, &status));
            else
                assert_true(safetensors_append(&writer, &number, 1, &status));
        }
    }
    assert_true(safetensors_commit(&writer, &status));
    safetensors_discard(&writer);
    free(path);
}
