// Trials over several ranks, run by the program: the figures that one rank, or a plan, has. Without Open MPI: that
// it says which package is missing.
#define _GNU_SOURCE // asprintf
#include "tests/ranks_spec.h"
#include <math.h>

static bool have_mpi;

static double element(const json_t *record, const char *key, size_t rank)
{
    return json_number_value(json_array_get(json_object_get(json_object_get(record, "ranks"), key), rank));
}

// One rank, three, and the plan of three.
static void ranks_have_the_figures_of_one(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch,
               "'measure': {'samples': 2}, 'axes': {'method': [{'name': 'seco', 'chunk': 7},"
               "{'name': 'spaco', 'chunk': 7, 'budget': 3}, 'full'], 'parallel': [{'stage': 1}, {'stage': 3}]}");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_int_equal(run(scratch, "$L run spec.json --out p.jsonl --device plan"), 0);
    json_t *all = records(scratch, "r.jsonl"), *planned = records(scratch, "p.jsonl");
    assert_int_equal(json_array_size(all), 6);
    for (size_t i = 0; i < 4; i += 2) {
        const json_t *one = json_array_get(all, i), *three = json_array_get(all, i + 1);
        const json_t *plan = json_array_get(planned, i + 1);
        double max = 0;
        assert_string_equal(text_at(three, "status"), "ok");
        assert_string_equal(text_at(json_object_get(three, "gradient"), "hash"),
                            text_at(json_object_get(one, "gradient"), "hash"));
        assert_true(json_equal(json_object_get(one, "loss"), json_object_get(three, "loss")));
        assert_true(json_is_null(json_object_get(one, "ranks")));
        assert_int_equal(json_integer_value(json_object_get(json_object_get(three, "ranks"), "count")), 3);
        for (size_t r = 0; r < 3; r++) {
            static const char *const keys[] = {"peak_bytes", "sent_bytes", "received_bytes", "messages"};
            for (size_t k = 0; k < COUNT(keys); k++) {
                assert_true(element(three, keys[k], r) == element(plan, keys[k], r));
                assert_true(element(three, keys[k], r) > 0);
            }
            max = element(three, "peak_bytes", r) > max ? element(three, "peak_bytes", r) : max;
        }
        static const char *const same[] = {"peak_bytes", "flops", "bytes_moved", "launches", "resident_bytes"};
        for (size_t k = 0; k < COUNT(same); k++)
            assert_true(json_equal(json_object_get(three, same[k]), json_object_get(plan, same[k])));
        assert_true(max == json_number_value(json_object_get(three, "peak_bytes")));
        assert_true(max < json_number_value(json_object_get(one, "peak_bytes")));
    }
    assert_string_equal(text_at(json_array_get(all, 5), "status"), "unsupported");
    assert_non_null(strstr(text_at(json_array_get(all, 5), "reason"), "full takes no stage ranks"));
    json_decref(all);
    json_decref(planned);
}

