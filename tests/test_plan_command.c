// Plans through the harness and the program: records of planned trials equal measured ones, peaks grow as the
// methods' floors say, and bad input is refused.
#define _GNU_SOURCE // asprintf
#include "harness/options/flags.h"
#include "harness/record/result_file.h"
#include "tests/asked.h"
#include "tests/scratch.h"

static void a_planned_record_is_the_measured_one(void **state)
{
    (void)state;
    static const char *const trials[] = {
        "'method': 'full', 'optimizer': 'adamw'",
        "'method': {'name': 'seco', 'chunk': 30}, 'lora': {'rank': 2}, 'batch': 2",
        "'method': {'name': 'spaco', 'chunk': 16, 'budget': 2}, 'dtype': 'f64'",
        // Draws of 1 and 3, of no and 3, of 4 and no chunks: the figures are the first one's, whatever comes
        // later.
        "'method': {'name': 'spaco', 'chunk': 16, 'budget': 2, 'sampler': 'bernoulli', 'sampler_seed': 1}",
        "'method': {'name': 'spaco', 'chunk': 16, 'budget': 2, 'sampler': 'bernoulli', 'sampler_seed': 2}",
        "'method': {'name': 'spaco', 'chunk': 16, 'budget': 2, 'sampler': 'bernoulli', 'sampler_seed': 3}",
        "'method': {'name': 'streambp', 'chunk': 33}, 'data': {'text': 'Makefile'}, 'optimizer': 'adamw'",
        "'method': {'name': 'seco', 'chunk': 30}, 'dtype': 'bf16', 'kv_gradient_dtype': 'bf16'",
        "'method': {'name': 'checkpoint', 'offload': ['inputs']}, 'limits': {'host_memory': '1MiB'}",
        "'method': {'name': 'seco', 'chunk': 30}, 'lora': {}, 'weights': 'int8', 'optimizer': 'adamw'",
        "'method': {'name': 'spaco', 'chunk': 30, 'budget': 2, 'offload': ['weights']}, 'lora': {}, 'weights': "
        "'nf4', 'dtype': 'bf16'",
        "'method': {'name': 'streambp', 'offload': ['weights', 'gradients', 'optimizer']}, 'optimizer': 'adamw'",
    };
    static const char *const equal[] = {"peak_bytes",
                                        "peak_by_category",
                                        "resident_bytes",
                                        "lower_bound_bytes",
                                        "peak_over_bound",
                                        "flops",
                                        "model_flops",
                                        "bytes_moved",
                                        "launches",
                                        "drawn_chunks",
                                        "lower_bound_bytes_per_token",
                                        "host_peak_bytes",
                                        "host_peak_by_category",
                                        "link_out_bytes",
                                        "link_in_bytes"};
    for (size_t i = 0; i < COUNT(trials); i++) {
        char *json;
        json_t *records[2];
        for (size_t d = 0; d < 2; d++) {
            assert_true(asprintf(&json,
                                 "{'model': 'tiny', 'context': 100, 'device': '%s', 'measure': {'samples': 2}, %s}",
                                 d ? "plan-cpu" : "cpu", trials[i]) > 0);
            records[d] = record_of(json);
            free(json);
        }
        json_t *measured = records[0], *planned = records[1];
        for (size_t j = 0; j < COUNT(equal); j++) {
            json_t *a = json_object_get(planned, equal[j]), *b = json_object_get(measured, equal[j]);
            if (!(a && json_equal(a, b)) && strcmp(equal[j], "drawn_chunks") != 0)
                fail_msg("%s: %s differs", trials[i], equal[j]);
        }
        assert_int_equal(json_is_integer(json_object_get(measured, "host_peak_bytes")),
                         strstr(trials[i], "offload") != NULL);
        // The library that multiplies in bf16.
        const json_t *blas = json_object_get(json_object_get(measured, "provenance"), "blas");
        assert_int_equal(strstr(json_string_value(blas), "; bf16 ") != NULL, strstr(trials[i], "bf16") != NULL);
        assert_true(json_is_null(json_object_get(planned, "loss")));
        assert_true(json_is_null(json_object_get(planned, "gradient")));
        assert_true(json_is_null(json_object_get(planned, "median_ms")));
        assert_true(json_is_null(json_object_get(planned, "flops_per_s")));
        assert_true(json_is_null(json_object_get(planned, "model_flops_per_s")));
        assert_int_equal(json_array_size(json_object_get(planned, "samples_ms")), 0);
        assert_int_equal(json_array_size(json_object_get(measured, "samples_ms")), 2);
        assert_true(json_is_null(json_object_get(planned, "estimate_ms")));
        json_decref(measured);
        json_decref(planned);
    }
}

