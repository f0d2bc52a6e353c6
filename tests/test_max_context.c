// The longest context: max-context and plan agree to the token, it holds for every draw, and limits are named.
#define _GNU_SOURCE // asprintf
#include "harness/plan/max_context.h"
#include "harness/spec/method_decode.h"
#include "kernels/model/flops.h"
#include "tests/asked.h"
#include "tests/sanitized.h"
#include "tests/scratch.h"

// How many methods there are rows of where none is named: the exact ones, as the others want a budget or have no
// gradient; with a choice of an option, those that have it, or have no such option.
static size_t rows_by_default(const char *offload)
{
    size_t rows = 0;
    for (size_t m = 0; methods[m]; m++) {
        const struct option *own = option_find(&methods[m]->options, "offload");
        rows += methods[m]->exact && (!offload || !own || option_offers(own, offload));
    }
    return rows;
}

// The result of max-context fits by `plan`, and one token more does not.
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
        json_t *rows = longbp_records(0, "max-context %s --json", settings[s]), *row;
        size_t i;
        assert_int_equal(json_array_size(rows), rows_by_default(NULL));
        json_array_foreach(rows, i, row)
        {
            const char *name = method_of(row);
            size_t longest = (size_t)extent_found(row);
            bool chunked = option_find(&method_find(name)->options, "chunk");
            assert_true(longest > 100);
            assert_true(json_is_true(json_object_get(json_object_get(row, "search"), "memory_bound")));
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
        json_decref(rows);
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
    json_t *rows = longbp_records(0, "max-context --model llama-3-8b --dtype bf16 --memory-limit 24GiB --json");
    char *host;
    assert_int_equal(
        longbp(&host, "max-context --model tiny --memory-limit 1GiB --host-memory 1MiB --offload weights"), 0);
    assert_non_null(strstr(host, " do not fit on the host: "));
    free(host);
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        assert_true(extent_found(row) == 0);
        assert_string_equal(json_string_value(json_object_get(row, "status")), "oom");
        assert_non_null(strstr(beyond_of(row), "do not fit"));
    }
    json_decref(rows);
}

// The longest context is the host's to limit, too.
static void the_host_limits_the_context(void **state)
{
    (void)state;
    json_t *rows =
        longbp_records(0, "max-context --model tiny --memory-limit 1GiB --host-memory 1MiB --methods checkpoint "
                          "--offload inputs --json");
    const json_t *row = json_array_get(rows, 0), *trial = json_object_get(row, "trial");
    // 4 layers of width 128 in f32
    assert_true(extent_found(row) == 0x1p20 / (4 * 128 * 4));
    assert_true(number(json_object_get(trial, "limits"), "host_memory") == 0x1p20);
    json_decref(rows);
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
    json_t *rows =
        longbp_records(0, "max-context --model tiny --prompt 300 --memory-limit 10MiB --methods full --json");
    assert_true(extent_found(json_array_get(rows, 0)) == 0);
    assert_non_null(strstr(beyond_of(json_array_get(rows, 0)), "do not fit"));
    json_decref(rows);
    rows = longbp_records(0, "max-context --model tiny --prompt 300 --memory-limit 20MiB --methods full --json");
    double longest = extent_found(json_array_get(rows, 0));
    json_t *plan = longbp_json(
        "plan --model tiny --prompt 300 --method full --memory-limit 20MiB --context %.0f --json", longest);
    assert_true(json_is_true(json_object_get(plan, "fits")) && longest > 301);
    json_decref(plan);
    json_decref(rows);
}