// One rank, three with some of the sequences each, their plans, and six that have some of the layers besides; and
// ranks that have some of the tokens.
static void replicas_have_the_figures_of_one(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch,
               "'dtype': 'f64', 'batch': 4, 'measure': {'samples': 2}, 'optimizer': 'adamw', 'data': 'random',"
               "'axes': {'method': [{'name': 'streambp', 'chunk': 7}, {'name': 'seco', 'chunk': 7}],"
               "'parallel': [{}, {'data': 3}, {'data': 3, 'zero': 3}, {'data': 2, 'zero': 1, 'stage': 3}, "
               "{'sequence': 3}, {'data': 2, 'sequence': 2, 'zero': 2}]}");
    enum { METHODS = 2 };
    static const struct {
        size_t ranks;
        bool rows, columns; // what takes it
        const char *refusal;
    } splits[] = {{0, true, true, ""},
                  {3, true, true, ""},
                  {3, true, false, "zero is at most 1"},
                  {6, false, true, "takes no stage ranks"},
                  {3, true, false, "takes no sequence ranks"},
                  {4, true, false, "takes no sequence ranks"}};
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_int_equal(run(scratch, "$L run spec.json --out p.jsonl --device plan"), 0);
    json_t *all = records(scratch, "r.jsonl"), *planned = records(scratch, "p.jsonl");
    assert_int_equal(json_array_size(all), METHODS * COUNT(splits));
    for (size_t i = 0; i < METHODS * COUNT(splits); i++) {
        static const char *const keys[] = {"peak_bytes", "sent_bytes", "received_bytes", "messages"};
        static const char *const same[] = {"peak_bytes",  "flops",    "bytes_moved",       "resident_bytes",
                                           "model_flops", "launches", "lower_bound_bytes", "peak_over_bound"};
        const json_t *one = json_array_get(all, i - i % COUNT(splits)), *record = json_array_get(all, i);
        const json_t *plan = json_array_get(planned, i), *before = json_array_get(all, i - (i > 0));
        size_t split = i % COUNT(splits);
        bool rows = i < COUNT(splits), shares = split == 2;
        if (!(rows ? splits[split].rows : splits[split].columns)) {
            assert_string_equal(text_at(record, "status"), "unsupported");
            assert_non_null(strstr(text_at(record, "reason"), splits[split].refusal));
            continue;
        }
        double loss = json_number_value(json_object_get(record, "loss")),
               whole = json_number_value(json_object_get(one, "loss"));
        assert_string_equal(text_at(record, "status"), "ok");
        assert_true(loss > 0 && loss - whole < 1e-13 * whole && whole - loss < 1e-13 * whole);
        for (size_t k = 0; k < COUNT(same); k++)
            assert_true(json_equal(json_object_get(record, same[k]), json_object_get(plan, same[k])));
        assert_true(json_equal(json_object_get(record, "model_flops"), json_object_get(one, "model_flops")));
        for (size_t r = 0; r < splits[split].ranks; r++)
            for (size_t k = 0; k < COUNT(keys); k++) {
                assert_true(element(record, keys[k], r) == element(plan, keys[k], r));
                assert_true(element(record, keys[k], r) > 0);
            }
        if (shares) {
            assert_string_equal(text_at(json_object_get(record, "gradient"), "hash"),
                                text_at(json_object_get(before, "gradient"), "hash"));
            assert_true(json_number_value(json_object_get(record, "resident_bytes")) <
                        json_number_value(json_object_get(before, "resident_bytes")));
        }
    }
    json_decref(all);
    json_decref(planned);
}

// Prompts that sequences share, log-probs that a forward says beforehand: ranks that have some of the tokens have
// the loss of one, and, which a record that is ok has been held against, the gradient.
static void shared_tokens_have_the_gradient_of_one(void **state)
{
    const struct scratch *scratch = *state;
    write_spec(
        scratch,
        "'dtype': 'f64', 'batch': 4, 'group': 2, 'prompt': 8, 'lora': {'rank': 2}, 'measure': "
        "{'samples': 1, 'warmup': 0}, 'axes': {'method': [{'name': 'checkpoint', 'objective': 'dpo', 'reference': "
        "'adapter-off'}, {'name': 'checkpoint', 'objective': {'name': 'grpo', 'beta': 0.1}, 'reference': "
        "'random'}], 'parallel': [{}, "
        "{'sequence': 3}, {'sequence': 2, 'exchange': 'all-to-all'}]}");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    json_t *all = records(scratch, "r.jsonl");
    assert_int_equal(json_array_size(all), 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *record = json_array_get(all, i), *one = json_array_get(all, i - i % 3);
        double loss = json_number_value(json_object_get(record, "loss")),
               whole = json_number_value(json_object_get(one, "loss"));
        assert_string_equal(text_at(record, "status"), "ok");
        assert_true(loss != 0 && fabs(loss - whole) <= 1e-13 * fabs(whole));
    }
    json_decref(all);
}