// Neither tokens nor weights are read, but the model's config is.
static void a_plan_needs_no_files(void **state)
{
    const struct scratch *scratch = *state;
    json_decref(record_of("{'model': 'tiny', 'context': 9, 'method': 'full', 'device': 'plan',"
                          " 'data': {'text': 'no/such'}, 'labels': 'no/such'}"));
    struct scratch_path model = scratch_path(scratch, "model");
    char *out, *arguments;
    assert_true(asprintf(&arguments, "init --model tiny --out %s", model.text) > 0);
    int code = longbp(&out, arguments);
    if (code != 0)
        fail_msg("%s: %s", arguments, out);
    free(arguments);
    free(out);
    struct scratch_path weights = scratch_path(scratch, "model/model.safetensors");
    assert_int_equal(remove(weights.text), 0);
    json_t *planned = longbp_json("plan --model %s --context 9 --json", model.text);
    json_t *preset = longbp_json("plan --model tiny --context 9 --json");
    assert_true(
        json_equal(json_object_get(planned, "peak_by_category"), json_object_get(preset, "peak_by_category")));
    json_decref(planned);
    json_decref(preset);
}

static void a_time_line_is_a_result_file(void **state)
{
    struct scratch_path path = scratch_path(*state, "timeline.jsonl");
    json_t *plan =
        longbp_json("plan --model tiny --context 100 --method seco --chunk 16 --timeline %s --json", path.text);
    struct result_file file;
    struct status status = {0};
    if (!result_file_read(&file, path.text, &status))
        fail_msg("%s", status.message);
    assert_int_equal(file.count, 1);
    const json_t *events = file.records[0].timeline->events, *event;
    double highest = 0;
    size_t i;
    json_array_foreach(events, i, event)
    {
        double live = 0;
        for (size_t c = 2; c < json_array_size(event); c++)
            live += json_number_value(json_array_get(event, c));
        highest = live > highest ? live : highest;
    }
    assert_true(highest == number(plan, "peak_bytes"));
    assert_int_equal(strncmp(file.records[0].command, "longbp plan --model tiny", 24), 0);
    result_file_close(&file);
    json_decref(plan);
}

// How the peak of Llama-3-8B grows per token, over what methods/README.md derives, between 32,768 and 65,536
// tokens.
static double growth_over_lower_bound(const char *method, const char *kv_gradients)
{
    double peak[2], min[2];
    for (size_t i = 0; i < 2; i++) {
        char *json;
        size_t context = 32768 << i;
        assert_true(asprintf(&json,
                             "{'model': 'llama-3-8b', 'dtype': 'bf16', 'lora': {'rank': 8}, 'device': 'plan',"
                             " 'kv_gradient_dtype': '%s', 'context': %zu, 'method': %s}",
                             kv_gradients, context, method) > 0);
        json_t *record = record_of(json);
        peak[i] = number(record, "peak_bytes");
        min[i] = number(record, "lower_bound_bytes_per_token") * (double)context;
        json_decref(record);
        free(json);
    }
    return (peak[1] - peak[0]) / (min[1] - min[0]);
}

// Whichever chunks are drawn: keys and values beyond the last of them are not kept.
static void no_draw_is_below_its_lower_bound(void **state)
{
    (void)state;
    static const char *const ways[] = {"", "'loss': 'all',", "'segments': 2,", "'sampler': 'bernoulli',"};
    for (size_t i = 0; i < 6 * COUNT(ways); i++) {
        char *json;
        assert_true(asprintf(&json,
                             "{'model': 'tiny', 'device': 'plan', 'context': 4096, 'method': {'name': 'spaco', "
                             "'chunk': 64, 'budget': 1, %s 'sampler_seed': %zu}}",
                             ways[i % COUNT(ways)], 1 + i / COUNT(ways)) > 0);
        json_t *record = record_of(json);
        double over = number(record, "peak_over_bound");
        if (!(over >= 1 && over < 2))
            fail_msg("%s: %g of its lower bound", json, over);
        json_decref(record);
        free(json);
    }
}

