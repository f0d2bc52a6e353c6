// Finish times of ranks from their exchanges: messages, collectives and levels of links by hand, a pipeline over
// chunks against its closed form, and ranks that wait for each other.
#include "harness/plan/rank_times.h"
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define RANKS_MAX    16

// A rank's trace as it would be noted, with times of its own.
struct teller {
    struct device device;
    struct trace trace;
};

static void compute(struct teller *teller, double seconds)
{
    teller->device.counters.clock_s[QUEUE_COMPUTE] += seconds;
}

static size_t start(struct teller *teller, enum trace_kind kind, size_t peer, double bytes)
{
    return trace_add(&teller->trace, &teller->device,
                     (struct trace_event){.kind = kind, .peer = peer, .sent_bytes = bytes});
}

static void finish(struct teller *teller, size_t event)
{
    trace_add(&teller->trace, &teller->device, (struct trace_event){.kind = TRACE_WAIT, .event = event});
}

static void say(struct teller *teller, enum trace_kind kind, size_t peer, double bytes)
{
    finish(teller, start(teller, kind, peer, bytes));
}

static size_t come(struct teller *teller, size_t stride, size_t size, double sent, double received)
{
    return trace_add(
        &teller->trace, &teller->device,
        (struct trace_event){
            .kind = TRACE_MEET, .stride = stride, .size = size, .sent_bytes = sent, .received_bytes = received});
}

static void meet(struct teller *teller, size_t stride, size_t size, double sent, double received)
{
    finish(teller, come(teller, stride, size, sent, received));
}

static struct interconnect interconnect_of(size_t ranks, double near_rate, double near_latency, double rate,
                                           double latency)
{
    struct interconnect interconnect = {.name = "test", .count = 2};
    interconnect.levels[0] = (struct link_level){
        .ranks = ranks, .bytes_per_s = {.value = near_rate}, .latency_s = {.value = near_latency}};
    interconnect.levels[1] = (struct link_level){.bytes_per_s = {.value = rate}, .latency_s = {.value = latency}};
    return interconnect;
}

static double times(struct teller *tellers, size_t count, const struct interconnect *interconnect,
                    struct timed_rank *ranks)
{
    double seconds;
    struct status status = {0};
    for (size_t r = 0; r < count; r++) {
        trace_end(&tellers[r].trace, &tellers[r].device);
        ranks[r] = (struct timed_rank){.rank = r, .source = r, .trace = &tellers[r].trace};
    }
    if (!rank_times(ranks, count, interconnect, &seconds, &status))
        fail_msg("%s", status.message);
    return seconds;
}

static void forget(struct teller *tellers, size_t count)
{
    for (size_t r = 0; r < count; r++)
        trace_free(&tellers[r].trace);
}

static void near(double found, double expected)
{
    if (!(found - expected <= 1e-12 * expected && expected - found <= 1e-12 * expected))
        fail_msg("found %.17g, expected %.17g", found, expected);
}

// Rank 0 sends after 1 s, rank 1 has room after 3 s: 2 s of bytes and a latency of 0.5 s. The next message, for
// which there is room before it is sent, begins at once, and the sender of that one does not wait.
static void a_message_takes_its_bytes_and_a_latency(void **state)
{
    (void)state;
    struct teller tellers[2] = {0};
    struct timed_rank ranks[2];
    struct interconnect interconnect = interconnect_of(8, 10, 0.5, 1, 7);
    compute(&tellers[0], 1);
    say(&tellers[0], TRACE_SEND, 1, 20);
    compute(&tellers[0], 1);
    start(&tellers[0], TRACE_SEND, 1, 40);
    compute(&tellers[0], 0.25);
    compute(&tellers[1], 3);
    say(&tellers[1], TRACE_RECEIVE, 0, 20);
    size_t second = start(&tellers[1], TRACE_RECEIVE, 0, 40);
    compute(&tellers[1], 1);
    finish(&tellers[1], second);
    near(times(tellers, 2, &interconnect, ranks), 6 + 4 + 0.5); // 5 s gone, 1 s computed, 4 s of bytes, there
    near(ranks[0].end_s, 6.25);
    near(ranks[0].busy_s, 2.25);
    near(ranks[1].end_s, 10.5);
    near(ranks[1].busy_s, 4);
    forget(tellers, 2);
}