// Planning commands report one of several ranks.
static void plans_are_of_a_rank(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run(scratch,
                         "O='--model tiny --batch 6 --parallel data=3,zero=3 --memory-limit 8MiB';"
                         "$L advise $O --context 200 && $L max-context $O && $L max-context $O --methods auto"),
                     0);
    assert_int_equal(run(scratch, "$L max-batch --model tiny --parallel data=3 --memory-limit 64MiB --context 100"
                                  " --methods streambp --json"),
                     0);
    json_error_t error;
    char *text = text_of(scratch, "out");
    json_t *found = json_loads(text, 0, &error);
    json_int_t batch = json_integer_value(json_object_get(json_object_get(found, "trial"), "batch"));
    assert_true(batch > 0 && batch % 3 == 0);
    json_decref(found);
    free(text);
    assert_refused(scratch, "$L plan --model tiny --context 64 --method streambp --parallel data=2");
    assert_int_equal(run(scratch, "$L plan --model tiny --context 64 --batch 2 --objective dpo --method streambp "
                                  "--parallel data=2"),
                     2);
    assert_says(scratch, "err", "the batch's pairs are 1, too few for 2 data ranks");
    assert_int_equal(run(scratch, "$L plan --model tiny --context 64 --batch 2 --method streambp --parallel data=2 "
                                  "--offload weights"),
                     2);
    assert_says(scratch, "err", "ranks of data or sequence keep");
    static const struct {
        const char *flags, *reason;
    } refused[] = {
        {"--method streambp --offload inputs --host-memory 1GiB --parallel sequence=2,exchange=ring",
         "with offload streambp loads layers from the host chunk by chunk"},
        {"--method streambp --offload inputs --host-memory 1GiB --parallel sequence=2,exchange=all-to-all",
         "ranks would exchange heads for each"},
        {"--method full --parallel sequence=3,exchange=all-to-all",
         "3 ranks cannot share 4 query heads and 2 key heads"},
        {"--method seco --parallel sequence=2,exchange=ring", "seco takes no sequence ranks"},
        {"--method auto --parallel sequence=2,stage=2", "no exact method can be shared so"},
        {"--method full --parallel data=2,exchange=ring", "give \"sequence\", or leave it out"},
        {"--method full --group 2 --prompt 4 --parallel sequence=2,exchange=ring", "ring exchange"},
        {"--method full --parallel sequence=2,exchange=star", "star"},
        {"--method full --model qwen3.5-9b --parallel sequence=3,exchange=all-to-all",
         "3 ranks cannot share the 16 key heads of layer 0, delta, evenly: use a number that divides them, or "
         "parallel.exchange gather or ring"},
        {"--method full --model qwen3.5-9b --group 2 --prompt 4 --parallel sequence=2",
         "ranks pass no states behind a shared prompt"},
        {"--method streambp --model qwen3.5-9b --offload inputs --host-memory 1GiB --parallel sequence=2",
         "states would pass through all ranks for each"},
        {"--method seco --parallel stage=2,sum=engine", "give one of the two, or leave it out"},
        {"--method full --parallel data=2,node=2",
         "2 ranks per node do not divide the 2 ranks of data and sequence into two or more nodes"},
        {"--method full --parallel data=2,sequence=3,node=4", "4 ranks per node do not divide the 6 ranks"},
        {"--method full --parallel data=2,sequence=2,node=2,sum=engine", "\"sum\" is engine"},
        {"--method full --parallel data=2,sequence=2,node=2,overlap=true", "cannot be combined with \"overlap\""},
        {"--method full --dtype bf16 --gradient-dtype bf16 --like cpu --parallel data=2,sum=engine",
         "adds no bf16"}};
    for (size_t i = 0; i < COUNT(refused); i++) {
        char command[300];
        snprintf(command, sizeof command, "$L plan --model tiny --context 64 --batch 2 %s", refused[i].flags);
        assert_int_equal(run(scratch, command), 2);
        assert_says(scratch, "err", refused[i].reason);
    }
    assert_int_equal(run(scratch, "$L plan --model tiny --context 64 --method full --parallel sequence=2 --profile "
                                  "h200-141g"),
                     0);
    assert_says(scratch, "out", "estimate (scaled rates, profile h200-141g, interconnect");
    // None has all of a row's keys and values: a longer context, and without gradients of all of them.
    assert_int_equal(run(scratch,
                         "most() { $L max-context --model tiny --methods checkpoint --memory-limit 24MiB --json "
                         "--parallel $1sequence=4,zero=3 | grep -o '\"context\":[0-9]*' | grep -o "
                         "'[0-9]*'; }; gather=$(most '') && ring=$(most exchange=ring,) && "
                         "echo $gather $ring && test $gather -gt 100 && test $ring -gt $gather"),
                     0);
}