static void peaks_grow_as_the_lower_bounds_say(void **state)
{
    (void)state;
    static const struct {
        const char *method, *kv_gradients;
    } cases[] = {
        {"{'name': 'seco', 'chunk': 512}", "f32"},
        {"{'name': 'seco', 'chunk': 512}", "bf16"},
        {"{'name': 'streambp', 'chunk': 512}", "f32"},
        {"{'name': 'streambp', 'chunk': 512}", "bf16"},
        // Loss `all`: the cache reaches to the end, whatever is drawn.
        {"{'name': 'spaco', 'chunk': 512, 'budget': 8, 'loss': 'all'}", "f32"},
        {"{'name': 'spaco', 'chunk': 512, 'budget': 8, 'loss': 'all'}", "bf16"},
        {"'checkpoint'", "f32"},
        {"'checkpoint'", "bf16"},
        {"'full'", "f32"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        double ratio = growth_over_lower_bound(cases[i].method, cases[i].kv_gradients);
        if (!(ratio >= 1 && ratio <= 1.02))
            fail_msg("%s, gradients of keys and values in %s: %.4f", cases[i].method, cases[i].kv_gradients, ratio);
    }
}

// Llama-3-8B with LoRA at 131,072 tokens: what attention's backward moves between its blocks stays below what its
// operands and results are a few times over, and one run over the whole square has next to none, for its workspace.
static void the_glue_of_attention_is_planned(void **state)
{
    (void)state;
    static const struct {
        const char *how;
        double glue_max, workspace_min, workspace_max;
    } cases[] = {{"--method seco --chunk 2048", 6e12, 0, 0x1p29},
                 {"--method seco --chunk 512", 20e12, 0, 0x1p28},
                 {"--method full", 6e12, 0, 0x1p29},
                 {"--method full --whole-attention", 0.5e12, 8 * 0x1p30, 9 * 0x1p30},
                 {"--method checkpoint --whole-attention", 0.5e12, 8 * 0x1p30, 9 * 0x1p30}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *plan = longbp_json("plan --model llama-3-8b --context 131072 --dtype bf16 --like cuda "
                                   "--lora r=8,alpha=16,targets=q,v --json %s",
                                   cases[i].how);
        double glue = number(plan, "attention_glue_bytes");
        double workspace = number(json_object_get(plan, "peak_by_category"), "workspace");
        if (glue <= 0 || glue > cases[i].glue_max)
            fail_msg("%s: %.4g bytes of glue", cases[i].how, glue);
        if (workspace < cases[i].workspace_min || workspace > cases[i].workspace_max)
            fail_msg("%s: %.4g bytes of workspace", cases[i].how, workspace);
        json_decref(plan);
    }
    json_t *cpu = longbp_json("plan --model tiny --context 100 --like cpu --json");
    assert_true(json_is_null(json_object_get(cpu, "attention_glue_bytes")));
    json_decref(cpu);
    char *out;
    assert_int_equal(longbp(&out, "plan --model tiny --context 200 --dtype bf16"), 0);
    assert_non_null(strstr(out, "attention's glue"));
    free(out);
}

// L T B d e on the host, as much over the link in each direction; whether that fits, and what it costs.
static void the_host_is_planned(void **state)
{
    (void)state;
    const char *setting = "--model llama-3-8b --dtype bf16 --context 4096 --method checkpoint --offload inputs "
                          "--lora r=8,alpha=16,targets=q,v";
    const double kept = 32.0 * 4096 * 4096 * 2;
    json_t *plan = longbp_json("plan %s --profile rtx-3090 --host-memory 2GiB --json", setting);
    assert_true(number(plan, "host_peak_bytes") == kept);
    assert_true(number(json_object_get(plan, "host_peak_by_category"), "hidden_checkpoints") == kept);
    assert_true(number(plan, "link_out_bytes") == kept && number(plan, "link_in_bytes") == kept);
    assert_true(number(plan, "host_limit_bytes") == 0x1p31);
    assert_true(json_is_true(json_object_get(plan, "fits")));
    // Behind the operations but for the last copy out and the first one in, which nothing is beside.
    json_t *alone = longbp_json("plan --model llama-3-8b --dtype bf16 --context 4096 --method checkpoint "
                                "--lora r=8,alpha=16,targets=q,v --profile rtx-3090 --json");
    assert_true(json_is_null(json_object_get(alone, "host_peak_bytes")));
    assert_true(json_is_null(json_object_get(alone, "link_out_bytes")));
    assert_true(json_is_null(json_object_get(alone, "host_limit_bytes")));
    assert_true(number(alone, "limit_bytes") == 24577363149); // what the card's profile calls usable
    assert_true(near(number(plan, "estimate_ms"), number(alone, "estimate_ms")));
    assert_true(number(plan, "peak_bytes") < number(alone, "peak_bytes") - 29.0 * 4096 * 4096 * 2);
    json_decref(alone);
    json_decref(plan);
    plan = longbp_json("plan %s --host-memory 1GB --json", setting);
    assert_true(json_is_false(json_object_get(plan, "fits")));
    json_decref(plan);
    char *out;
    char arguments[256];
    snprintf(arguments, sizeof arguments, "plan %s --host-memory 1GB", setting);
    assert_int_equal(longbp(&out, arguments), 0);
    assert_non_null(strstr(out, "--host-memory"));
    assert_non_null(strstr(out, "73741824\n")); // 2^30 - 10^9 are missing
    free(out);
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"plan", "--model and --context are needed"},
        {"plan --model tiny", ": --context is needed"},
        {"plan --model tiny --context 0", "key \"context\": expected a whole number of tokens >= 1, found 0"},
        {"plan --model tniy --context 5", "did you mean \"tiny\"?"},
        {"plan --model tiny --context 5 --lora r=2,r=4",
         "key \"r\": expected a whole number >= 1, found a list of 2"},
        {"plan --model tiny --context 5 --like gpu",
         "--like: unknown word \"gpu\"; did you mean \"cuda\"? known words: cpu, cuda"},
        {"plan --model tiny --context 5 --memory-limit 3x",
         "--memory-limit: expected a size with its unit, such as 24GiB"},
        {"plan --model tiny --context 5 --memory-limit 24",
         "such as 24GiB (or 24G, the same), 80GB or 4096B, found \"24\""},
        {"plan --model tiny --context 5 --memory-limit 1GiB --reserve 1",
         "--reserve: expected 0 or a size with its unit"},
        {"plan --model tiny --context 5 --memory-limit 1GiB --reserve 1GiB",
         "--reserve 1.00 GiB takes all of the device's 1.00 GiB (--memory-limit); give a smaller one, or 0"},
        {"plan --model tiny --context 5 --reserve 1GiB", "give --memory-limit or --profile"},
        {"plan --model tiny --context 5 --profile rtz-3090", "did you mean \"rtx-3090\"?"},
        {"plan --model tiny --context 5 --chunk 3", "method \"full\" has no such option"},
        {"plan --model tiny --context 5 --method spaco", "spaco requires a budget"},
        {"plan --model tiny --context 5 --method spaco --sampler fixed", "sampler \"fixed\" needs drawn_chunks"},
        {"plan --model tiny --context 5 --optimizer adamw,chunk=3", "key \"chunk\": unknown key of optimizer"},
        {"plan --model tiny --context 5 --optimizer adam,rate=3", "unknown optimizer \"adam\""},
        {"plan --model tiny --context 5 --optimizer adamw,rate=-3", "key \"rate\": expected a number from 0"},
        {"plan --model tiny --context 5 --timeline /no/such/file",
         "/no/such/file: cannot write to its folder /no/such: No such file"},
        {"plan --model tiny --context 5 --device cpu", "unknown option --device"},
        {"grad --model tiny --context 5 --out /dev/null --memory-limit 24",
         "key \"memory\": expected a size with its unit"},
        {"plan --model tiny --context 5 --host-memory 24", "key \"host_memory\": expected a size with its unit"},
        {"max-context --model tiny", "--memory-limit or --profile"},
        {"verify --model tinny", "did you mean \"tiny\""},
        {"max-context --memory-limit 1GiB", "--model is needed"},
        {"max-context --model tiny --memory-limit 0", "--memory-limit: expected a size"},
        {"max-context --model tiny --memory-limit 1GiB --methods seco,ful",
         "no method \"ful\"; did you mean \"full\"?"},
        {"max-context --model tiny --memory-limit 1GiB --methods al", "no method \"al\"; did you mean \"all\"?"},
        {"max-context --model tiny --memory-limit 1GiB --methods full --chunk 5",
         "--chunk: none of these methods has that option, but streambp, seco, spaco"},
        {"max-context --model tiny --memory-limit 1GiB --methods spaco", "spaco requires a budget"},
        {"max-context --model tiny --memory-limit 1GiB --chunk 0", "key \"chunk\": expected a whole number"},
        {"max-context --model tiny --memory-limit 1GiB --dtype f16", "unknown dtype \"f16\""},
        {"grad --model tiny --context 5 --device plan --out /dev/null", "--device plan-cpu computes no gradient"},
        {"grad --model tiny --context 5 --method forward --out /dev/null",
         "--method forward computes no gradient; take another, such as full"},
        {"verify --device plan-cpu", "--device plan-cpu computes no gradient"},
        {"verify --shape square", "no shape has \"square\" in its name; the first is \"whole chunks\""},
        {"verify --kv-gradient-dtype bf16", "--kv-gradient-dtype of a model in f64 is f64, not \"bf16\""},
        {"calibrate --out /no/such/file", "/no/such/file: cannot write to its folder /no/such: No such file"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *out;
        int code = longbp(&out, cases[i].arguments);
        if (code != 2 || !strstr(out, cases[i].message))
            fail_msg("%s: exit code %d, expected 2 and \"%s\": %s", cases[i].arguments, code, cases[i].message,
                     out);
        free(out);
    }
}

