// Ranks with an emulated card each, in the program: records, a fault of NCCL within a step, and what is missing.
#define _GNU_SOURCE // nftw
#include "tests/program.h"

static int run_method(const struct scratch *scratch, const char *before, const char *method)
{
    static const char form[] =
        "{\"experiment\": \"t\", \"question\": \"q\", \"seed\": 1, \"model\": \"tiny\", \"context\": 32, "
        "\"batch\": 2, \"dtype\": \"f32\", "
        "\"device\": \"cuda\", \"axes\": {\"method\": [%s]}, \"parallel\": {\"data\": 2, \"zero\": 3}, "
        "\"measure\": {\"samples\": 1, \"warmup\": 0}}";
    char command[400], spec[sizeof form + 100];
    snprintf(spec, sizeof spec, form, method);
    scratch_file(scratch, "spec.json", spec, strlen(spec));
    snprintf(command, sizeof command, "export TMPDIR=$PWD; %s $L run spec.json --fresh --out r.jsonl", before);
    return run(scratch, command);
}

static int run_trial(const struct scratch *scratch, const char *before)
{
    return run_method(scratch, before, "\"full\"");
}

static void a_record_is_of_all_cards(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run_trial(scratch, ""), 0);
    assert_says(scratch, "r.jsonl", "\"status\":\"ok\"");
    assert_says(scratch, "r.jsonl", "\"engine\":\"NCCL 2");
    assert_int_equal(run(scratch, "! ls -d nccl-* longbp-*"), 0);
}

// Each rank has half of the experts, the last one those whose rows begin behind some tiles of products.
static void cards_share_experts(void **state)
{
    struct scratch *scratch = *state;
    static const char spec[] =
        "{\"experiment\": \"t\", \"question\": \"q\", \"seed\": 1, \"context\": 96, \"batch\": 2, "
        "\"device\": \"cuda\", \"model\": {\"layers\": 1, \"width\": 32, \"heads\": 4, \"vocab\": 64, \"experts\": "
        "8, "
        "\"experts_per_token\": 2, \"expert_width\": 16}, \"axes\": {\"method\": [\"full\"], \"dtype\": [\"f64\", "
        "\"bf16\"]}, \"parallel\": {\"data\": 2, \"experts\": 2}, \"measure\": {\"samples\": 1, \"warmup\": 0}}";
    scratch_file(scratch, "spec.json", spec, strlen(spec));
    assert_int_equal(run(scratch, "export TMPDIR=$PWD; $L run spec.json --fresh --out r.jsonl"), 0);
    assert_int_equal(run(scratch, "test $(grep -c '\"status\":\"ok\"' r.jsonl) = 2"), 0);
}

// A fault of the first or the last rank: the record has the reason, and no rank waits for the other.
static void a_fault_ends_all_ranks(void **state)
{
    struct scratch *scratch = *state;
    for (int rank = 0; rank < 2; rank++) {
        char fault[64], reason[128];
        snprintf(fault, sizeof fault, "NCCL_FAULT=%d:9", rank);
        snprintf(reason, sizeof reason, "rank %d of 2: NCCL: unhandled system error: a link was cut", rank);
        assert_int_equal(run_trial(scratch, fault), 1);
        assert_says(scratch, "r.jsonl", "\"status\":\"failed\"");
        assert_says(scratch, "r.jsonl", reason);
    }
}

// A rank that is refused memory waits for its own cards only, and not for other ranks.
static void a_fault_ends_the_wait_for_memory(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run_method(scratch, "NCCL_FAULT=0:1 EMULATED_PINNED_BYTES=0",
                                "{\"name\": \"checkpoint\", \"offload\": [\"inputs\"]}"),
                     1);
    assert_says(scratch, "r.jsonl", "\"status\":\"failed\"");
    assert_says(scratch, "r.jsonl", "rank 0 of 2: NCCL: unhandled system error: a link was cut");
}

static void what_is_missing_is_named(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run_trial(scratch, "LONGBP_NCCL=/nowhere.so"), 1);
    assert_says(scratch, "r.jsonl", "\"status\":\"unsupported\"");
    assert_says(scratch, "r.jsonl", "need NCCL: /nowhere.so");
    assert_says(scratch, "r.jsonl", "install libnccl2");
    assert_int_equal(run_trial(scratch, "LONGBP_EMULATED_CARDS=1"), 1);
    assert_says(scratch, "r.jsonl", "\"status\":\"unsupported\"");
    assert_says(scratch, "r.jsonl", "there is no device cuda:1");
    assert_int_equal(run(scratch, "$L grad --model tiny --context 32 --batch 2 --device cuda:1 --method full "
                                  "--parallel data=2 --out g"),
                     2);
    assert_says(scratch, "err", "leave its number out");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_record_is_of_all_cards, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(cards_share_experts, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_fault_ends_all_ranks, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_fault_ends_the_wait_for_memory, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_is_missing_is_named, scratch_setup, scratch_teardown),
    };
    setenv("LONGBP_EMULATED_CARDS", "2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
