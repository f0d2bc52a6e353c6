// The longest context: max-context and plan agree to the token, it holds for every draw, and limits are told.
#define _GNU_SOURCE // asprintf
#include "harness/plan/max_context.h"
#include "harness/spec/method_decode.h"
#include "kernels/model/flops.h"
#include "tests/asked.h"
#include "tests/sanitized.h"

// How many methods there are rows of where none is named: the exact ones, as the others want a budget or have no
// gradient; with a choice of an option, those that have it, or have no such option.
static size_t rows_by_default(const char *option, const char *choice)
{
    size_t rows = 0;
    for (size_t m = 0; methods[m]; m++) {
        const struct option *row = option ? option_find(&methods[m]->options, option) : NULL;
        bool has = !row;
        for (size_t c = 0; row && row->choices[c]; c++)
            has |= strcmp(row->choices[c], choice) == 0;
        rows += methods[m]->exact && has;
    }
    return rows;
}

// What max-context finds, plan confirms: it fits, and one token more does not.
#define MIN "--head-chunk 256 --attention-queries 2048 "
static void max_context_and_plan_agree(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "--model tiny --memory-limit 40MiB --chunk 48",
        "--model tiny --memory-limit 40MiB --chunk 48 --batch 3 --optimizer adamw",
        "--model llama-3-8b --dtype bf16 --lora r=8 --profile rtx-3090 --chunk 512",
        // The second rank has more of the optimizer's state than the first.
        "--model tiny --parallel data=2,zero=1 --batch 2 --optimizer adamw --memory-limit 12979200B --chunk 128",
        "--model qwen3-8b --dtype bf16 --gradient-dtype bf16 --kv-gradient-dtype bf16 --memory-limit 80GB --chunk "
        "500 "
        "--head-chunk 100 --attention-queries 2048",
    };
    for (size_t s = 0; s < COUNT(settings); s += stride()) {
        json_t *table = longbp_json("max-context %s --json", settings[s]), *row;
        json_t *rows = json_object_get(table, "methods");
        size_t i;
        assert_int_equal(json_array_size(rows), rows_by_default(NULL, NULL));
        json_array_foreach(rows, i, row)
        {
            const char *name = json_string_value(json_object_get(json_object_get(row, "method"), "name"));
            size_t longest = (size_t)number(row, "max_context");
            bool chunked = option_find(&method_find(name)->options, "chunk");
            assert_true(longest > 100);
            assert_true(json_is_true(json_object_get(row, "memory_bound")));
            for (size_t more = 0; more < 2; more++) {
                char *setting = strdup(settings[s]), *chunk = strstr(setting, "--chunk");
                if (!chunked) // full and checkpoint have no such option
                    memset(chunk, ' ', strcspn(chunk + 8, " ") + 8);
                json_t *plan =
                    longbp_json("plan %s --method %s --context %zu %s --json", setting, name, longest + more,
                                strstr(setting, "bf16") && !strstr(setting, "--head-chunk") ? MIN : "");
                if (json_is_true(json_object_get(plan, "fits")) != (more == 0))
                    fail_msg("%s, %s: context %zu", settings[s], name, longest + more);
                if (more == 0)
                    assert_true(number(plan, "peak_bytes") == number(row, "peak_bytes"));
                json_decref(plan);
                free(setting);
            }
        }
        json_decref(table);
    }
}

// Whatever spaco draws fits into what its largest draw fits into.
static void max_context_holds_for_every_draw(void **state)
{
    (void)state;
    struct trial trial = trial_of("{'model': 'tiny', 'context': 640, 'device': 'plan',"
                                  " 'method': {'name': 'spaco', 'chunk': 64, 'budget': 3}}");
    struct status status = {0};
    struct max_context found;
    const size_t limit_bytes = 20 << 20;
    assert_true(max_context_find(&found, &trial, EXTENT_CONTEXT, limit_bytes, 0, &status));
    trial_free(&trial);
    assert_int_equal(found.granularity, 64);
    assert_int_equal(found.largest % 64, 0);
    assert_true(found.memory_bound && found.largest > 10 * 64 && found.peak_bytes <= limit_bytes);
    size_t largest = 0;
    for (size_t seed = 0; seed < 200; seed += stride()) {
        char *json;
        assert_true(asprintf(&json,
                             "{'model': 'tiny', 'context': %zu, 'device': 'plan',"
                             " 'method': {'name': 'spaco', 'chunk': 64, 'budget': 3, 'sampler_seed': %zu}}",
                             found.largest, seed) > 0);
        json_t *record = record_of(json);
        size_t peak = (size_t)number(record, "peak_bytes");
        assert_true(peak <= found.peak_bytes);
        largest = peak > largest ? peak : largest;
        json_decref(record);
        free(json);
    }
    assert_int_equal(largest, found.peak_bytes); // some draw has the last chunk
}