// A choice goes to the methods that have it; the others are left out, with the reason.
static void a_choice_leaves_out_who_does_not_have_it(void **state)
{
    (void)state;
    json_t *rows = longbp_records(0, "max-context --model tiny --memory-limit 20MiB --offload kv --json"), *row;
    const json_t *seco = NULL;
    size_t i;
    assert_int_equal(json_array_size(rows), rows_by_default("kv"));
    json_array_foreach(rows, i, row) seco =
        strcmp(method_of(row), "seco") == 0 ? json_object_get(json_object_get(row, "trial"), "method") : seco;
    assert_string_equal(json_string_value(json_array_get(json_object_get(seco, "offload"), 0)), "kv");
    json_decref(rows);
    char *out;
    static const char *const forms[] = {"", " --json"};
    for (i = 0; i < COUNT(forms); i++) {
        char *arguments;
        assert_true(asprintf(&arguments, "max-context --model tiny --memory-limit 20MiB --offload kv%s", forms[i]) >
                    0);
        assert_int_equal(longbp(&out, arguments), 0);
        const char *left_out = strstr(out, " left out: ");
        assert_non_null(left_out);
        assert_non_null(
            strstr(left_out, "method \"checkpoint\" has no offload \"kv\"; methods that have it: seco"));
        free(out);
        free(arguments);
    }
    assert_int_not_equal(longbp(&out, "max-context --model tiny --memory-limit 20MiB --offload all"), 0);
    free(out);
}

// The longest context of a batch has room for that batch, and one token more has not; so, too, of what is chosen.
static void batch_and_context_are_twins(void **state)
{
    (void)state;
    static const char *const setting =
        "--model tiny --memory-limit 20MiB --methods full,checkpoint,seco,auto --json";
    json_t *rows = longbp_records(0, "max-context %s --batch 3", setting);
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        size_t longest = (size_t)extent_found(json_array_get(rows, i));
        for (size_t more = 0; more < 2; more++) {
            json_t *of_context = longbp_records(0, "max-batch %s --context %zu", setting, longest + more);
            double batch = extent_found(json_array_get(of_context, i));
            if ((batch >= 3) != (more == 0))
                fail_msg("method %zu, context %zu: batch %.0f", i, longest + more, batch);
            json_decref(of_context);
        }
    }
    json_decref(rows);
}

// Host bytes have a column beside the device's, for named and for chosen offload.
static void the_host_is_a_column(void **state)
{
    (void)state;
    char *out;
    assert_int_equal(longbp(&out, "max-context --model tiny --memory-limit 20MiB --host-memory 1MiB --methods "
                                  "checkpoint --offload inputs"),
                     0);
    assert_non_null(strstr(out, "on the host"));
    free(out);
    json_t *rows =
        longbp_records(0, "max-context --model tiny --memory-limit 8MiB --host-memory 1GiB --methods auto --json");
    const json_t *row = json_array_get(rows, 0), *method = json_object_get(json_object_get(row, "trial"), "method");
    assert_true(number(row, "host_peak_bytes") > 0);
    assert_string_equal(json_string_value(json_array_get(json_object_get(method, "offload"), 0)), "weights");
    json_decref(rows);
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
        json_t *rows = longbp_records(0, "%s --json", command);
        size_t largest = (size_t)extent_found(json_array_get(rows, 0)), fitting = 0;
        for (size_t i = 0; i < 6; i++) {
            json_t *plan =
                longbp_json("plan %s --method spaco --sampler fixed --drawn-chunks %zu --batch %zu --json", setting,
                            i % 3, largest + i / 3);
            fitting += json_is_true(json_object_get(plan, "fits"));
            assert_true(i >= 3 || fitting == i + 1);
            json_decref(plan);
        }
        assert_true(fitting < 6);
        json_decref(rows);
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

// The result of max-batch fits by `plan`; one more sequence, or pair, does not.
static void max_batch_and_plan_agree(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        size_t unit;
    } settings[] = {{"--model tiny --context 200 --memory-limit 40MiB", 1},
                    {"--model tiny --context 200 --memory-limit 40MiB --objective dpo", 2}};
    for (size_t s = 0; s < COUNT(settings); s++) {
        json_t *rows = longbp_records(0, "max-batch %s --json", settings[s].flags), *row;
        size_t i, unit = settings[s].unit;
        assert_int_equal(json_array_size(rows), rows_by_default(NULL));
        json_array_foreach(rows, i, row)
        {
            const char *name = method_of(row);
            size_t largest = (size_t)extent_found(row);
            assert_true(largest > 1 && largest % unit == 0);
            for (size_t more = 0; more < 2 * unit; more += unit) {
                json_t *plan =
                    longbp_json("plan %s --method %s --batch %zu --json", settings[s].flags, name, largest + more);
                if (json_is_true(json_object_get(plan, "fits")) != (more == 0))
                    fail_msg("%s, %s: batch %zu", settings[s].flags, name, largest + more);
                json_decref(plan);
            }
        }
        json_decref(rows);
    }
    json_t *chosen = longbp_records(0, "max-batch %s --methods auto --json", settings[1].flags);
    size_t largest = (size_t)extent_found(json_array_get(chosen, 0));
    assert_true(largest > 1 && largest % 2 == 0);
    json_decref(chosen);
}