// Sums over ranks are of what is on the devices.
static void a_tied_table_stays_on_the_device(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run(scratch,
                         "$L plan --model qwen2.5-0.5b --context 64 --method seco --chunk 16 --parallel stage=2 "
                         "--offload gradients"),
                     2);
    assert_says(scratch, "err", "tied embedding");
    assert_int_equal(run(scratch,
                         "$L plan --model qwen2.5-0.5b --context 64 --method seco --chunk 16 --parallel stage=2 "
                         "--segments 2"),
                     2);
    assert_says(scratch, "err", "segments of seco");
}

// Ranks of every kind walk one choice, that of the plan, and take the bytes that it says.
static void ranks_walk_one_choice(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch, "'batch': 2, 'limits': {'memory': '2MiB', 'host_memory': '1MiB'}, 'measure': {'warmup': 0, "
                        "'samples': 1}, 'method': 'auto', 'axes': {'parallel': [{'data': 2}, {'sequence': 3}, "
                        "{'stage': 3}, {'sequence': 2, 'exchange': 'ring'}, {'sequence': 2, 'exchange': "
                        "'all-to-all'}, {'data': 2, 'zero': 3, 'overlap': true}, {'sequence': 2, 'zero': 2, "
                        "'overlap': true}]}");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_int_equal(run(scratch, "$L run spec.json --out p.jsonl --device plan"), 0);
    json_t *all = records(scratch, "r.jsonl"), *planned = records(scratch, "p.jsonl");
    assert_int_equal(json_array_size(all), 7);
    for (size_t i = 0; i < 7; i++) {
        const json_t *record = json_array_get(all, i), *plan = json_array_get(planned, i);
        assert_string_equal(text_at(record, "status"), "ok");
        static const char *const same[] = {"chosen", "peak_bytes", "flops"};
        for (size_t k = 0; k < COUNT(same); k++)
            assert_true(json_equal(json_object_get(record, same[k]), json_object_get(plan, same[k])));
        assert_true(json_is_object(json_object_get(record, "chosen")));
    }
    json_decref(planned);
    json_decref(all);
    // By what is free; and where nothing fits once, with its reason.
    assert_int_equal(run(scratch, "O='--model tiny --context 40 --batch 2 --method auto';"
                                  "$L grad $O --out 1 --parallel stage=2 && $L grad $O --out 2 --parallel data=2"),
                     0);
    assert_int_equal(run(scratch, "$L grad --model tiny --context 40 --method auto --out 1 --parallel stage=2 "
                                  "--memory-limit 1KiB"),
                     1);
    assert_says(scratch, "err", "rank 0 of 2: no exact method fits: ");
}

// A dry run knows the most that one of the ranks takes; what ranks cannot share is told.
static void a_dry_run_knows_ranks(void **state)
{
    const struct scratch *scratch = *state;
    write_spec(
        scratch,
        "'batch': 4, 'measure': {'warmup': 0, 'samples': 1, 'gradient': 'none'}, 'axes': {'method': "
        "['full', 'streambp'], 'parallel': [{'data': 2}, {'data': 4, 'zero': 3}, {'data': 8}, {'sequence': 3}]}");
    assert_int_equal(run(scratch, "$L run spec.json --dry-run --out r.jsonl > dry && grep -c unsupported dry && "
                                  "tr -s ' ' < dry | grep -o '[0-9.]* [KM]iB' > planned"),
                     0);
    assert_says(scratch, "dry", "8 trials to measure, 0 done; 2 are unsupported");
    assert_says(scratch, "dry", "\nunsupported, 2: the batch's sequences are 4, too few for 8 data ranks\n");
    assert_int_equal(run(scratch, "$L run spec.json --list"), 0);
    assert_says(scratch, "out", "; unsupported: the batch's sequences are 4, too few for 8 data ranks\n");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl > table && tr -s ' ' < table | "
                                  "grep -o '[0-9.]* [KM]iB' > measured; cmp planned measured"),
                     0);
}

