// Tests of `longbp compare`: results of different draws are not compared: bytes, work, a step's loss and gradient
// error belong to draw 0; a bias belongs to all draws.
#define _GNU_SOURCE // asprintf, nftw, mkdtemp
#include "tests/compared.h"

static void what_is_of_another_draw_is_another(void **state)
{
    static const char line[] = "1 pair drew other chunks: its figures of one draw are not judged\n";
    static const char seed[] = ", 'seed': 2",
                      two[] = ", 'drawn_chunks': [0, 3], 'loss': 3, 'bias': {'rms_error': 0.5}",
                      other[] = ", 'drawn_chunks': [2], 'loss': 4, 'bias': {'rms_error': 0.5}",
                      empty[] = ", 'sample_chunks': [0, 1, 2, 0, 1], 'loss': 0, 'bias': {'rms_error': 0.6}";
    static const char *const otherwise[] = {"peak_bytes", "peak_by_category.activations", "flops", "launches",
                                            "loss",       "gradient.relative_l2"};
    const struct sketch new = {.peak_bytes = 1001,
                               .activations = 601,
                               .flops = 9000,
                               .launches = 60,
                               .error = 0.1,
                               .more = other,
                               .bits = HASHES("4", "2", "5")};
    // Another seed draws other chunks, which is no fault.
    struct sketch seeded = new;
    seeded.setting = seed;
    BASE(*state, {.more = two}, seeded);
    expect(*state, "--deterministic --by seed base", 0, line);
    expect(*state, "--deterministic --by seed base", 0,
           "changed     00000000  full, context 512, f32 cpu: loss 3 -> 4");
    expect(*state, "--deterministic --exact --by seed base", 0,
           "verdict: changed: 1 trial has figures of other chunks");
    expect(*state, "--format json --deterministic --by seed base", 0, "'other_chunks': 1,");
    BASE(*state, {.more = two}, {.setting = seed, .flops = 1, .more = empty});
    expect(*state, "--deterministic --by seed base", 1, "changed     00000000  full, context 512, f32 cpu: flops");
    expect(*state, "--deterministic --by seed base", 1,
           "worse       00000000  full, context 512, f32 cpu: bias.rms");
    // In two files the seeds are the same, and the draws should be.
    BASE(*state, {.more = two, .bits = HASHES("1", "2", "3")});
    NEW(*state, new);
    for (size_t i = 0; i < COUNT(otherwise); i++) {
        expect_judged(*state, "--deterministic base new", "changed", otherwise[i], NULL);
        expect_judged(*state, "--deterministic --exact base new", "changed", otherwise[i], NULL);
    }
    expect(*state, "--deterministic base new", 3, line);
    expect(*state, "--deterministic base new", 3, "changed in 1 of 1 trials; not the same in both: drawn_chunks\n");
    // The same chunks, or none that are known.
    NEW(*state, {.flops = 9000, .more = two});
    expect_judged(*state, "--deterministic base new", "worse", "flops", NULL);
    NEW(*state, {.flops = 9000, .more = ", 'loss': 3, 'bias': {'rms_error': 0.5}"});
    expect_judged(*state, "--deterministic base new", "worse", "flops", NULL);
    expect_silent(*state, "--deterministic base new", 1, "drew other chunks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_of_another_draw_is_another),
    };
    return cmocka_run_group_tests_name("compare draws", tests, NULL, NULL);
}