static void a_model_that_does_not_fit_says_so(void **state)
{
    (void)state;
    char *out;
    assert_int_equal(
        longbp(&out, "max-context --model llama-3-8b --dtype bf16 --optimizer adamw --memory-limit 24GiB"), 0);
    assert_non_null(strstr(out, "The resident bytes alone do not fit the limit."));
    free(out);
    json_t *table = longbp_json("max-context --model llama-3-8b --dtype bf16 --memory-limit 24GiB --json");
    const json_t *resident = json_object_get(table, "resident_by_category");
    char *host;
    assert_int_equal(
        longbp(&host, "max-context --model tiny --memory-limit 1GiB --host-memory 1MiB --place-weights host"), 0);
    assert_non_null(strstr(host, " do not fit on the host: "));
    free(host);
    // 8,030,261,248 parameters; gradients in f32 by default.
    assert_true(number(resident, "weights") >= 8030261248.0 * 2 &&
                number(resident, "weights") < 8030261248.0 * 2.001);
    assert_true(number(resident, "gradients") >= 8030261248.0 * 4);
    const json_t *row = json_array_get(json_object_get(table, "methods"), 0);
    assert_true(number(row, "max_context") == 0);
    assert_non_null(strstr(json_string_value(json_object_get(row, "reason")), "do not fit"));
    json_decref(table);
}

// The longest context is the host's to limit, too.
static void the_host_limits_the_context(void **state)
{
    (void)state;
    json_t *table =
        longbp_json("max-context --model tiny --memory-limit 1GiB --host-memory 1MiB --methods checkpoint "
                    "--offload inputs --json");
    json_t *row = json_array_get(json_object_get(table, "methods"), 0);
    // 4 layers of width 128 in f32
    assert_true(number(row, "max_context") == 0x1p20 / (4 * 128 * 4));
    assert_true(number(table, "host_limit_bytes") == 0x1p20);
    json_decref(table);
    char *out;
    assert_int_equal(longbp(&out, "max-context --model tiny --memory-limit 1GiB --host-memory 1MiB --methods "
                                  "checkpoint --offload inputs"),
                     0);
    assert_non_null(strstr(out, "1048576 bytes (--host-memory)\n"));
    assert_non_null(strstr(out, "too few so far (limits.host_memory)\n"));
    assert_non_null(strstr(out, " do not fit on the host: "));
    free(out);
}

// A context that a prompt leaves nothing of is none, whatever its bytes.
static void a_prompt_leaves_something_to_predict(void **state)
{
    (void)state;
    json_t *table = longbp_json("max-context --model tiny --prompt 300 --memory-limit 10MiB --methods full --json");
    json_t *row = json_array_get(json_object_get(table, "methods"), 0);
    assert_true(number(row, "max_context") == 0);
    assert_non_null(strstr(json_string_value(json_object_get(row, "reason")), "do not fit"));
    json_decref(table);
    table = longbp_json("max-context --model tiny --prompt 300 --memory-limit 20MiB --methods full --json");
    row = json_array_get(json_object_get(table, "methods"), 0);
    json_t *plan =
        longbp_json("plan --model tiny --prompt 300 --method full --memory-limit 20MiB --context %.0f --json",
                    number(row, "max_context"));
    assert_true(json_is_true(json_object_get(plan, "fits")) && number(row, "max_context") > 301);
    json_decref(plan);
    json_decref(table);
}

// A choice goes to the methods that have it; the others are left out, with the reason.
static void a_choice_leaves_out_who_does_not_have_it(void **state)
{
    (void)state;
    json_t *table = longbp_json("max-context --model tiny --memory-limit 20MiB --offload kv --json");
    json_t *rows = json_object_get(table, "methods"), *left_out = json_object_get(table, "left_out");
    const size_t shown = rows_by_default("offload", "kv");
    assert_int_equal(json_array_size(rows), shown); // full has no such option
    const json_t *row, *seco = NULL;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const json_t *method = json_object_get(row, "method");
        seco = strcmp(json_string_value(json_object_get(method, "name")), "seco") == 0 ? method : seco;
    }
    assert_string_equal(json_string_value(json_object_get(seco, "offload")), "kv");
    assert_int_equal(json_array_size(left_out), rows_by_default(NULL, NULL) - shown);
    const json_t *checkpoint = json_array_get(left_out, 0);
    assert_string_equal(json_string_value(json_object_get(checkpoint, "method")), "checkpoint");
    assert_non_null(strstr(json_string_value(json_object_get(checkpoint, "reason")),
                           "method \"checkpoint\" has no offload \"kv\"; methods that have it: seco"));
    json_decref(table);
    char *out;
    assert_int_equal(longbp(&out, "max-context --model tiny --memory-limit 20MiB --offload kv"), 0);
    assert_non_null(strstr(out, " left out: "));
    free(out);
    assert_int_not_equal(longbp(&out, "max-context --model tiny --memory-limit 20MiB --offload all"), 0);
    free(out);
}

