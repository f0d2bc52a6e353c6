// Replicas: ranks that take some of the sequences each, or of their tokens, against one that takes all, with
// everything whole and at every level of ZeRO: gradients and losses, bytes and peaks as planned, and by closed
// forms. Started by itself this program starts itself under mpirun, with 2, 3 and 4 ranks.
#include "tests/replica_checks.h"

static void check_replicas(const struct method *method, const struct setting *s, size_t replicas, size_t stages)
{
    check_split(method, s,
                (struct split){replicas, 1, stages, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1}, ALL);
}

// Whether this number of ranks tests a setting and method: each number tests others.
static bool is_tried(size_t combination)
{
    return is_chosen(combination + world.comm.size, 6);
}

// Null has no gradient.
static bool takes_replicas(const struct method *method)
{
    return (method->exact || method->draw) && method->parallel & PARALLEL_DATA;
}

// Losses of routers need counts of all tokens before the first backward.
static bool takes_losses(const struct method *method, const struct setting *s)
{
    return !router_losses_any(&s->losses) || !method->check_sums || option_find(&method->options, "loss");
}

static void gradients_are_those_of_one_rank(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {.options = "chunk=7 head_chunk=5 budget=2"},
        {.options = "chunk=7 budget=3", .masked = true},
        {.options = "chunk=64 keep=all budget=1", .tied = true, .masked = true},
        {.options = "chunk=5 budget=2", .qk_norm = true, .documents = true},
        {.options = "chunk=6 budget=2", .lora = true, .qk_norm = true},
        {.options = "chunk=6 budget=2", .lora = true, .tied = true, .dtype = DTYPE_F32},
        {.options = "chunk=4 segments=2 budget=2", .tied = true, .documents = true},
        {.options = "chunk=7 budget=2", .dtype = DTYPE_F32, .tied = true},
        {.options = "chunk=7 budget=2", .dtype = DTYPE_BF16},
        {.options = "chunk=7 budget=3 loss=all deferral=1", .experts = 6, .losses = {.aux = 0.7, .z = 0.02}},
        {.options = "chunk=5 budget=2 loss=all deferral=1",
         .experts = 7,
         .losses = {.aux = 0.5, .form = ROUTER_LOSS_SEQUENCE}},
        {.options = "chunk=9 budget=2", .lora = true, .documents = true, .masked = true, .qk_norm = true},
        {.options = "chunk=2 budget=1", .lora = true, .masked = true, .tied = true, .context = 3, .sequences = 5},
    };
    size_t possible = 0;
    for (size_t m = 0; methods[m]; m++) {
        for (size_t i = 0; takes_replicas(methods[m]) && i < sizeof settings / sizeof *settings; i++) {
            if (is_tried(m + i) && takes_losses(methods[m], &settings[i]))
                check_replicas(methods[m], &settings[i], world.comm.size, 1);
            possible++;
        }
    }
    assert_true(possible >= 5 * sizeof settings / sizeof *settings);
    const struct setting streamed = {.options = "chunk=4 offload=inputs", .masked = true, .qk_norm = true};
    check_replicas(method_find("streambp"), &streamed, world.comm.size, 1);
    check_replicas(method_find("checkpoint"), &streamed, world.comm.size, 1);
}

// Replicas of stages.
static void products_are_those_of_one_rank(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {.options = "chunk=4 budget=2"},
        {.options = "chunk=7 budget=3", .tied = true, .masked = true},
        {.options = "chunk=5 budget=2", .lora = true, .documents = true},
        {.options = "chunk=5 budget=2 loss=all deferral=1",
         .experts = 7,
         .losses = {.aux = 0.6, .z = 0.01, .form = ROUTER_LOSS_LAYER}},
    };
    for (size_t m = 0; world.comm.size == 4 && methods[m]; m++) {
        bool both = takes_replicas(methods[m]) && methods[m]->parallel & PARALLEL_STAGE;
        for (size_t i = 0; both && i < sizeof settings / sizeof *settings; i++)
            if (takes_losses(methods[m], &settings[i]))
                check_replicas(methods[m], &settings[i], 2, 2);
    }
}