// Two messages at once: the second begins when the first has gone.
static void a_link_carries_one_message_at_a_time(void **state)
{
    (void)state;
    struct teller tellers[2] = {0};
    struct timed_rank ranks[2];
    struct interconnect interconnect = interconnect_of(8, 10, 0.5, 1, 7);
    size_t taken[2];
    for (size_t i = 0; i < 2; i++) {
        start(&tellers[0], TRACE_SEND, 1, 20);
        taken[i] = start(&tellers[1], TRACE_RECEIVE, 0, 20);
    }
    finish(&tellers[1], taken[0]);
    compute(&tellers[1], 1);
    finish(&tellers[1], taken[1]);
    near(times(tellers, 2, &interconnect, ranks), 4.5);
    forget(tellers, 2);
}

// Four ranks in nodes of two: each has one neighbour in its node and two outside, so a third of the bytes stays in
// the node.
static void a_meeting_waits_for_the_last_and_takes_the_slowest_level(void **state)
{
    (void)state;
    struct teller tellers[4] = {0};
    struct timed_rank ranks[4];
    struct interconnect interconnect = interconnect_of(2, 100, 0.25, 10, 0.5);
    for (size_t r = 0; r < 4; r++) {
        compute(&tellers[r], (double)r);
        meet(&tellers[r], 1, 4, 60, 30);
        compute(&tellers[r], 1);
        meet(&tellers[r], 2, 2, 0, r < 2 ? 10 : 20); // the other of the same place in its node, and two groups
    }
    double first = 3 + 0.5 + 40 / 10.0, second = first + 1 + 0.5;
    near(times(tellers, 4, &interconnect, ranks), second + 20 / 10.0);
    near(ranks[0].end_s, second + 10 / 10.0);
    near(ranks[3].busy_s, 4);
    struct interconnect near_slow = interconnect_of(2, 1, 0.25, 10, 0.5);
    near(interconnect_seconds(&near_slow, 1, 0, 1, 4, 60, 30), 0.25 + 20);
    near(interconnect_seconds(&interconnect, 1, 0, 1, 2, 10, 60), 0.25 + 0.6); // all near
    near(interconnect_seconds(&interconnect, 5, 1, 4, 3, 10, 60), 0.5 + 6);    // all far
    assert_true(interconnect_seconds(&interconnect, 5, 5, 1, 1, 0, 0) == 0);
    forget(tellers, 4);
}

// Transfers of a rank overlap with its computation, and its links carry one exchange after another.
static void meetings_go_on_while_ranks_compute(void **state)
{
    (void)state;
    struct teller tellers[2] = {0};
    struct timed_rank ranks[2];
    struct interconnect interconnect = interconnect_of(8, 10, 0.5, 1, 7);
    for (size_t r = 0; r < 2; r++) {
        compute(&tellers[r], 1 + (double)r);
        size_t first = come(&tellers[r], 1, 2, 20, 0), second = come(&tellers[r], 1, 2, 40, 0);
        compute(&tellers[r], r ? 1 : 9);
        finish(&tellers[r], first);
        finish(&tellers[r], second);
        compute(&tellers[r], 1);
    }
    near(times(tellers, 2, &interconnect, ranks), 11); // rank 0 waits for nothing
    near(ranks[1].end_s, 2 + 0.5 + 2 + 0.5 + 4 + 1);   // the second begins when the first is done
    forget(tellers, 2);
}

// Rank 0's second meeting, whose other has come, begins when its first is done, for which another one is late.
static void links_are_taken_in_turn_by_groups(void **state)
{
    (void)state;
    struct teller tellers[4] = {0};
    struct timed_rank ranks[4];
    struct interconnect interconnect = interconnect_of(8, 10, 0.5, 1, 7);
    for (size_t r = 0; r < 4; r++) {
        compute(&tellers[r], r == 1 ? 5 : 0);
        size_t neighbours = come(&tellers[r], 1, 2, 5, 5), others = come(&tellers[r], 2, 2, 5, 5);
        finish(&tellers[r], neighbours);
        compute(&tellers[r], 0.25);
        finish(&tellers[r], others);
    }
    near(times(tellers, 4, &interconnect, ranks), 7);
    for (size_t r = 0; r < 4; r++)
        near(ranks[r].end_s, 7);
    forget(tellers, 4);
}

