// Plans of several ranks: ranks with equal schedules are planned once, with unchanged figures; the time of a step
// over links, against closed forms.
#define _GNU_SOURCE // asprintf
#include "harness/plan/planned_step.h"
#include "kernels/trainer/trainer.h"
#include "tests/asked.h"
#include "tests/chosen_tests.h"
#include "tests/sanitized.h"
#include "tests/scratch.h"

// A rank's step by itself, as a trial's run takes it.
static struct counters walk(const struct trial *trial, size_t rank, size_t *peak_bytes)
{
    struct status status = {0};
    struct setup setup;
    struct step_report report = {0};
    struct setup_options options = setup_options_of(trial);
    struct comm comm = comm_planned(rank, trial_ranks(trial));
    options.ranks = &comm;
    if (!setup_open(&setup, trial, &options, &status))
        fail_msg("%s", status.message);
    if (trial->profile)
        assert_true(profile_roofline(trial->profile, trial->dtype, &setup.device->roofline, &status));
    arena_reset_peak(&setup.device->arena);
    setup.device->counters = (struct counters){0};
    struct training_step step = setup_update(&setup, trial, 1);
    training_step_take(&step, &report);
    assert_int_equal(setup.device->status.code, STATUS_OK);
    struct counters counters = setup.device->counters;
    *peak_bytes = setup.device->arena.peak_bytes;
    step_report_free(&report);
    setup_close(&setup);
    return counters;
}

// The entry of a record's ranks that has this rank.
static size_t entry_of(const json_t *ranks, size_t rank)
{
    size_t entry = 0;
    for (size_t end = 0; json_is_array(json_object_get(ranks, "alike")); entry++) {
        end += (size_t)item(ranks, "alike", entry);
        if (rank < end)
            return entry;
    }
    return rank;
}

#define PLAN "'model': 'tiny', 'context': 70, 'device': 'plan', "