// Ranks with some of the experts each, of replicas and of stages.
static void shared_experts_are_those_of_one_rank(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {.options = "chunk=7 budget=3 loss=all",
         .experts = 6,
         .expert_count = 8,
         .losses = {.aux = 0.7, .z = 0.02}},
        {.options = "chunk=5 budget=2", .experts = 7, .expert_count = 4, .masked = true, .biases = true},
        {.options = "chunk=6 budget=2", .experts = 5, .expert_count = 4, .lora = true, .documents = true},
        // The highest layer alone: choices above others would be of inputs that are rounded otherwise.
        {.options = "chunk=64 keep=all", .experts = 4, .expert_count = 12, .dtype = DTYPE_BF16, .biases = true},
        {.options = "chunk=6 budget=2 loss=all",
         .experts = 7,
         .expert_count = 4,
         .losses = {.aux = 0.5, .form = ROUTER_LOSS_SEQUENCE}},
    };
    size_t P = world.comm.size, count = sizeof settings / sizeof *settings, possible = 0;
    for (size_t m = 0; P != 3 && methods[m]; m++) {
        bool stages = methods[m]->parallel & PARALLEL_STAGE;
        for (size_t i = 0; takes_replicas(methods[m]) && i < count; i++, possible++) {
            if (!is_chosen(m + i, 3) || !takes_losses(methods[m], &settings[i]))
                continue;
            for (size_t experts = 2; experts <= P; experts *= 2)
                check_split(methods[m], &settings[i],
                            (struct split){P, 1, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, experts},
                            m == i ? ALL : ENDS);
            if (stages && P == 4 && i > 0)
                check_split(methods[m], &settings[i],
                            (struct split){2, 1, 2, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 2}, ENDS);
        }
    }
    assert_true(P == 3 || possible >= 5 * count);
}

// A row that comes from the host chunk by chunk is not attended to as a whole.
static bool takes_exchange(const struct method *method, const struct setting *s, enum exchange exchange,
                           size_t ranks)
{
    const struct fixture f = fixture_of(s);
    bool by_chunk = option_find(&method->options, "chunk") && strstr(s->options, "offload");
    bool shares = true;
    for (size_t l = 0; l < f.config.layers; l++) {
        const struct mixer *mixer = config_mixer(&f.config, l);
        struct status status = {0};
        shares &= mixer->shares(&f.config, l, exchange, ranks, &status);
        shares &= !by_chunk || !mixer->sends(exchange);
    }
    return method->parallel & PARALLEL_SEQUENCE && shares;
}

enum { GEMMA2 = 4, GPT_OSS, QWEN3_NEXT, DEEPSEEK = 11, KIMI }; // families