// A dtype's error is against a reference with the experts of all ranks' tokens and layers; against one with its own
// it would be four times as large.
static void a_reference_takes_the_experts_of_all_ranks(void **state)
{
    struct scratch *scratch = *state;
    char *spec =
        quoted("{'experiment': 't', 'model': {'layers': 3, 'width': 64, 'heads': 4, 'kv_heads': 2, 'vocab': 256, "
               "'experts': 64, 'experts_per_token': 4, 'expert_width': 32, 'normalised_weights': true}, "
               "'dtype': 'bf16', 'context': 150, 'batch': 3, 'measure': {'warmup': 0, 'samples': 1}, 'axes': "
               "{'method': ['streambp', {'name': 'seco', 'chunk': 64}], 'parallel': [{}, {'data': 2}, "
               "{'sequence': 2}, {'stage': 2}, {'data': 2, 'stage': 2}]}}");
    scratch_file(scratch, "spec.json", spec, strlen(spec));
    free(spec);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    json_t *all = records(scratch, "r.jsonl");
    size_t checked = 0;
    double alone = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *record = json_array_get(all, i), *gradient = json_object_get(record, "gradient");
        if (strcmp(text_at(record, "status"), "ok") != 0)
            continue;
        double error = json_number_value(json_object_get(gradient, "relative_l2"));
        alone = checked++ == 0 ? error : alone;
        assert_string_equal(text_at(gradient, "routing"), "trial");
        if (!(error < 1.5 * alone))
            fail_msg("trial %zu: %.2e, of one rank %.2e", i, error, alone);
    }
    assert_int_equal(checked, 7);
    json_decref(all);
}

// Ranks with some of a mixture's experts each take the bytes of their plans, and rank 0 collects the gradients.
static void ranks_share_the_experts(void **state)
{
    struct scratch *scratch = *state;
    write_spec_of(
        scratch,
        "'context': 40, 'model': {'layers': 2, 'width': 16, 'heads': 2, 'kv_heads': 1, 'vocab': 32, "
        "'experts': 4, 'experts_per_token': 2, 'expert_width': 8}",
        "'batch': 4, 'dtype': 'f64', 'measure': {'warmup': 0, 'samples': 1}, 'method': {'name': 'streambp', "
        "'chunk': 16}, 'axes': {'parallel': [{'data': 2, 'experts': 2}, {'data': 4, 'experts': 2, 'zero': "
        "3}]}");
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_int_equal(run(scratch, "$L run spec.json --out p.jsonl --device plan"), 0);
    json_t *all = records(scratch, "r.jsonl"), *planned = records(scratch, "p.jsonl");
    assert_int_equal(json_array_size(all), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *record = json_array_get(all, i), *plan = json_array_get(planned, i);
        static const char *const same[] = {"peak_bytes", "flops", "bytes_moved"};
        assert_string_equal(text_at(record, "status"), "ok");
        for (size_t k = 0; k < COUNT(same); k++)
            assert_true(json_equal(json_object_get(record, same[k]), json_object_get(plan, same[k])));
        assert_true(json_number_value(json_object_get(json_object_get(record, "gradient"), "relative_l2")) < 1e-13);
    }
    json_decref(planned);
    json_decref(all);
    write_spec_of(scratch, "'context': 40, 'model': 'olmoe-7b'",
                  "'measure': {'warmup': 0, 'samples': 1}, 'method': 'full', 'axes': {'batch': [2, 3], 'parallel': "
                  "[{'data': 2, 'experts': 2}, {'data': 2, 'sequence': 2, 'experts': 2}]}");
    assert_int_equal(run(scratch, "$L run spec.json --list"), 0);
    assert_says(scratch, "out",
                "; unsupported: ranks that share the experts have as many sequences each, but 3 do not "
                "divide by 2 data ranks: use another batch, or leave parallel.experts out\n");
    assert_says(scratch, "out",
                "; unsupported: ranks that share the experts take whole sequences: leave "
                "parallel.experts or parallel.sequence out\n");
}