static void every_rank_has_the_figures_of_its_own_walk(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "{" PLAN "'batch': 7, 'method': 'full', 'parallel': {'data': 5}}",
        "{" PLAN "'batch': 5, 'method': 'checkpoint', 'parallel': {'data': 5, 'zero': 1}, 'optimizer': 'adamw'}",
        "{" PLAN "'batch': 7, 'method': 'streambp', 'parallel': {'data': 5, 'zero': 2}, 'optimizer': 'adamw'}",
        "{" PLAN "'batch': 7, 'method': 'streambp', 'parallel': {'data': 5, 'zero': 3}, 'lora': {'rank': 3}}",
        "{" PLAN "'batch': 6, 'method': 'streambp', 'parallel': {'data': 3, 'zero': 3}, 'documents': {'mean': 9}}",
        "{" PLAN "'batch': 6, 'method': 'full', 'parallel': {'data': 3}, 'objective': 'dpo'}",
        "{" PLAN "'method': {'name': 'seco', 'chunk': 16}, 'parallel': {'stage': 4}}",
        "{" PLAN
        "'batch': 8, 'method': {'name': 'seco', 'chunk': 16}, 'parallel': {'data': 3, 'stage': 4, 'zero': 1},"
        " 'optimizer': 'adamw', 'dtype': 'bf16'}",
        "{" PLAN "'batch': 3, 'method': {'name': 'spaco', 'chunk': 16, 'budget': 2}, "
        "'parallel': {'data': 3, 'stage': 2}}",
        "{'model': 'qwen2.5-0.5b', 'context': 16, 'device': 'plan', 'batch': 4, 'method': {'name': 'seco', "
        "'chunk': 8}, 'parallel': {'data': 4, 'stage': 3}}",
        // Shares that are as large, of two weights and of one.
        "{'model': {'layers': 6, 'width': 24, 'heads': 4, 'kv_heads': 2, 'ffn': 40, 'vocab': 31}, 'context': 40, "
        "'device': 'plan', 'batch': 4, 'method': 'full', 'parallel': {'data': 4, 'zero': 3}, 'optimizer': 'adamw'}",
        "{" PLAN "'batch': 100, 'method': 'streambp', 'parallel': {'data': 70, 'zero': 3}}",
        "{" PLAN "'batch': 40, 'method': {'name': 'seco', 'chunk': 32}, 'parallel': {'data': 20, 'stage': 4}}",
        "{" PLAN "'batch': 60, 'method': 'streambp', 'parallel': {'data': 60, 'zero': 3, 'node': 6}}",
        "{" PLAN "'batch': 7, 'method': 'full', 'parallel': {'data': 4, 'sequence': 3, 'zero': 2, 'node': 3}, "
        "'weights': 'nf4', 'lora': {'rank': 2}}",
        // Ranks that share the experts, and replicas of them.
        "{'model': {'layers': 3, 'width': 24, 'heads': 4, 'kv_heads': 2, 'vocab': 31, 'experts': 8, "
        "'experts_per_token': 2, 'expert_width': 16}, 'context': 40, 'device': 'plan', 'dtype': 'bf16', 'batch': "
        "24, "
        "'method': {'name': 'streambp', 'chunk': 9}, 'parallel': {'data': 24, 'experts': 4, 'zero': 2}}",
        "{" PLAN "'method': {'name': 'streambp', 'chunk': 6}, 'parallel': {'sequence': 5, 'zero': 3}}",
        "{" PLAN "'batch': 4, 'method': 'full', 'parallel': {'data': 3, 'sequence': 2}, 'documents': {'mean': 9}}",
        "{" PLAN "'batch': 3, 'method': 'checkpoint', "
        "'parallel': {'data': 3, 'sequence': 3, 'exchange': 'ring', 'zero': 1}, 'optimizer': 'adamw'}",
        "{" PLAN "'batch': 2, 'method': 'checkpoint', 'parallel': {'data': 2, 'sequence': 4, 'exchange': "
        "'all-to-all'}, 'documents': {'mean': 9}}",
        // Shares of many ranks, of which those in between are alike.
        "{'model': 'tiny', 'context': 280, 'device': 'plan', 'method': 'streambp', 'parallel': {'sequence': 70}}",
        "{'model': 'tiny', 'context': 280, 'device': 'plan', 'batch': 2, 'method': 'full', 'parallel': {'data': 2, "
        "'sequence': 70, 'exchange': 'ring'}}",
        // Each rank reads states and latents as far as its later piece.
        "{'model': 'qwen3.5-9b', 'context': 264, 'device': 'plan', 'method': 'full', 'parallel': {'sequence': 66}}",
        "{'model': {'layers': 2, 'width': 24, 'heads': 4, 'head_dim': 10, 'value_dim': 7, 'rotary': 4, 'kv_rank': "
        "15, "
        "'ffn': 40, 'vocab': 31}, 'context': 264, 'device': 'plan', 'method': 'checkpoint', 'parallel': "
        "{'sequence': "
        "66, 'exchange': 'ring'}}",
        "{'model': 'qwen3.5-9b', 'context': 40, 'device': 'plan', 'method': {'name': 'streambp', 'chunk': 6}, "
        "'parallel': {'sequence': 2, 'exchange': 'all-to-all'}}",
    };
    static const char *const sums[] = {"flops", "bytes_moved", "launches"};
    for (size_t i = 0; i < COUNT(cases); i += stride()) {
        struct trial trial = trial_of(cases[i]);
        json_t *record = record_of(cases[i]), *ranks = json_object_get(record, "ranks");
        size_t count = trial_ranks(&trial), entries = json_array_size(json_object_get(ranks, "messages"));
        double max = 0, all[COUNT(sums)] = {0};
        if (count > 64 ? entries > 16 : entries != count) // many that are alike are written once
            fail_msg("%s: %zu entries", cases[i], entries);
        for (size_t r = 0; r < count; r++) {
            size_t peak, entry = entry_of(ranks, r);
            struct counters own = walk(&trial, r, &peak);
            const double found[] = {own.flops, own.bytes_moved, (double)own.launches};
            assert_true(item(ranks, "sent_bytes", entry) == own.sent_bytes);
            assert_true(item(ranks, "received_bytes", entry) == own.received_bytes);
            assert_true(item(ranks, "messages", entry) == (double)own.messages);
            assert_true(item(ranks, "peak_bytes", entry) == (double)peak);
            max = fmax(max, (double)peak);
            for (size_t s = 0; s < COUNT(sums); s++)
                all[s] += found[s];
        }
        for (size_t s = 0; s < COUNT(sums); s++)
            assert_true(number(record, sums[s]) == all[s]);
        assert_true(number(record, "peak_bytes") == max);
        json_decref(record);
        trial_free(&trial);
    }
}