// A token beyond a window adds no gradients of its layers: the bounds by which auto leaves methods out know it.
static void auto_goes_as_far_as_windows_let_it(void **state)
{
    (void)state;
    double found[2];
    static const char *const methods[] = {"auto", "seco --inner checkpoint --segments 4 --chunk 8192"};
    for (size_t i = 0; i < 2; i++) {
        json_t *rows = longbp_records(
            0, "max-context --model gemma-3-1b --dtype bf16 --memory-limit 24GiB --methods %s --json", methods[i]);
        found[i] = extent_found(json_array_get(rows, 0));
        json_decref(rows);
    }
    assert_true(found[0] >= found[1] && found[1] > 1e6);
}

// Auto goes at least as far as every method with whatever options; its choice there fits, and one token more does
// not.
static void auto_goes_furthest(void **state)
{
    (void)state;
    json_t *rows = longbp_records(
               0, "max-context --model tiny --memory-limit 24MiB --host-memory 3MiB --methods all,auto --json"),
           *row;
    const size_t count = rows_by_default(NULL);
    const json_t *furthest = json_array_get(rows, count);
    size_t i, longest = (size_t)extent_found(furthest);
    assert_int_equal(json_array_size(rows), count + 1);
    json_array_foreach(rows, i, row) assert_true(extent_found(row) <= (double)longest);
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
    assert_true(number(furthest, "peak_bytes") <= 24 << 20);
    json_t *frontier =
        longbp_records(0, "frontier --model tiny --device-memory 12MiB,24MiB --host-memory 3MiB --json");
    size_t found = 0;
    json_array_foreach(frontier, i, row)
    {
        const json_t *limits = json_object_get(json_object_get(row, "trial"), "limits");
        bool last = number(limits, "memory") == 24 << 20 && json_is_integer(json_object_get(limits, "host_memory"));
        size_t context = (size_t)extent_found(row);
        found = last && context > found ? context : found;
    }
    assert_int_equal(i, 2 * 2 * count);
    assert_int_equal(found, longest);
    json_decref(frontier);
    json_decref(rows);
}