// Ranks that have some of the tokens each of the same sequences; of as many as there are, and of products with
// sequences.
static void shared_sequences_are_those_of_one_rank(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {.options = "chunk=4 head_chunk=5", .sequences = 2, .masked = true},
        {.options = "chunk=3", .sequences = 1, .context = 3, .tied = true},
        {.options = "chunk=5", .sequences = 3, .documents = true, .qk_norm = true, .masked = true},
        {.options = "chunk=64 keep=all", .sequences = 1, .window = 6, .qk_norm = true},
        {.options = "chunk=6", .sequences = 2, .lora = true, .qk_norm = true},
        {.options = "chunk=4 segments=2", .sequences = 2, .window = 9, .documents = true, .tied = true},
        {.options = "chunk=4 offload=inputs segments=2", .sequences = 2, .masked = true},
        {.options = "chunk=4 attention=kept", .sequences = 2, .documents = true, .qk_norm = true},
        {.options = "chunk=3 attention=kept segments=2", .sequences = 1, .context = 3, .masked = true},
        {.options = "chunk=9", .sequences = 3, .lora = true, .documents = true, .masked = true, .window = 9},
        {.options = "chunk=2", .sequences = 3, .lora = true, .masked = true, .tied = true, .context = 3},
        {.options = "chunk=7", .sequences = 2, .dtype = DTYPE_F32, .tied = true},
        {.options = "chunk=7", .sequences = 2, .dtype = DTYPE_BF16},
        {.options = "chunk=5", .sequences = 2, .documents = true, .family = GEMMA2},
        {.options = "chunk=6", .sequences = 3, .family = GPT_OSS},
        {.options = "chunk=5 attention=kept", .sequences = 2, .masked = true, .family = GPT_OSS},
        {.options = "chunk=5 keep=all", .sequences = 2, .lora = true, .family = QWEN3_NEXT},
        {.options = "chunk=4", .sequences = 1, .context = 3, .family = QWEN3_NEXT},
        {.options = "chunk=5", .sequences = 2, .delta = 5, .family = QWEN3_NEXT, .masked = true},
        {.options = "chunk=4 attention=kept segments=2", .sequences = 3, .delta = 6, .documents = true},
        {.options = "chunk=6 keep=all", .sequences = 2, .delta = 7, .lora = true, .qk_norm = true},
        {.options = "chunk=2", .sequences = 1, .delta = 3, .context = 3, .tied = true},
        {.options = "chunk=2", .sequences = 2, .delta = 6, .context = 5},
        {.options = "chunk=5", .sequences = 2, .family = DEEPSEEK, .masked = true},
        {.options = "chunk=6 keep=all", .sequences = 3, .family = DEEPSEEK, .documents = true},
        {.options = "chunk=4 attention=kept segments=2", .sequences = 2, .family = KIMI, .delta = 2},
        {.options = "chunk=2", .sequences = 1, .family = DEEPSEEK, .context = 3, .lora = true},
        {.options = "chunk=7", .sequences = 2, .family = KIMI, .dtype = DTYPE_BF16},
        {.options = "chunk=5", .sequences = 2, .experts = 7, .losses = {.aux = 0.7, .z = 0.02}},
        {.options = "chunk=6", .sequences = 3, .experts = 3, .losses = {.aux = 0.5, .form = ROUTER_LOSS_SEQUENCE}},
    };
    size_t possible = 0, P = world.comm.size;
    for (size_t m = 0; methods[m]; m++) {
        for (size_t i = 0; methods[m]->exact && i < sizeof settings / sizeof *settings; i++) {
            for (enum exchange exchange = EXCHANGE_GATHER; exchange < EXCHANGE_COUNT; exchange++) {
                if (!takes_exchange(methods[m], &settings[i], exchange, P))
                    continue;
                possible++;
                bool short_states = settings[i].delta && settings[i].context; // pieces of a token, and of none
                if (!is_tried(m + i + exchange) && !short_states)
                    continue;
                struct split split = {1, P, 1, ZERO_NOTHING, exchange, SUM_ORDERED, false, 1, 1};
                struct split both = {2, 2, 1, ZERO_NOTHING, exchange, SUM_ORDERED, false, 1, 1};
                check_split(methods[m], &settings[i], split, i == 0 ? ALL : i < 5 || short_states ? ENDS : FIRST);
                if (P == 4 && settings[i].sequences > 1)
                    check_split(methods[m], &settings[i], both, ENDS);
            }
        }
    }
    size_t exchanges = P == 3 ? 2 : 3; // 4 heads; at least three methods, and one offload less
    assert_true(possible >= 3 * exchanges * sizeof settings / sizeof *settings - (exchanges - 1));
    const struct setting streamed = {.options = "chunk=4 offload=inputs,input_gradients",
                                     .sequences = 2,
                                     .context = 3,
                                     .tied = true,
                                     .qk_norm = true};
    check_split(method_find("streambp"), &streamed,
                (struct split){1, P, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1}, ENDS);
}