// The planner's step equals a plan's, on ranks of every kind: bytes, work, and the time over links.
static void a_planned_step_is_the_plan(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "'batch': 7, 'method': 'streambp', 'parallel': {'data': 5, 'zero': 3}, 'optimizer': 'adamw'",
        "'method': {'name': 'seco', 'chunk': 16}, 'parallel': {'stage': 4}",
        "'batch': 3, 'method': {'name': 'seco', 'chunk': 16, 'offload': ['kv']}, 'parallel': {'data': 3, 'stage': "
        "2}",
        "'method': {'name': 'streambp', 'chunk': 6}, 'parallel': {'sequence': 5}",
        "'batch': 4, 'method': 'full', 'parallel': {'data': 2, 'sequence': 2}, 'documents': {'mean': 9}",
        "'method': 'checkpoint', 'parallel': {'sequence': 3, 'exchange': 'ring'}",
        "'method': 'checkpoint', 'parallel': {'sequence': 2, 'exchange': 'all-to-all'}",
        "'batch': 70, 'method': 'full', 'parallel': {'data': 70}",
    };
    for (size_t i = 0; i < COUNT(cases); i += stride()) {
        char *json;
        assert_true(asprintf(&json, "{" PLAN "'profile': 'h200-141g', %s}", cases[i]) > 0);
        struct trial trial = trial_of(json);
        json_t *record = record_of(json);
        struct planned_memos memos;
        struct status status = {0};
        planned_memos_open(&memos);
        for (size_t again = 0; again < 2; again++) {
            struct planned_step step;
            assert_true(planned_step(&step, &trial, trial.options, (struct planned_limits){NO_LIMIT, NO_LIMIT},
                                     &memos, &status));
            double host_bytes = json_number_value(json_object_get(record, "host_peak_bytes")); // null: 0
            if (!step.fits || (double)step.peak_bytes != number(record, "peak_bytes") ||
                (double)step.host_peak_bytes != host_bytes || !near(step.flops, number(record, "flops")) ||
                !near(1e3 * step.seconds, number(record, "estimate_ms")))
                fail_msg("%s: %zu and %zu bytes, %.17g FLOPs, %.17g s", cases[i], step.peak_bytes,
                         step.host_peak_bytes, step.flops, step.seconds);
        }
        planned_memos_close(&memos);
        json_decref(record);
        trial_free(&trial);
        free(json);
    }
}

// A hundred thousand ranks: those that are walked stand for the others.
static void very_many_ranks_are_planned(void **state)
{
    (void)state;
    json_t *record =
        record_of("{'model': 'llama-3-8b', 'context': 65536, 'batch': 3125, 'dtype': 'bf16', 'device': "
                  "'plan', 'method': {'name': 'seco', 'chunk': 2048}, 'profile': 'h200-141g', "
                  "'parallel': {'data': 3125, 'stage': 32}}");
    const json_t *ranks = json_object_get(record, "ranks"), *alike = json_object_get(ranks, "alike");
    double all = 0, sent = 0, expected = 31.0 * 3125 * 2 * 65536 * 4096 * 2; // each boundary, either way
    for (size_t i = 0; i < json_array_size(alike); i++) {
        double count = json_number_value(json_array_get(alike, i));
        all += count;
        sent += count * item(ranks, "sent_bytes", i);
    }
    // And of every weight's gradient each replica's, to its owner and its sum to the others.
    expected += 3124.0 * 2 * 4 * 8030261248.0;
    assert_true(all == 100000 && json_array_size(alike) < 400);
    assert_true(fabs(sent - expected) <= 1e-9 * expected);
    assert_true(number(record, "estimate_ms") > 0);
    json_decref(record);
}