// The longest context of a batch has room for that batch, and one token more has not; so, too, of what is chosen.
static void batch_and_context_are_twins(void **state)
{
    (void)state;
    static const char *const setting =
        "--model tiny --memory-limit 20MiB --methods full,checkpoint,seco,auto --json";
    json_t *of_batch = longbp_json("max-context %s --batch 3", setting),
           *rows = json_object_get(of_batch, "methods");
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        size_t longest = (size_t)number(json_array_get(rows, i), "max_context");
        for (size_t more = 0; more < 2; more++) {
            json_t *of_context = longbp_json("max-batch %s --context %zu", setting, longest + more);
            const json_t *row = json_array_get(json_object_get(of_context, "methods"), i);
            if ((number(row, "max_batch") >= 3) != (more == 0))
                fail_msg("method %zu, context %zu: batch %.0f", i, longest + more, number(row, "max_batch"));
            json_decref(of_context);
        }
    }
    json_decref(of_batch);
}

// What is kept on the host stands beside what is on the device, of what is named and of what is chosen.
static void the_host_is_a_column(void **state)
{
    (void)state;
    char *out;
    assert_int_equal(longbp(&out, "max-context --model tiny --memory-limit 20MiB --host-memory 1MiB --methods "
                                  "checkpoint --offload inputs"),
                     0);
    assert_non_null(strstr(out, "on the host"));
    free(out);
    json_t *table =
        longbp_json("max-context --model tiny --memory-limit 8MiB --host-memory 1GiB --methods auto --json");
    const json_t *row = json_array_get(json_object_get(table, "methods"), 0),
                 *choice = json_object_get(table, "choice");
    assert_true(number(row, "host_peak_bytes") > 0);
    assert_string_equal(json_string_value(json_object_get(json_object_get(choice, "place"), "weights")), "host");
    json_decref(table);
    assert_int_equal(longbp(&out, "max-context --model tiny --memory-limit 8MiB --methods seco --also weights"), 2);
    assert_non_null(strstr(out, "--also: nothing is chosen without --methods auto"));
    free(out);
}

// Whatever is drawn fits, and of one sequence more it does not: where the last chunk is a short one, which takes
// less than the one before it, and where it is hardly shorter.
static void max_batch_holds_for_every_draw(void **state)
{
    (void)state;
    static const size_t contexts[] = {1025, 1500}; // of three chunks
    for (size_t c = 0; c < COUNT(contexts); c++) {
        char *setting, *out, *command;
        assert_true(asprintf(&setting, "--model tiny --context %zu --chunk 512 --memory-limit 60MiB", contexts[c]) >
                    0);
        assert_true(asprintf(&command, "max-batch %s --methods spaco --budget 1", setting) > 0);
        json_t *table = longbp_json("%s --json", command);
        const json_t *row = json_array_get(json_object_get(table, "methods"), 0);
        size_t largest = (size_t)number(row, "max_batch"), peak_bytes = 0, fitting = 0;
        for (size_t i = 0; i < 6; i++) {
            json_t *plan =
                longbp_json("plan %s --method spaco --sampler fixed --drawn-chunks %zu --batch %zu --json", setting,
                            i % 3, largest + i / 3);
            size_t peak = (size_t)number(plan, "peak_bytes");
            peak_bytes = i < 3 && peak > peak_bytes ? peak : peak_bytes;
            fitting += json_is_true(json_object_get(plan, "fits"));
            assert_true(i >= 3 || fitting == i + 1);
            json_decref(plan);
        }
        assert_true(peak_bytes == (size_t)number(row, "peak_bytes") && fitting < 6);
        json_decref(table);
        assert_int_equal(longbp(&out, command), 0);
        assert_true(strstr(out, "  for the largest draw") && !strstr(out, "whole chunks"));
        free(out);
        free(command);
        free(setting);
    }
}

