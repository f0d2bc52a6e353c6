// Split: which layers, tokens and ranks of others a rank has, by hand.
#include "kernels/model/ranks.h"
#include "kernels/objectives/pieces.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// The highest stage's layers and its head take no longer than the other stages' layers, and of several numbers of
// layers that make no difference it has the most. By FLOPs of a token: a layer's weights and half the context,
// 17,280 here where the context is 1,024 tokens, of which 16,384 are attention's; a head of 4,096 tokens
// 65,536, 3.8 layers.
static void layers_are_cut_by_their_work(void **state)
{
    (void)state;
    static const struct {
        size_t layers, stages, context, vocab, ends[4];
    } cases[] = {
        {13, 4, 1024, 16, {3, 6, 10, 13}}, // the longest has four, with one, two or three of the highest
        {10, 2, 1024, 4096, {7, 10}},
        {10, 2, 1, 4096, {9, 10}},
        {4, 4, 1, 1 << 20, {1, 2, 3, 4}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct config config = {.layers = cases[i].layers,
                                      .width = 8,
                                      .kinds = {{.heads = 1, .kv_heads = 1, .head_dim = 8, .rope_theta = 10000}},
                                      .ffn = 8,
                                      .vocab = cases[i].vocab};
        for (size_t rank = 0; rank < cases[i].stages; rank++) {
            const struct comm all = comm_planned(rank, cases[i].stages);
            const struct split split = {.data = 1, .sequence = 1, .stages = cases[i].stages, .node = 1};
            struct ranks ranks = ranks_of(&all, split, &config, cases[i].context);
            assert_int_equal(ranks.first_layer, rank ? cases[i].ends[rank - 1] : 0);
            assert_int_equal(ranks.end_layer, cases[i].ends[rank]);
        }
    }
}

// Two pieces for each rank, one from either end; where they meet they are one.
static void tokens_are_cut_from_both_ends(void **state)
{
    (void)state;
    static const struct {
        size_t context, ranks, rank;
        struct span pieces[PIECES];
    } cases[] = {
        {16, 1, 0, {{0, 16}}},         {16, 2, 0, {{0, 4}, {12, 4}}}, {16, 2, 1, {{4, 8}}},
        {17, 3, 0, {{0, 3}, {15, 2}}}, {17, 3, 1, {{3, 3}, {12, 3}}}, {17, 3, 2, {{6, 6}}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pieces pieces = pieces_of(cases[i].context, cases[i].ranks, cases[i].rank);
        for (size_t p = 0; p < PIECES; p++) {
            assert_int_equal(pieces.items[p].start, cases[i].pieces[p].start);
            assert_int_equal(pieces.items[p].count, cases[i].pieces[p].count);
        }
    }
}

// Ranks 0 to 11: the odd ones, and every second of them: 3, 7 and 11.
static void a_part_of_a_part_names_the_same_ranks(void **state)
{
    (void)state;
    const struct comm all = comm_planned(7, 12), odd = comm_part(&all, 1, 2, 6), part = comm_part(&odd, 1, 2, 3);
    assert_int_equal(odd.rank, 3);
    assert_int_equal(part.rank, 1);
    assert_int_equal(part.first, 3);
    assert_int_equal(part.stride, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_cut_by_their_work),
        cmocka_unit_test(tokens_are_cut_from_both_ends),
        cmocka_unit_test(a_part_of_a_part_names_the_same_ranks),
    };
    return cmocka_run_group_tests_name("split", tests, NULL, NULL);
}