// Codes of weights are kept in shares and come as such, with sums in their order and with overlap.
static void quantised_weights_are_shared(void **state)
{
    (void)state;
    static const struct setting nf4 = {
        .options = "chunk=6", .lora = true, .quantisation = QUANTISATION_NF4, .qk_norm = true};
    static const struct setting int8 = {
        .options = "", .lora = true, .quantisation = QUANTISATION_INT8, .dtype = DTYPE_BF16};
    struct split split = {world.comm.size, 1, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1};
    check_split(method_find("streambp"), &nf4, split, ENDS);
    check_split(method_find("checkpoint"), &int8, split, ENDS);
    check_overlap(method_find("checkpoint"), &int8, split);
}

// Sums and gathers within nodes first, of sequences and of tokens.
static void nodes_sum_first(void **state)
{
    (void)state;
    static const struct setting setting = {.options = "chunk=7", .masked = true};
    static const struct setting factors = {
        .options = "chunk=6", .lora = true, .quantisation = QUANTISATION_NF4, .tied = true, .dtype = DTYPE_F32};
    static const struct split splits[] = {{4, 1, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 2, 1},
                                          {2, 2, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 2, 1}};
    for (size_t i = 0; world.comm.size == 4 && i < sizeof splits / sizeof *splits; i++) {
        check_split(method_find("streambp"), &setting, splits[i], ALL);
        check_split(method_find("full"), &factors, splits[i], ENDS);
    }
    if (world.comm.size == 4)
        check_split(method_find("seco"), &setting, splits[0], ALL);
}

// Sums that are the library's own: those of one rank but for their order, which no device adds in.
static void engines_sum_gradients(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {.options = "chunk=7 budget=2", .masked = true},
        {.options = "chunk=6 budget=2", .lora = true, .tied = true, .dtype = DTYPE_F32},
    };
    size_t P = world.comm.size, checked = 0;
    for (size_t m = 0; methods[m]; m++) {
        for (size_t i = 0; takes_replicas(methods[m]) && i < sizeof settings / sizeof *settings; i++) {
            check_split(methods[m], &settings[i],
                        (struct split){P, 1, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ENGINE, false, 1, 1}, ALL);
            checked++;
        }
    }
    assert_true(checked >= 10);
    if (P == 4) {
        struct split stages = {2, 1, 2, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ENGINE, false, 1, 1};
        struct split tokens = {2, 2, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ENGINE, false, 1, 1};
        check_split(method_find("seco"), &settings[0], stages, ALL);
        check_split(method_find("streambp"), &settings[0], tokens, ENDS);
    }
    uint64_t launches[2];
    for (enum sum sum = SUM_ORDERED; sum <= SUM_ENGINE; sum++) {
        struct fixture f = fixture_of(&settings[0]);
        struct ranks ranks;
        open_replica(&f, &ranks, (struct split){P, 1, 1, ZERO_GRADIENTS, EXCHANGE_GATHER, sum, false, 1, 1});
        launches[sum] = step_of(&f.trainer, &f.batch, method_find("full"), "").counters.launches;
        fixture_close(&f);
    }
    assert_true(launches[SUM_ENGINE] < launches[SUM_ORDERED]);
}