static void grad_writes_the_same_file(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run(scratch, "O='--model tiny --context 40 --method seco --chunk 16';"
                                  "$L grad $O --out 1 && $L grad $O --out 3 --parallel stage=3 && cmp 1 3"),
                     0);
    assert_int_equal(run(scratch, "O='--model tiny --context 40 --batch 3 --method streambp --chunk 16';"
                                  "$L grad $O --out 2 --parallel data=2 && $L grad $O --out 3 --parallel "
                                  "data=2,zero=3 && cmp 2 3"),
                     0);
    // Codes are kept and gathered in shares as they are.
    assert_int_equal(run(scratch,
                         "O='--model tiny --context 40 --batch 2 --lora r=2 --weights nf4 --method streambp';"
                         "$L grad $O --out 2 --parallel data=2 && $L grad $O --out 3 --parallel "
                         "data=2,zero=3 && cmp 2 3"),
                     0);
    // Groups of sequences with one prompt stay together.
    assert_int_equal(run(scratch, "O='--model tiny --context 40 --batch 4 --group 2 --prompt 8 --method full';"
                                  "$L grad $O --out 2 --parallel data=2 && $L grad $O --out 3 --parallel "
                                  "data=2,zero=2 && cmp 2 3"),
                     0);
    // The launcher leaves what else can be read: the next lines of a script.
    assert_int_equal(run(scratch, "echo left | { $L grad --model tiny --context 8 --method seco --out 4 "
                                  "--parallel stage=2 >/dev/null; grep left; }"),
                     0);
    assert_refused(scratch, "$L grad --model tiny --context 40 --method seco --out 1 --parallel stage=9");
}

static void one_rank_is_what_it_was(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch, "'axes': {'method': ['seco']}");
    assert_int_equal(
        run(scratch, "$L run spec.json --list > a; $L run spec.json --list --parallel stage=1 > b; cmp a b"), 0);
    assert_int_equal(run(scratch, "$L run spec.json --list --parallel stage=2 > c; cmp a c"), 1);
    assert_refused(scratch, "$L run spec.json --list --parallel stages=2");
}

static void what_is_missing_is_named(void **state)
{
    struct scratch *scratch = *state;
    write_spec(scratch, "'axes': {'method': ['seco']}, 'parallel': {'stage': 2}");
    assert_refused(scratch, "LONGBP_MPI=/no/such.so $L run spec.json --out r.jsonl");
    assert_refused(scratch, "PATH=/nowhere $L run spec.json --out s.jsonl");
    // Beside one that can be, it is a record.
    static const char both[] = "$L run spec.json --axis 'parallel={},{\"stage\": 2}' --out";
    char command[200];
    snprintf(command, sizeof command, "LONGBP_MPI=/no/such.so %s r.jsonl", both);
    assert_int_equal(run(scratch, command), 0);
    snprintf(command, sizeof command, "PATH=/nowhere %s s.jsonl", both);
    assert_int_equal(run(scratch, command), 0);
    json_t *plugin = records(scratch, "r.jsonl"), *launcher = records(scratch, "s.jsonl");
    assert_string_equal(text_at(json_array_get(plugin, 1), "status"), "unsupported");
    assert_string_equal(text_at(json_array_get(launcher, 1), "status"), "unsupported");
    assert_non_null(
        strstr(text_at(json_array_get(launcher, 1), "reason"), have_mpi ? "openmpi-bin" : "libopenmpi-dev"));
    json_decref(plugin);
    json_decref(launcher);
    assert_refused(scratch, "OMPI_COMM_WORLD_SIZE=4 $L run spec.json --out t.jsonl");
}

int main(void)
{
    const struct CMUnitTest anywhere[] = {
        cmocka_unit_test_setup_teardown(one_rank_is_what_it_was, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_tied_table_stays_on_the_device, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(plans_are_of_a_rank, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_is_missing_is_named, scratch_setup, scratch_teardown),
    };
    const struct CMUnitTest with_mpi[] = {
        cmocka_unit_test_setup_teardown(ranks_have_the_figures_of_one, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(replicas_have_the_figures_of_one, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(shared_tokens_have_the_gradient_of_one, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(ranks_walk_one_choice, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_dry_run_knows_ranks, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_reference_takes_the_experts_of_all_ranks, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(ranks_share_the_experts, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(grad_writes_the_same_file, scratch_setup, scratch_teardown),
    };
    have_mpi = has_mpi();
    int failed = cmocka_run_group_tests(anywhere, NULL, NULL);
    return have_mpi ? failed + cmocka_run_group_tests(with_mpi, NULL, NULL) : failed;
}
