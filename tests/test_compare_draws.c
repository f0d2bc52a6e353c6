// Tests of `longbp compare`: what is of one draw of columns is not judged against what is of another: bytes, work,
// a step's loss and gradient error are of draw 0; a bias is that of all draws.
#define _GNU_SOURCE // asprintf, nftw, mkdtemp
#include "tests/compared.h"

static void what_is_of_another_draw_is_not_judged(void **state)
{
    static const char line[] =
        "1 pair drew other columns: bytes, work and gradient error are of one draw each, and "
        "not judged\n";
    static const char seed[] = ", 'seed': 2", two[] = ", 'columns': [0, 3], 'loss': 3, 'bias': {'rms_error': 0.5}",
                      other[] = ", 'columns': [2], 'loss': 4, 'bias': {'rms_error': 0.5}",
                      empty[] = ", 'sample_columns': [0, 1, 2, 0, 1], 'loss': 0, 'bias': {'rms_error': 0.6}";
    static const char *const otherwise[] = {"peak_bytes 1000 B -> 1001 B",
                                            "peak_by_category.activations 600 B -> 500",
                                            "flops 5000 -> 9000",
                                            "launches 70 -> 60",
                                            "loss 3 -> 4",
                                            "gradient.relative_l2 5e-07 -> 0.1"};
    const struct sketch new = {.setting = seed,
                               .peak_bytes = 1001,
                               .activations = 500,
                               .flops = 9000,
                               .launches = 60,
                               .error = 0.1,
                               .more = other};
    BASE(*state, {.more = two}, new);
    for (size_t i = 0; i < COUNT(otherwise); i++) {
        char part[128];
        snprintf(part, sizeof part, "other       00000000  full, context 512, f32 cpu: %s", otherwise[i]);
        expect(*state, "--deterministic --by seed base", 0, part);
        expect(*state, "--deterministic --exact --by seed base", 0, part);
    }
    expect(*state, "--deterministic --by seed base", 0, line);
    expect(*state, "--deterministic --by seed base", 0, "verdict: same\n");
    expect(*state, "--format json --by seed base", 0, "'other_columns': 1,");
    BASE(*state, {.more = two}, {.setting = seed, .flops = 1, .more = empty});
    expect(*state, "--deterministic --by seed base", 1, "other       00000000  full, context 512, f32 cpu: flops");
    expect(*state, "--deterministic --by seed base", 1,
           "worse       00000000  full, context 512, f32 cpu: bias.rms");
    // In two files the seeds are the same, and the draws should be.
    BASE(*state, {.more = two, .bits = HASHES("1", "2", "3")});
    NEW(*state, {.flops = 9000, .more = other, .bits = HASHES("4", "2", "5")});
    expect(*state, "--deterministic base new", 3, line);
    expect(*state, "--deterministic base new", 3, "cannot tell: the same seeds drew other columns");
    expect(*state, "--deterministic base new", 3, "changed in 1 of 1 trials; not the same in both: columns\n");
    // The same columns, or none that are known.
    NEW(*state, {.flops = 9000, .more = two});
    expect(*state, "--deterministic base new", 1, "worse       00000000  full, context 512, f32 cpu: flops");
    NEW(*state, {.flops = 9000, .more = ", 'loss': 3, 'bias': {'rms_error': 0.5}"});
    expect(*state, "--deterministic base new", 1, "worse       00000000  full, context 512, f32 cpu: flops");
    expect_silent(*state, "--deterministic base new", 1, "drew other columns");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_of_another_draw_is_not_judged),
    };
    return cmocka_run_group_tests_name("compare draws", tests, NULL, NULL);
}
