// Tests of `longbp compare`: changed bits of gradients are reported, with the provenance that differs, and are not
// judged.
#define _GNU_SOURCE // asprintf, nftw, mkdtemp
#include "tests/compared.h"

static void changed_bits_are_told_and_no_fault(void **state)
{
    static const char first[] = "bits        00000000  full, context 512, f32 cpu: gradient bits changed in ";
    BASE(*state, {.bits = HASHES("1", "2", "3")}, {.trial = 1, .bits = HASHES("1", "2", "3")}, {.trial = 2});
    expect(*state, "--deterministic base base", 0, "gradients: bits changed in 0 of 2 trials\n");
    expect_silent(*state, "--deterministic base base", 0, "bits  ");
    NEW(*state, {.bits = HASHES("4", "2", "5")}, {.trial = 1, .bits = HASHES("1", "2", "3")}, {.trial = 2});
    expect(*state, "--deterministic base new", 0, first);
    expect(*state, "--deterministic base new", 0, "changed in 1 of 2 tensors, first in norm\n");
    expect(*state, "--deterministic base new", 0, "gradients: bits changed in 1 of 2 trials\n");
    expect(*state, "--deterministic base new", 0, "verdict: same\n");
    expect(*state, "--deterministic --format json base new", 0, "'first': 'norm'");
    expect(*state, "--deterministic --format json base new", 0, "'known': 2, 'changed': 1, 'not_the_same': []");
    NEW(*state, {.bits = HASHES("4", "6", "5")}, {.trial = 1}, {.trial = 2, .bits = HASHES("1", "2", "3")});
    expect(*state, "--deterministic base new", 0, "changed in 2 of 2 tensors, first in embed\n");
    expect(*state, "--deterministic base new", 0,
           "gradients: bits changed in 1 of 1 trials\n"); // no hash, nothing to say
    // Elsewhere sums run in another order.
    NEW(*state, {.bits = HASHES("4", "2", "5"), .cpu = "Another CPU"});
    BASE(*state, {.bits = HASHES("1", "2", "3")});
    expect(*state, "--deterministic base new", 0,
           "gradients: bits changed in 1 of 1 trials; not the same in both: cpu\n");
    expect_silent(*state, "--deterministic base new", 0, first);
    expect(*state, "--deterministic --all base new", 0, first);
    BASE(*state, {.bits = HASHES("1", "2", "3"), .more = ", 'data_hash': '0123456789abcdef'"});
    NEW(*state, {.bits = HASHES("4", "2", "5"), .more = ", 'data_hash': '0123456789abcdee'"});
    expect_silent(*state, "--deterministic base new", 3, "gradients: "); // other data, other bits
    NEW(*state, {.bits = HASHES("4", "2", "5")});                        // has no hash of its data
    expect(*state, "--deterministic base new", 0, "gradients: bits changed in 1 of 1 trials\n");
    // In any round.
    BASE(*state, {.bits = HASHES("1", "2", "3")});
    NEW(*state, {.bits = HASHES("4", "2", "5")}, {.bits = HASHES("1", "2", "3")});
    expect(*state, "--deterministic base new", 0, "gradients: bits changed in 1 of 1 trials\n");
    BASE(*state, {.trial = 0});
    NEW(*state, {.trial = 0});
    expect_silent(*state, "--deterministic base new", 0, "gradients: ");
}

static void bits_of_a_card_count_where_it_is_deterministic(void **state)
{
    static const char card[] = ", 'deterministic': false", deterministic[] = ", 'deterministic': true";
    BASE(*state, {.bits = HASHES("1", "2", "3"), .device = "cuda", .setting = card});
    NEW(*state, {.bits = HASHES("4", "2", "5"), .device = "cuda", .setting = card});
    expect_silent(*state, "--deterministic base new", 0, "gradients: ");
    BASE(*state, {.bits = HASHES("1", "2", "3"), .device = "cuda", .setting = deterministic});
    NEW(*state, {.bits = HASHES("4", "2", "5"), .device = "cuda", .setting = deterministic});
    expect(*state, "--deterministic base new", 0, "gradients: bits changed in 1 of 1 trials\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(changed_bits_are_told_and_no_fault),
        TEST(bits_of_a_card_count_where_it_is_deterministic),
    };
    return cmocka_run_group_tests_name("compare bits", tests, NULL, NULL);
}