// In words: what is where, and that nothing goes out.
static void a_plan_says_what_is_kept_how(void **state)
{
    (void)state;
    char *out;
    assert_int_equal(longbp(&out, "plan --model tiny --context 16 --lora r=2 --weights nf4 "
                                  "--offload weights,gradients"),
                     0);
    assert_non_null(strstr(out, "full offload=weights,gradients, context 16"));
    free(out);
    assert_int_equal(longbp(&out, "plan --model tiny --context 16 --offload weights"), 0);
    assert_non_null(strstr(out, "  copied to the host            0 B                0\n"));
    assert_non_null(strstr(out, "  copied back             "));
    free(out);
    assert_int_equal(longbp(&out, "plan --model tiny --context 16 --offload weights --host-memory 1MiB"), 0);
    assert_non_null(strstr(
        out, "  does not fit, short      2.07 MiB          2167296  limits.host_memory\n")); // 4 * 803968 - 2^20
    free(out);
    assert_int_not_equal(longbp(&out, "plan --model tiny --context 16 --host /tmp 2>&1"), 0);
    assert_non_null(strstr(out, "expected folder=DIR, "));
    free(out);
    assert_int_equal(longbp(&out, "max-context --model tiny --lora r=2 --weights nf4 --offload weights "
                                  "--memory-limit 2MiB --methods full"),
                     0);
    assert_non_null(strstr(out, "LoRA rank 2, weights in nf4, f32"));
    free(out);
}