// A batch is no part of a setting whose largest is looked for.
static void a_setting_says_what_is_given(void **state)
{
    (void)state;
    static const char *const commands[] = {"max-batch --model tiny --context 64 --memory-limit 8MiB --methods seco",
                                           "max-context --model tiny --batch 3 --memory-limit 8MiB --methods seco"};
    static const char *const said[] = {"tiny, f32, plan-cpu, context 64\n", "tiny, f32, plan-cpu, batch 3\n"};
    for (size_t i = 0; i < COUNT(commands); i++) {
        char *out;
        assert_int_equal(longbp(&out, commands[i]), 0);
        assert_memory_equal(out, said[i], strlen(said[i]));
        free(out);
    }
}

// What fits, plan confirms; and one sequence more, or one pair, does not.
static void max_batch_and_plan_agree(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        size_t unit;
    } settings[] = {{"--model tiny --context 200 --memory-limit 40MiB", 1},
                    {"--model tiny --context 200 --memory-limit 40MiB --objective dpo", 2}};
    for (size_t s = 0; s < COUNT(settings); s++) {
        json_t *table = longbp_json("max-batch %s --json", settings[s].flags), *row;
        size_t i, unit = settings[s].unit;
        assert_int_equal(json_array_size(json_object_get(table, "methods")), rows_by_default(NULL, NULL));
        json_array_foreach(json_object_get(table, "methods"), i, row)
        {
            const char *name = json_string_value(json_object_get(json_object_get(row, "method"), "name"));
            size_t largest = (size_t)number(row, "max_batch");
            assert_true(largest > 1 && largest % unit == 0);
            for (size_t more = 0; more < 2 * unit; more += unit) {
                json_t *plan =
                    longbp_json("plan %s --method %s --batch %zu --json", settings[s].flags, name, largest + more);
                if (json_is_true(json_object_get(plan, "fits")) != (more == 0))
                    fail_msg("%s, %s: batch %zu", settings[s].flags, name, largest + more);
                json_decref(plan);
            }
        }
        json_decref(table);
    }
    json_t *chosen = longbp_json("max-batch %s --methods auto --json", settings[1].flags);
    json_t *row = json_array_get(json_object_get(chosen, "methods"), 0);
    size_t largest = (size_t)number(row, "max_batch");
    assert_true(largest > 1 && largest % 2 == 0);
    json_decref(chosen);
}

// Auto goes at least as far as every method with whatever options; its choice there fits, and one token more does
// not.
static void auto_goes_furthest(void **state)
{
    (void)state;
    json_t *table =
               longbp_json("max-context --model tiny --memory-limit 24MiB --host-memory 3MiB --methods all,auto "
                           "--json"),
           *row;
    size_t i, longest = (size_t)number(table, "context");
    json_array_foreach(json_object_get(table, "methods"), i, row)
        assert_true(number(row, "max_context") <= longest);
    assert_int_equal(json_array_size(json_object_get(table, "methods")), rows_by_default(NULL, NULL) + 1);
    for (size_t more = 0; more < 2; more++) {
        char *arguments, *out;
        assert_true(asprintf(&arguments,
                             "advise --model tiny --device-memory 24MiB --host-memory 3MiB --context %zu",
                             longest + more) > 0);
        if (longbp(&out, arguments) != (int)more)
            fail_msg("%s: %s", arguments, out);
        free(out);
        free(arguments);
    }
    const json_t *choice = json_object_get(table, "choice");
    assert_true(number(choice, "peak_bytes") <= 24 << 20 && number(choice, "host_peak_bytes") <= 3 << 20);
    json_t *frontier = longbp_json("frontier --model tiny --device-memory 12MiB,24MiB --host-memory 3MiB --json");
    size_t found = 0;
    json_array_foreach(json_object_get(frontier, "frontier"), i, row)
    {
        bool last = number(row, "device_bytes") == 24 << 20 && number(row, "host_bytes") == 3 << 20,
             all = strcmp(json_string_value(json_object_get(row, "method")), "auto") == 0;
        if (last && all)
            found = (size_t)number(row, "max_context");
    }
    assert_int_equal(i, 2 * 2 * (rows_by_default(NULL, NULL) + 1));
    assert_int_equal(found, longest);
    json_decref(frontier);
    json_decref(table);
}

// What is on the host before the step does not grow with the context.
static void what_the_host_holds_anyway_is_no_part_of_a_token(void **state)
{
    (void)state;
    static const char setting[] = "--model tiny --memory-limit 24MiB --host-memory 4MiB --place-weights host";
    json_t *found = longbp_json("max-context %s --methods auto --json", setting),
           *streamed = longbp_json("max-context %s --methods streambp --segments 4 --chunk 128 --json", setting);
    assert_true(number(found, "context") >=
                number(json_array_get(json_object_get(streamed, "methods"), 0), "max_context"));
    json_decref(streamed);
    json_decref(found);
}