static double chunk_s(size_t chunk, bool growing)
{
    return growing ? 1 + 0.25 * (double)chunk : 1;
}

// seco over stages: all chunks' keys and values, left to right; from the right each rebuilt and walked back. The
// last one's forward is kept.
static void tell_stage(struct teller *teller, size_t s, size_t stages, size_t chunks, bool growing, double bytes)
{
    for (size_t c = 0; c < chunks; c++) {
        if (s > 0)
            say(teller, TRACE_RECEIVE, s - 1, bytes);
        compute(teller, chunk_s(c, growing));
        if (s + 1 < stages)
            say(teller, TRACE_SEND, s + 1, bytes);
    }
    for (size_t c = chunks; c-- > 0;) {
        compute(teller, c + 1 < chunks ? chunk_s(c, growing) : 0);
        if (s + 1 < stages)
            say(teller, TRACE_RECEIVE, s + 1, bytes);
        compute(teller, 2 * chunk_s(c, growing));
        if (s > 0)
            say(teller, TRACE_SEND, s - 1, bytes);
    }
}

// sum over chunks of 2 f + b, without the last one's second f, and f and b of the last for each stage more.
static void a_pipeline_takes_its_closed_form(void **state)
{
    (void)state;
    static const size_t stages[] = {1, 2, 3, 8, 16}, chunks[] = {4, 17, 128};
    struct interconnect interconnect = interconnect_of(8, DBL_MAX, 0, DBL_MAX, 0);
    for (size_t i = 0; i < COUNT(stages) * COUNT(chunks) * 2; i++) {
        size_t S = stages[i / 2 % COUNT(stages)], K = chunks[i / 2 / COUNT(stages)];
        bool growing = i % 2;
        struct teller tellers[RANKS_MAX] = {0};
        struct timed_rank ranks[RANKS_MAX];
        double last = chunk_s(K - 1, growing), expected = -last + (double)(S - 1) * 3 * last;
        for (size_t s = 0; s < S; s++)
            tell_stage(&tellers[s], s, S, K, growing, 1);
        for (size_t c = 0; c < K; c++)
            expected += 4 * chunk_s(c, growing);
        near(times(tellers, S, &interconnect, ranks), expected);
        near(ranks[0].busy_s, expected - (double)(S - 1) * 3 * last);
        forget(tellers, S);
    }
}

static void ranks_that_wait_for_each_other_are_told(void **state)
{
    (void)state;
    struct teller tellers[2] = {0};
    struct interconnect interconnect = interconnect_of(8, 1, 0, 1, 0);
    struct timed_rank ranks[2];
    struct status status = {0};
    double seconds;
    for (size_t r = 0; r < 2; r++) {
        say(&tellers[r], TRACE_RECEIVE, 1 - r, 1);
        say(&tellers[r], TRACE_SEND, 1 - r, 1);
        ranks[r] = (struct timed_rank){.rank = r, .source = r, .trace = &tellers[r].trace};
    }
    assert_false(rank_times(ranks, 2, &interconnect, &seconds, &status));
    assert_string_equal(status.message, "the ranks wait for each other");
    say(&tellers[1], TRACE_SEND, 0, 1);
    status = (struct status){0};
    assert_false(rank_times(ranks, 2, &interconnect, &seconds, &status));
    assert_string_equal(status.message, "rank 1 sends rank 0 2 messages, which takes 1");
    forget(tellers, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_takes_its_bytes_and_a_latency),
        cmocka_unit_test(a_link_carries_one_message_at_a_time),
        cmocka_unit_test(a_meeting_waits_for_the_last_and_takes_the_slowest_level),
        cmocka_unit_test(meetings_go_on_while_ranks_compute),
        cmocka_unit_test(links_are_taken_in_turn_by_groups),
        cmocka_unit_test(a_pipeline_takes_its_closed_form),
        cmocka_unit_test(ranks_that_wait_for_each_other_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