// Every method with gradients refuses to offload tensors that it does not keep, and names those that it keeps, or
// methods that do.
static void what_is_not_kept_is_said(void **state)
{
    (void)state;
    static const char *const places[] = {"inputs", "inputs,input_gradients", "kv"};
    for (size_t m = 0; methods[m]; m++) {
        const struct option *own = option_find(&methods[m]->options, "offload");
        for (size_t i = 0; !methods[m]->no_gradient && i < COUNT(places); i++) {
            char *out, *arguments;
            const char *comma = strchr(places[i], ',');
            bool kept = option_offers(own, comma ? comma + 1 : places[i]);
            assert_true(asprintf(&arguments, "plan --model tiny --context 64 --method %s %s --offload %s",
                                 methods[m]->name, option_find(&methods[m]->options, "budget") ? "--budget 1" : "",
                                 places[i]) > 0);
            int code = longbp(&out, arguments);
            if (code != (kept ? 0 : 2) || (!kept && !strstr(out, "methods that have it: ")) ||
                (own && !kept && !strstr(out, " has no offload \"")))
                fail_msg("%s: exit code %d: %s", arguments, code, out);
            free(arguments);
            free(out);
        }
    }
}

// A plan reports for the device and for the host whether it fits, and how much is missing.
static void a_plan_says_what_is_missing(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *limit, *missing, *peak;
    } places[] = {{"--memory-limit", "limit_bytes", "missing_bytes", "peak_bytes"},
                  {"--host-memory", "host_limit_bytes", "host_missing_bytes", "host_peak_bytes"}};
    for (size_t i = 0; i < COUNT(places); i++) {
        for (size_t low = 0; low < 2; low++) {
            json_t *plan =
                longbp_json("plan --model tiny --context 64 --method checkpoint --offload inputs %s %s --json",
                            places[i].flag, low ? "10000B" : "1GiB");
            double limit = number(plan, places[i].limit), peak = number(plan, places[i].peak);
            assert_true(json_is_true(json_object_get(plan, "fits")) == !low);
            assert_true(number(plan, places[i].missing) == (low ? peak - limit : 0));
            assert_true(json_is_null(json_object_get(plan, places[1 - i].missing)));
            json_decref(plan);
        }
    }
}