// The host's bytes before the step do not grow with the context.
static void what_the_host_holds_anyway_is_no_part_of_a_token(void **state)
{
    (void)state;
    static const char setting[] = "--model tiny --memory-limit 24MiB --host-memory 4MiB --offload weights";
    json_t *found = longbp_records(0, "max-context %s --methods auto --json", setting),
           *streamed =
               longbp_records(0, "max-context %s --methods streambp --segments 4 --chunk 128 --json", setting);
    assert_true(extent_found(json_array_get(found, 0)) >= extent_found(json_array_get(streamed, 0)));
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
#define ON_HOST "--optimizer adamw --offload weights,gradients,optimizer,inputs,input_gradients "
    static const struct {
        const char *setting;
        size_t context;
        double forwards;
    } cases[] = {
        {LLAMA "--profile rtx-3090 --chunk 512 --segments 6", 95000, 4.8},
        {LLAMA "--profile rtx-3090 --host-memory 120GiB --chunk 1024 --offload inputs,input_gradients", 480000, 5},
        {LLAMA "--profile rtx-3090 --host-memory 120GiB --chunk 1024 --offload inputs,input_gradients --segments 4",
         650000, 6},
        {LLAMA "--profile rtx-3090 --chunk 512 --segments 6 --weights nf4", 170000, 5},
        {"--model llama-3-70b --lora r=8,alpha=16,targets=q,v --profile rtx-3090 --host-memory 192GiB "
         "--chunk 1024 --segments 4 --offload weights,inputs,input_gradients",
         131072, 5},
        {"--model qwen3-8b --gradient-dtype bf16 --profile a800-80g --chunk 1024 --segments 8", 550000, 6},
        // all weights trained in 24 GiB
        {TRAINED "--optimizer bcd", 17000, 4.6},
        {TRAINED "--optimizer " GALORE, 12000, 5},
        {TRAINED "--segments 4 --optimizer bcd", 45000, 5.6},
        {TRAINED "--segments 4 --optimizer " GALORE, 42000, 6},
        // keys and values of 2^31 elements and more
        {LLAMA "--profile h200-141g --host-memory 2TiB --chunk 16384 --segments 4 --offload inputs,input_gradients",
         9000000, 6},
        {"--model mistral-large-2 --gradient-dtype bf16 --profile h200-141g --host-memory 1500GB " ON_HOST
         "--chunk 4096 --segments 4",
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

// A record is the plan of its trial, and --out appends it to what is there.
static void what_is_found_is_a_record(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const searches[] = {"max-context --memory-limit 24MiB --methods full,auto",
                                           "max-batch --context 300 --memory-limit 24MiB --methods seco",
                                           "frontier --device-memory 12MiB,24MiB --methods seco",
                                           "advise --context 300 --memory-limit 12MiB --methods streambp"};
    size_t count = 0;
    for (size_t i = 0; i < COUNT(searches); i++) {
        json_t *records = longbp_records(0, "%s --model tiny --json --out %s", searches[i],
                                         scratch_path(scratch, "found.jsonl").text);
        count += json_array_size(records);
        for (size_t k = 0; k < json_array_size(records); k++) {
            const json_t *record = json_array_get(records, k), *trial = json_object_get(record, "trial");
            char *text = json_dumps(trial, JSON_COMPACT);
            struct trial again;
            struct status status = {0};
            assert_true(trial_decode(&again, text, "trial", &status));
            char *line = trial_run(&again, -1);
            json_t *planned = json_loads(line, 0, NULL);
            assert_string_equal(again.id, json_string_value(json_object_get(record, "id")));
            assert_true(number(planned, "peak_bytes") == number(record, "peak_bytes"));
            assert_true(json_is_null(json_object_get(planned, "search")));
            json_decref(planned);
            free(line);
            free(text);
            trial_free(&again);
        }
        json_decref(records);
    }
    FILE *file = fopen(scratch_path(scratch, "found.jsonl").text, "r");
    assert_non_null(file);
    for (int c; (c = fgetc(file)) != EOF;)
        count -= c == '\n';
    fclose(file);
    assert_int_equal(count, 0);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"frontier --device-memory 2GiB,1GiB", "not above the size before it"},
                                           {"frontier --device-memory 2", "a size with its unit"},
                                           {"frontier --host-memory 1GiB,1GiB", "not above the size before it"},
                                           {"frontier --device-memory 2GiB --batch file", "--batch FILE"},
                                           {"max-context --memory-limit 2GiB --batch file", "--batch FILE"}};
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
        cmocka_unit_test(auto_goes_as_far_as_windows_let_it),
        cmocka_unit_test(auto_goes_furthest),
        cmocka_unit_test(what_the_host_holds_anyway_is_no_part_of_a_token),
        cmocka_unit_test(long_contexts_fit),
        cmocka_unit_test_setup_teardown(what_is_found_is_a_record, scratch_setup, scratch_teardown),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