// Contexts beyond what others report for such cards; no more than so many FLOPs, in those of a forward pass.
static void long_contexts_fit(void **state)
{
    (void)state;
#define LLAMA   "--model llama-3-8b --lora r=8,alpha=16,targets=q,v "
#define TRAINED "--model llama-3-8b --profile rtx-3090 --chunk 512 "
#define GALORE  "galore,rank=128,state=8bit,when=backward"
#define ON_HOST "--optimizer adamw --place-weights host --place-gradients host --place-optimizer host "
    static const struct {
        const char *setting;
        size_t context;
        double forwards;
    } cases[] = {
        {LLAMA "--profile rtx-3090 --chunk 512 --segments 6", 95000, 4.8},
        {LLAMA "--profile rtx-3090 --host-memory 120GiB --chunk 1024 --offload inputs+gradient", 480000, 5},
        {LLAMA "--profile rtx-3090 --host-memory 120GiB --chunk 1024 --offload inputs+gradient --segments 4",
         650000, 6},
        {LLAMA "--profile rtx-3090 --chunk 512 --segments 6 --weights nf4", 170000, 5},
        {"--model llama-3-70b --lora r=8,alpha=16,targets=q,v --profile rtx-3090 --host-memory 192GiB "
         "--place-weights "
         "host --chunk 1024 --segments 4 --offload inputs+gradient",
         131072, 5},
        {"--model qwen3-8b --gradient-dtype bf16 --profile a800-80g --chunk 1024 --segments 8", 550000, 6},
        // all weights trained in 24 GiB
        {TRAINED "--optimizer bcd", 17000, 4.6},
        {TRAINED "--optimizer " GALORE, 12000, 5},
        {TRAINED "--segments 4 --optimizer bcd", 45000, 5.6},
        {TRAINED "--segments 4 --optimizer " GALORE, 42000, 6},
        // keys and values of 2^31 elements and more
        {LLAMA "--profile h200-141g --host-memory 2TiB --chunk 16384 --segments 4 --offload inputs+gradient",
         9000000, 6},
        {"--model mistral-large-2 --gradient-dtype bf16 --profile h200-141g --host-memory 1500GB " ON_HOST
         "--chunk 4096 --segments 4 --offload inputs+gradient",
         200000, 6},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *plan = longbp_json("plan --like cuda --dtype bf16 --method streambp %s --context %zu " MIN "--json",
                                   cases[i].setting, cases[i].context);
        struct config config =
            *config_preset(json_string_value(json_object_get(json_object_get(plan, "trial"), "model")));
        double forward = model_forward_flops(&config, &(struct lora){0},
                                             &(struct batch){.context = cases[i].context, .batch = 1});
        if (!json_is_true(json_object_get(plan, "fits")) || number(plan, "flops") > cases[i].forwards * forward)
            fail_msg("%s: context %zu, %.3f F", cases[i].setting, cases[i].context,
                     number(plan, "flops") / forward);
        json_decref(plan);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"frontier --device-memory 2GiB,1GiB", "not above the size before it"},
        {"frontier --device-memory 2", "a size with its unit"},
        {"frontier --host-memory 1GiB,1GiB", "not above the size before it"},
        {"frontier --device-memory 2GiB --batch file", "a batch file has a context of its own"},
        {"max-context --memory-limit 2GiB --batch file", "a batch file has a context of its own"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *arguments, *out;
        assert_true(asprintf(&arguments, "%s --model tiny", cases[i][0]) > 0);
        int code = longbp(&out, arguments);
        if (code != 2 || !strstr(out, cases[i][1]))
            fail_msg("%s: exit code %d: %s", arguments, code, out);
        free(arguments);
        free(out);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(max_context_and_plan_agree),
        cmocka_unit_test(a_prompt_leaves_something_to_predict),
        cmocka_unit_test(max_context_holds_for_every_draw),
        cmocka_unit_test(max_batch_holds_for_every_draw),
        cmocka_unit_test(a_model_that_does_not_fit_says_so),
        cmocka_unit_test(the_host_limits_the_context),
        cmocka_unit_test(a_choice_leaves_out_who_does_not_have_it),
        cmocka_unit_test(a_setting_says_what_is_given),
        cmocka_unit_test(max_batch_and_plan_agree),
        cmocka_unit_test(batch_and_context_are_twins),
        cmocka_unit_test(the_host_is_a_column),
        cmocka_unit_test(auto_goes_furthest),
        cmocka_unit_test(what_the_host_holds_anyway_is_no_part_of_a_token),
        cmocka_unit_test(long_contexts_fit),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