// Ten thousand and more that share the tokens of a few sequences.
static void many_ranks_share_tokens(void **state)
{
    (void)state;
    size_t sequence = exhaustive() ? 256 : 64;
    char *trial;
    assert_true(asprintf(&trial,
                         "{'model': 'llama-3-8b', 'context': 1048576, 'batch': 64, 'dtype': 'bf16', 'device': "
                         "'plan', 'method': {'name': 'streambp', 'chunk': 2048}, 'profile': 'h200-141g', "
                         "'parallel': {'data': 64, 'sequence': %zu, 'zero': 3}}",
                         sequence) > 0);
    json_t *record = record_of(trial);
    free(trial);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(record, "ranks"), "count")), 64 * sequence);
    assert_true(number(record, "estimate_ms") > 0);
    json_decref(record);
}

// Links of a rate and a latency, between all ranks.
static struct scratch_path interconnect_of(const struct scratch *scratch, double bytes_per_s, double latency_s)
{
    char *text;
    int bytes =
        asprintf(&text,
                 "{\"name\": \"test\", \"interconnect\": [{\"name\": \"all\", \"bytes_per_s\": {\"value\": %.17g, "
                 "\"source\": \"a\"}, \"latency_s\": {\"value\": %.17g, \"source\": \"b\"}}]}",
                 bytes_per_s, latency_s);
    assert_true(bytes > 0);
    struct scratch_path path = scratch_file(scratch, "interconnect.json", text, (size_t)bytes);
    free(text);
    return path;
}

// Plans a trial, whose JSON is open at the end, over such links.
static json_t *timed(const struct scratch *scratch, const char *json, double bytes_per_s, double latency_s)
{
    struct scratch_path path = interconnect_of(scratch, bytes_per_s, latency_s);
    char *whole;
    assert_true(asprintf(&whole, "%s, 'profile': 'rtx-3090', 'interconnect': '%s'}", json, path.text) > 0);
    json_t *record = record_of(whole);
    free(whole);
    return record;
}

static double seconds(const struct scratch *scratch, const char *json, double bytes_per_s, double latency_s)
{
    json_t *record = timed(scratch, json, bytes_per_s, latency_s);
    double found = number(record, "estimate_ms") / 1e3;
    json_decref(record);
    return found;
}

// With (P - 1) / P of what crosses the links, each way: twice the gradients; or these, and weights after an update;
// or these, and weights for the forward and for the backward pass of each layer and once for the head and the
// embedding.
static void data_ranks_take_their_closed_form(void **state)
{
    static const struct {
        const char *json;
        double gradients, weights, layers, meetings; // times the bytes of all that trains; of layers alone
    } cases[] = {
        {"{" PLAN "'batch': 5, 'method': 'full', 'parallel': {'data': 5}", 2, 0, 0, 12},
        {"{" PLAN "'batch': 5, 'method': 'streambp', 'parallel': {'data': 5}", 2, 0, 0, 12},
        {"{" PLAN "'batch': 5, 'method': 'streambp', 'parallel': {'data': 5, 'zero': 1}, 'optimizer': 'sgd'", 1, 1,
         0, 12},
        {"{" PLAN "'batch': 5, 'method': 'streambp', 'parallel': {'data': 5, 'zero': 2}, 'optimizer': 'sgd'", 1, 1,
         0, 12},
        {"{" PLAN "'batch': 5, 'method': 'streambp', 'parallel': {'data': 5, 'zero': 3}, 'optimizer': 'sgd'", 1, 1,
         1, 16},
        {"{" PLAN "'batch': 5, 'method': {'name': 'seco', 'chunk': 16}, 'parallel': {'data': 5}", 2, 0, 0, 12},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct trial trial = trial_of("{'model': 'tiny', 'context': 70, 'method': 'full'}");
        struct model model;
        double all = 0, layers = 0, rate = 1e7;
        model_list(&model, &trial.config, &trial.lora);
        for (size_t p = 0; p < model.parameter_count; p++) {
            all += 4 * (double)model.parameters[p].size;
            layers +=
                strncmp(model.parameters[p].name, "model.layers.", 13) ? 0 : 4 * (double)model.parameters[p].size;
        }
        model_close(&model);
        trial_free(&trial);
        double none = seconds(*state, cases[i].json, 1e30, 0);
        double bytes = (cases[i].gradients + cases[i].weights) * all + cases[i].layers * layers;
        double over_interconnect = seconds(*state, cases[i].json, rate, 0) - none, expected = bytes * 4 / 5 / rate;
        if (fabs(over_interconnect - expected) > 0.02 * expected) // shares are of whole blocks
            fail_msg("%s: %g s of %g s", cases[i].json, over_interconnect, expected);
        double latency = seconds(*state, cases[i].json, 1e30, 1) - none;
        if (fabs(latency - cases[i].meetings) > 1e-9 * latency)
            fail_msg("%s: %g meetings", cases[i].json, latency);
    }
}

