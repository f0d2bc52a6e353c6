// Published settings over ranks, planned: the contexts that cards hold, the bytes sent, and the waits, compared
// with papers and guides.
#define _GNU_SOURCE // asprintf
#include "harness/record/published.h"
#include "tests/asked.h"
#include "tests/sanitized.h"

// The least that any rank waits: of the busiest.
static double min_idle(const json_t *ranks)
{
    double min = 1;
    for (size_t r = 0; r < json_array_size(json_object_get(ranks, "idle_share")); r++)
        min = fmin(min, item(ranks, "idle_share", r));
    return min;
}

// A pipeline of Llama-3-8B over a million tokens sends at most 2 T d e bytes per rank, most of them while it
// computes. On a card half as fast as an H200, the busiest stage waits for at most a tenth of the step, even
// at 1 Gbit/s.
#define HALF "h200-141g,bf16_flops_per_s=4.945e14"
static void a_pipeline_hides_its_messages(void **state)
{
    (void)state;
    static const struct {
        const char *card, *interconnect;
        size_t head_chunk;
        double max; // that the busiest stage may wait, of a step
    } cases[] = {{HALF, "infiniband", 256, 0.031},
                 {HALF, "ethernet-10g", 256, 0.035},
                 {HALF, "wide-area", 256, 0.1},
                 // A head that reads its weights less often is no stage's longest work.
                 {"h200-141g", "ethernet-10g", 2048, 0.03}};
    for (size_t i = 0; i < COUNT(cases); i += stride()) {
        char *json;
        assert_true(asprintf(&json,
                             "{'model': 'llama-3-8b', 'context': 1048576, 'dtype': 'bf16', 'device': 'plan', "
                             "'method': {'name': 'seco', 'chunk': 2048, 'head_chunk': %zu}, 'parallel': {'stage': "
                             "8}, 'profile': '%s', 'interconnect': '%s'}",
                             cases[i].head_chunk, cases[i].card, cases[i].interconnect) > 0);
        json_t *record = record_of(json), *ranks = json_object_get(record, "ranks");
        for (size_t r = 0; r < 8; r++)
            assert_true(item(ranks, "sent_bytes", r) == (r == 0 || r == 7 ? 1 : 2) * 1048576.0 * 4096 * 2);
        if (!(min_idle(ranks) <= cases[i].max))
            fail_msg("%s: %g", cases[i].interconnect, min_idle(ranks));
        json_decref(record);
        free(json);
    }
}

// Qwen3-8B, all weights trained by AdamW, over a million tokens on eight cards of 80 GB: less than the 56.2 GB of
// each that TRL's guide reports; its keys and values are on the host, as the guide's inputs are.
static void eight_cards_hold_a_million_tokens(void **state)
{
    (void)state;
    json_t *record =
        record_of("{'model': 'qwen3-8b', 'context': 1048576, 'dtype': 'bf16', 'gradient_dtype': 'bf16', "
                  "'device': 'plan', 'optimizer': 'adamw', 'profile': 'h100-80g', 'parallel': {'stage': "
                  "8}, 'method': {'name': 'seco', 'chunk': 4096, 'offload': ['kv']}}");
    assert_true(number(record, "peak_bytes") < 56.2e9 && number(record, "host_peak_bytes") < 65e9);
    assert_true(number(record, "estimate_ms") > 0);
    json_decref(record);
}

// Llama-3-8B: every weight comes twice and every gradient goes once, but for the embedding and the head, which come
// once: 56.2 GB a rank less those, and not once for every chunk.
static void zero_3_gathers_a_row_once_a_pass(void **state)
{
    (void)state;
    json_t *record =
        record_of("{'model': 'llama-3-8b', 'context': 131072, 'batch': 8, 'dtype': 'bf16', 'device': "
                  "'plan', 'method': {'name': 'streambp', 'chunk': 2048}, 'parallel': {'data': 8, 'zero': 3}}");
    double weights = 8030261248.0, ends = 2 * 128256 * 4096.0 + 4096; // and the last norm
    double expected = (weights * (2 + 2 + 4) - ends * 2) * 7 / 8;
    assert_true(expected < 56.2e9);
    for (size_t r = 0; r < 8; r++)
        assert_true(fabs(item(json_object_get(record, "ranks"), "sent_bytes", r) - expected) <= 1e-4 * expected);
    json_decref(record);
}

// StreamBP's Table 4: as many cards hold the contexts that it reports, a sequence each, with AdamW under ZeRO 2.
static void cards_hold_the_published_contexts(void **state)
{
    (void)state;
    struct published published;
    struct status status = {0};
    size_t held = 0;
    assert_true(published_load(&published, "experiments/published", &status));
    const struct published_file *file = published_find(&published, "streambp-table4", PUBLISHED_MAX_CONTEXT);
    assert_non_null(file);
    for (const struct published_point *point = file->points; point < file->points + file->count; point++) {
        char *json;
        if (strcmp(point->method, "streambp") != 0)
            continue;
        assert_true(
            asprintf(&json,
                     "{'model': '%s', 'context': %.0f, 'batch': %zu, 'dtype': 'bf16', 'gradient_dtype': "
                     "'bf16', 'device': 'plan-cuda', 'profile': '%s', 'method': {'name': 'streambp', "
                     "'chunk': 500, 'head_chunk': 100}, 'optimizer': {'name': 'adamw', 'master': 'f32', "
                     "'state': 'f32'}, 'parallel': {'data': %zu, 'zero': 2}, 'limits': {'memory': '84642103296B'}}",
                     point->model, point->value, point->cards, point->profile, point->cards) > 0);
        json_t *record = record_of(json); // ok, not oom
        assert_true(number(record, "peak_bytes") <= 84642103296.0);
        held++;
        json_decref(record);
        free(json);
    }
    assert_int_equal(held, 6);
    published_free(&published);
}

// Between nodes goes what a node has to say, and not what each of its ranks has: on two levels of links the sums
// take less time, in as many bytes.
static void nodes_spare_the_links_between_them(void **state)
{
    (void)state;
    double ms[2], sent[2];
    for (size_t i = 0; i < 2; i++) {
        char *json;
        assert_true(
            asprintf(&json,
                     "{'model': 'llama-3-8b', 'context': 1024, 'batch': 32, 'dtype': 'bf16', 'device': "
                     "'plan', 'method': {'name': 'streambp', 'chunk': 1024}, 'parallel': {'data': 32, 'node': "
                     "%d}, 'profile': 'h200-141g', 'interconnect': 'nvlink-100g'}",
                     i ? 8 : 1) > 0);
        json_t *record = record_of(json);
        ms[i] = number(record, "estimate_ms");
        sent[i] = item(json_object_get(record, "ranks"), "sent_bytes", 0);
        json_decref(record);
        free(json);
    }
    // 2 (31 / 32) W bytes; or 2 (7 / 8 + 3 / 32) W, which is as much.
    assert_true(fabs(sent[1] - sent[0]) <= 1e-4 * sent[0]);
    assert_true(ms[1] < 0.5 * ms[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipeline_hides_its_messages),      cmocka_unit_test(eight_cards_hold_a_million_tokens),
        cmocka_unit_test(zero_3_gathers_a_row_once_a_pass),   cmocka_unit_test(cards_hold_the_published_contexts),
        cmocka_unit_test(nodes_spare_the_links_between_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