// Sums and gathers that go on while the next row is computed: of tokens, of which some ranks have none, and of
// sequences.
static void overlap_keeps_the_bits(void **state)
{
    static const struct setting tokens[] = {
        {.options = "chunk=4 segments=2", .sequences = 2, .documents = true},
        {.options = "chunk=1", .sequences = 1, .context = 3, .tied = true, .dtype = DTYPE_F32},
    };
    static const struct setting sequences[] = {
        {.options = "chunk=7 budget=2", .masked = true, .tied = true},
        {.options = "chunk=6 budget=2", .sequences = 4, .lora = true, .dtype = DTYPE_BF16},
    };

    size_t P = world.comm.size, checked = 0;
    (void)state;
    for (size_t m = 0; methods[m]; m++) {
        for (enum exchange exchange = EXCHANGE_GATHER; exchange < EXCHANGE_COUNT; exchange++) {
            const struct setting *setting = &tokens[(m + exchange) % 2];
            if (takes_exchange(methods[m], setting, exchange, P)) {
                check_overlap(methods[m], setting,
                              (struct split){1, P, 1, ZERO_NOTHING, exchange, SUM_ORDERED, false, 1, 1});
                checked++;
            }
        }
        if (takes_replicas(methods[m])) {
            check_overlap(methods[m], &sequences[m % 2],
                          (struct split){P, 1, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1});
            checked++;
        }
    }
    assert_true(checked >= (P == 3 ? 10 : 12)); // 4 heads
    check_overlap(method_find("streambp"), &sequences[0],
                  (struct split){P, 1, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ENGINE, false, 1, 1});
    if (P == 4) {
        struct split stages = {2, 1, 2, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1};
        struct split both = {2, 2, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1};
        check_overlap(method_find("seco"), &sequences[0], stages);
        check_overlap(method_find("streambp"), &tokens[0], both);
    }
}

// Every objective: what it divides by is of all ranks, pairs stay together, and sums, which are in f64 in every
// dtype, are over ranks that share their sequences.
static void objectives_are_of_the_whole_step(void **state)
{
    (void)state;
    struct fixture f = {0};
    for (size_t i = 0; fixture_choose_objective(&f, i); i++) {
        struct setting s = {.options = "chunk=9", .masked = true, .objective = f.objective, .settings = f.settings};
        struct split data = {world.comm.size, 1, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1};
        struct split sequence = {1, world.comm.size, 1, ZERO_NOTHING, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1};
        if (is_tried(i))
            check_split(method_find("streambp"), &s, data, ENDS);
        if (is_tried(i + 1)) {
            static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F64};
            s.sequences = 4;
            s.dtype = dtypes[(i + world.comm.size) % 3];
            check_split(method_find("streambp"), &s, sequence, FIRST);
        }
    }
}

static void a_row_is_gathered_once_per_pass(void **state)
{
    (void)state;
    struct fixture f = fixture_of(&(struct setting){0});
    struct ranks ranks;
    struct uses uses = {.listener = {.acquire = count_use}};
    open_replica(&f, &ranks,
                 (struct split){world.comm.size, 1, 1, ZERO_WEIGHTS, EXCHANGE_GATHER, SUM_ORDERED, false, 1, 1});
    f.model.listener = &uses.listener;
    step_of(&f.trainer, &f.batch, method_find("streambp"), "chunk=2");
    for (size_t unit = 0; unit < unit_count(&f.model); unit++) {
        bool layer = unit >= unit_of_layer(0) && unit < unit_of_head(&f.model);
        assert_int_equal(uses.count[unit], layer ? 2 : 1);
    }
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {2, 3, 4};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_one_rank),
        cmocka_unit_test(products_are_those_of_one_rank),
        cmocka_unit_test(shared_experts_are_those_of_one_rank),
        cmocka_unit_test(shared_sequences_are_those_of_one_rank),
        cmocka_unit_test(quantised_weights_are_shared),
        cmocka_unit_test(nodes_sum_first),
        cmocka_unit_test(engines_sum_gradients),
        cmocka_unit_test(overlap_keeps_the_bits),
        cmocka_unit_test(objectives_are_of_the_whole_step),
        cmocka_unit_test(a_row_is_gathered_once_per_pass),
    };
    if (argc > 1)
        return open_world() && cmocka_run_group_tests(tests, NULL, NULL) == 0 ? close_world() : 1;
    return start_all(argv[0], counts, sizeof counts / sizeof *counts);
}