// Overlapped transfers take no time: over fast enough links a rank waits for the embedding's, which no computation
// overlaps, and at most for one layer's besides.
static void what_is_overlapped_takes_no_time(void **state)
{
    static const struct {
        const char *json;
        double min, layers; // times the bytes of the embedding; and of a layer
    } cases[] = {
        {"{'model': 'tiny', 'context': 2000, 'device': 'plan', 'batch': 5, 'method': 'streambp', 'parallel': "
         "{'data': 5, 'overlap': true}",
         2, 3},
        {"{'model': 'tiny', 'context': 2000, 'device': 'plan', 'batch': 5, 'method': 'streambp', 'parallel': "
         "{'data': 5, 'zero': 3, 'overlap': true}",
         2, 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct trial trial = trial_of("{'model': 'tiny', 'context': 70, 'method': 'full'}");
        struct model model;
        double layer = 0, rate = 1e10;
        model_list(&model, &trial.config, &trial.lora);
        for (const struct parameter *p = model.layers[0].first; p < model.layers[1].first; p++)
            layer += 4 * (double)p->size;
        double embedding = 4 * (double)model.embedding->size;
        model_close(&model);
        trial_free(&trial);
        double over_interconnect =
            seconds(*state, cases[i].json, rate, 0) - seconds(*state, cases[i].json, 1e30, 0);
        double min = cases[i].min * embedding * 4 / 5 / rate, layers = cases[i].layers * layer * 4 / 5 / rate;
        if (over_interconnect < 0.9 * min || over_interconnect > min + layers)
            fail_msg("%s: %g s of %g to %g s", cases[i].json, over_interconnect, min, min + layers);
    }
}

// Closed forms of keys and values, for ranks of n = T / P tokens each: gathered, all bytes cross the links without
// overlap; in a ring, keys and values overlap with attention.
static void sequence_ranks_take_their_closed_form(void **state)
{
    static const struct {
        const char *json;
        double keys, hops; // times a rank's keys and values; per layer, that somebody waits for
        bool rings;
    } cases[] = {
        {"{" PLAN "'method': 'full', 'parallel': {'sequence': 5}", 2, 12, false},
        {"{" PLAN "'method': {'name': 'streambp', 'chunk': 6}, 'parallel': {'sequence': 5}", 2, 12, false},
        {"{" PLAN "'method': 'full', 'parallel': {'sequence': 5, 'exchange': 'ring'}", 2, 4 + 4 + 4, true},
        {"{" PLAN "'method': 'checkpoint', 'parallel': {'sequence': 5, 'exchange': 'ring'}", 3, 4 + 4 + 4 + 4,
         true},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct trial trial = trial_of("{'model': 'tiny', 'context': 70, 'method': 'full'}");
        const struct config *c = &trial.config;
        struct model model;
        double weights = 0, rate = 1e3,
               row = 70.0 / 5 * 2 * (double)(c->kinds[0].kv_heads * c->kinds[0].head_dim) * 4;
        model_list(&model, c, &trial.lora);
        for (size_t p = 0; p < model.parameter_count; p++)
            weights += 4 * (double)model.parameters[p].size;
        double summed = 2 * weights * 4 / 5, gradients = (double)c->layers * 4 * row,
               keys = cases[i].keys * gradients;
        double none = seconds(*state, cases[i].json, 1e30, 0);
        double slow = seconds(*state, cases[i].json, rate, 0), expected = (keys + gradients + summed) / rate;
        if (fabs(slow - expected) > 0.02 * expected) // shares of weights are of whole blocks
            fail_msg("%s: %g s of %g s", cases[i].json, slow, expected);
        double fast = seconds(*state, cases[i].json, 1e10, 0) - none;
        expected = ((cases[i].rings ? 0 : keys) + gradients + summed) / 1e10;
        if (fabs(fast - expected) > 0.02 * expected)
            fail_msg("%s: %g s of %g s, which are not hidden", cases[i].json, fast, expected);
        double latency = seconds(*state, cases[i].json, 1e30, 1) - none;
        expected = (double)c->layers * cases[i].hops + 12; // and the weights' gradients
        if (fabs(latency - expected) > 1e-3 * expected)
            fail_msg("%s: %g latencies", cases[i].json, latency);
        model_close(&model);
        trial_free(&trial);
    }
}

// Closed form of an exchange of heads: a rank sends each other rank a Pth of all heads of its tokens, or one key
// head, if they are fewer than ranks.
static void ranks_of_heads_take_their_closed_form(void **state)
{
    for (size_t i = 0; i < 4; i++) {
        size_t P = i < 2 ? 2 : 4, attends = 1 + i % 2; // checkpoint attends again
        char *json;
        assert_true(asprintf(&json,
                             "{'model': 'tiny', 'context': 80, 'device': 'plan', 'method': '%s', 'parallel': "
                             "{'sequence': %zu, 'exchange': 'all-to-all'}",
                             i % 2 ? "checkpoint" : "full", P) > 0);
        struct trial trial = trial_of("{'model': 'tiny', 'context': 80, 'method': 'full'}");
        const struct config *c = &trial.config;
        struct model model;
        double weights = 0, rate = 1e3,
               kv_heads = (double)(c->kinds[0].kv_heads > P ? c->kinds[0].kv_heads / P : 1);
        double D = (double)c->kinds[0].head_dim, heads = (double)(c->kinds[0].heads / P), all = (double)attends;
        model_list(&model, c, &trial.lora);
        for (size_t p = 0; p < model.parameter_count; p++)
            weights += 4 * (double)model.parameters[p].size;
        // Keys and values twice and their gradients; q and o, and q, o, grad_o and grad_q; logsumexp.
        double token = (2 + 2 + 2) * kv_heads * D + (2 * all + 4) * heads * D + (all + 1) * heads;
        double sent = (double)((P - 1) * 80 / P * c->layers) * 4 * token;
        double expected = (sent + 2 * weights * (double)(P - 1) / (double)P) / rate;
        double none = seconds(*state, json, 1e30, 0), over_interconnect = seconds(*state, json, rate, 0) - none;
        if (fabs(over_interconnect - expected) > 0.005 * expected) // shares of weights are of whole blocks
            fail_msg("%s: %g s of %g s", json, over_interconnect, expected);
        double latency = seconds(*state, json, 1e30, 1) - none;
        expected = (double)c->layers * (4 + 2 + 3 * all + 5) + 12; // and the weights' gradients
        if (fabs(latency - expected) > 1e-9 * expected)
            fail_msg("%s: %g latencies", json, latency);
        model_close(&model);
        trial_free(&trial);
        free(json);
    }
}

// A rank computes or waits, and its computation takes as long as its own schedule; the slowest does not wait for
// itself.
static void ranks_wait_when_they_do_not_compute(void **state)
{
    static const char *const cases[] = {
        "{" PLAN "'method': {'name': 'seco', 'chunk': 16}, 'parallel': {'stage': 4}",
        "{" PLAN "'batch': 3, 'method': {'name': 'seco', 'chunk': 16}, 'parallel': {'data': 2, 'stage': 3}",
        "{" PLAN "'batch': 3, 'method': 'checkpoint', 'parallel': {'data': 2}",
        "{" PLAN "'batch': 3, 'method': {'name': 'streambp', 'chunk': 8}, 'parallel': {'data': 2, 'sequence': 2}",
        "{" PLAN "'batch': 3, 'method': 'checkpoint', 'parallel': {'data': 2, 'sequence': 3, 'exchange': 'ring'}",
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *record = timed(*state, cases[i], 1e8, 1e-5), *ranks = json_object_get(record, "ranks");
        double step_s = number(record, "estimate_ms") / 1e3;
        char *json;
        assert_true(asprintf(&json, "%s, 'profile': 'rtx-3090'}", cases[i]) > 0);
        struct trial trial = trial_of(json);
        for (size_t r = 0; r < trial_ranks(&trial); r++) {
            size_t peak;
            struct counters own = walk(&trial, r, &peak);
            double own_s = counters_clock_s(&own);
            double idle = item(ranks, "idle_share", r);
            assert_true(idle > 0 && idle < 1);
            assert_true(fabs((1 - idle) * step_s - own_s) <= 1e-9 * step_s);
        }
        trial_free(&trial);
        free(json);
        json_decref(record);
    }
    double none = seconds(*state, cases[0], 1e30, 0), slow = seconds(*state, cases[0], 1e7, 0);
    assert_true(none < slow);
}

static void without_an_interconnect_there_is_no_time(void **state)
{
    (void)state;
    json_t *record =
        record_of("{" PLAN "'batch': 4, 'method': 'full', 'parallel': {'data': 4}, 'profile': 'rtx-3090'}");
    assert_true(json_is_null(json_object_get(record, "estimate_ms"))); // a bridge joins two
    assert_true(json_is_null(json_object_get(json_object_get(record, "ranks"), "idle_share")));
    json_decref(record);
    char *out;
    assert_int_equal(longbp(&out,
                            "plan --model tiny --context 64 --batch 4 --method full --parallel data=4 --profile "
                            "rtx-3090"),
                     0);
    assert_non_null(
        strstr(out, "profile rtx-3090 has no interconnect between so many ranks; --interconnect names one"));
    free(out);
    assert_int_equal(longbp(&out,
                            "plan --model tiny --context 64 --batch 4 --method full --parallel data=4 --profile "
                            "rtx-3090 --interconnect ethernet-10g"),
                     0);
    assert_non_null(strstr(out, "estimate (scaled rates, profile rtx-3090, interconnect ethernet-10g)"));
    assert_non_null(strstr(out, "idle (estimate)"));
    free(out);
    assert_int_equal(longbp(&out, "plan --model tiny --context 64 --method full --interconnect ethernet10g"), 2);
    assert_non_null(strstr(out, "no interconnect \"ethernet10g\" in experiments/interconnects; did you mean"));
    free(out);
    assert_int_equal(longbp(&out,
                            "plan --model tiny --context 512 --method full --parallel sequence=129,exchange=ring "
                            "--profile rtx-3090 --interconnect ethernet-10g"),
                     0);
    assert_non_null(strstr(out, "none is estimated of more than 128 ranks whose keys and values go round"));
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_has_the_figures_of_its_own_walk),
        cmocka_unit_test(a_planned_step_is_the_plan),
        cmocka_unit_test(very_many_ranks_are_planned),
        cmocka_unit_test(many_ranks_share_tokens),
        cmocka_unit_test_setup_teardown(data_ranks_take_their_closed_form, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_is_overlapped_takes_no_time, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(sequence_ranks_take_their_closed_form, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(ranks_of_heads_take_their_closed_form, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(ranks_wait_when_they_do_not_compute, scratch_setup, scratch_teardown),
        cmocka_unit_test(without_an_interconnect_there_is_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