// A name and its options as a flag has them become what a spec has.
// A limit leaves the reserve out: by default that of the profile, of a limit that is given none. Planned bytes
// stay.
static void a_reserve_is_left_out(void **state)
{
    (void)state;
#define USABLE  25436356608.0 // of rtx-3090
#define RESERVE 858993459.0
    static const struct {
        const char *flags;
        double limit_bytes;
    } cases[] = {
        {"--profile rtx-3090", USABLE - RESERVE},
        {"--profile rtx-3090 --reserve 0", USABLE},
        {"--profile rtx-3090 --reserve 1GiB", USABLE - 0x1p30},
        {"--profile rtx-3090,reserve_bytes=1GiB", USABLE - 0x1p30},
        {"--profile rtx-3090 --memory-limit 1GiB", 0x1p30},
        {"--profile rtx-3090 --memory-limit 1GiB --reserve 256MiB", 0x1.8p29},
    };
    static const char *const commands[] = {"plan --context 64 --method full", "advise --context 64 --methods full",
                                           "max-context --methods forward",
                                           "max-batch --context 64 --methods forward"};
    double peak_bytes = 0;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t c = 0; c < (i == 2 ? COUNT(commands) : 1); c++) {
            json_t *said =
                c ? longbp_records(0, "%s --model tiny --like cuda %s --json", commands[c], cases[i].flags)
                  : longbp_json("%s --model tiny --like cuda %s --json", commands[c], cases[i].flags);
            const json_t *trial = json_object_get(json_array_get(said, 0), "trial");
            double limit = c ? number(json_object_get(trial, "limits"), "memory") : number(said, "limit_bytes");
            if (limit != cases[i].limit_bytes)
                fail_msg("%s %s: limit %.0f", commands[c], cases[i].flags, limit);
            if (c == 0) {
                assert_true(i == 0 || number(said, "peak_bytes") == peak_bytes);
                peak_bytes = number(said, "peak_bytes");
            }
            json_decref(said);
        }
#undef RESERVE
#undef USABLE
    char *out;
    assert_int_equal(longbp(&out, "plan --model tiny --context 64 --like cuda --profile rtx-3090"), 0);
    assert_non_null(strstr(out, "usable, profile rtx-3090, less --reserve 819.20 MiB"));
    free(out);
#define LONG                                                                                                       \
    "rtx-3090,bf16_flops_per_s=51e12,bandwidth_bytes_per_s=360e9,host_link_bytes_per_s=12e9,multiprocessors=28"
    assert_int_equal(longbp(&out, "plan --model tiny --context 64 --like cuda --profile " LONG), 0);
    assert_non_null(strstr(out, "usable, profile " LONG ", less --reserve 819.20 MiB\n"));
#undef LONG
    free(out);
}

// A processor's profile beside a card's bytes.
static void a_profile_of_another_kind_is_told(void **state)
{
    const struct scratch *scratch = *state;
#define OF(name, value) "\"" name "\": {\"value\": " value ", \"source\": \"s\"}"
    scratch_text(scratch, "host.json",
                 "{\"name\": \"host\", " OF("memory_bytes", "1e10") ", " OF("usable_bytes", "1e10") ", " OF(
                     "f32_flops_per_s", "1e11") ", " OF("bf16_flops_per_s",
                                                        "1e11") ", " OF("bandwidth_bytes_per_s",
                                                                        "1e10") ", " OF("launch_s", "1e-6") "}");
#undef OF
    char *arguments, *out;
    static const char *const cases[][2] = {{"--dtype bf16 --profile", "describes a processor"},
                                           {"--dtype bf16 --like cpu --profile", NULL},
                                           {"--dtype f32 --profile", NULL}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_true(asprintf(&arguments, "plan --model tiny --context 16 %s %s 2>&1", cases[i][0],
                             scratch_path(scratch, "host.json").text) > 0);
        assert_int_equal(longbp(&out, arguments), 0);
        assert_true(!strstr(out, " is planned for ") == !cases[i][1]);
        assert_true(!cases[i][1] || strstr(out, cases[i][1]));
        free(out);
        free(arguments);
    }
}

// Links that no estimate takes are told.
static void an_interconnect_without_a_use_is_told(void **state)
{
    (void)state;
#define LINKED "plan --model tiny --context 64 --batch 2 --interconnect infiniband "
    static const struct {
        const char *command, *told; // NULL: nothing
    } cases[] = {
        {LINKED, "interconnect infiniband is not used: requires several ranks: give --parallel"},
        {LINKED "--profile rtx-3090 --like cuda", "interconnect infiniband is not used: requires several ranks"},
        {LINKED "--parallel data=2", "interconnect infiniband is not used: only estimates of time use it: give"},
        {LINKED "--parallel data=2 --profile rtx-3090 --like cuda", NULL},
    };
#undef LINKED
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *out;
        assert_int_equal(longbp(&out, cases[i].command), 0);
        if (!strstr(out, "is not used") != !cases[i].told || (cases[i].told && !strstr(out, cases[i].told)))
            fail_msg("%s: %s", cases[i].command, out);
        free(out);
    }
}

static void a_flag_names_options(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json;
    } cases[] = {{"adamw", "'adamw'"},
                 {"adamw,rate=1e-3,decay=0", "{'name': 'adamw', 'rate': 0.001, 'decay': 0}"},
                 {"rate=2", "{'rate': 2}"},
                 {"a,kind=b", "{'name': 'a', 'kind': 'b'}"},
                 {"a,b", "{'name': 'a', 'b': null}"},
                 {"", "''"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = quoted(cases[i].json);
        json_t *expected = json_loads(text, JSON_DECODE_ANY, NULL), *found = flag_named(cases[i].text);
        assert_non_null(expected);
        if (!json_equal(found, expected))
            fail_msg("%s is not %s", cases[i].text, text);
        json_decref(expected);
        json_decref(found);
        free(text);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flag_names_options),
        cmocka_unit_test(an_interconnect_without_a_use_is_told),
        cmocka_unit_test(a_reserve_is_left_out),
        cmocka_unit_test_setup_teardown(a_profile_of_another_kind_is_told, scratch_setup, scratch_teardown),
        cmocka_unit_test(a_planned_record_is_the_measured_one),
        cmocka_unit_test_setup_teardown(a_plan_needs_no_files, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_time_line_is_a_result_file, scratch_setup, scratch_teardown),
        cmocka_unit_test(peaks_grow_as_the_lower_bounds_say),
        cmocka_unit_test(no_draw_is_below_its_lower_bound),
        cmocka_unit_test(the_glue_of_attention_is_planned),
        cmocka_unit_test(the_host_is_planned),
        cmocka_unit_test(a_plan_says_what_is_kept_how),
        cmocka_unit_test(what_is_not_kept_is_said),
        cmocka_unit_test(a_plan_says_what_is_missing),
        cmocka_unit_test(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
