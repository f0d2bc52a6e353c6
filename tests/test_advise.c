// Advice: the program's answer equals a plan of the same step, method auto runs it, and impossible requests are
// refused.
#define _GNU_SOURCE // asprintf
#include "harness/text/size.h"
#include "tests/asked.h"
#include "tests/chosen_tests.h"
#include "tests/sanitized.h"
#include "tests/scratch.h"

// The fastest is the first record; a key of its trial.
static const json_t *chosen_key(const json_t *records, const char *key)
{
    return json_object_get(json_object_get(json_array_get(records, 0), "trial"), key);
}

static bool offloads(const json_t *records, const char *target)
{
    const json_t *list = json_object_get(chosen_key(records, "method"), "offload");
    bool found = false;
    for (size_t i = 0; i < json_array_size(list); i++)
        found |= strcmp(json_string_value(json_array_get(list, i)), target) == 0;
    return found;
}

// The rest of the line that begins with a word, "run" or "train", without its comment; to be freed.
static char *line_of(int code, const char *word, const char *arguments)
{
    char *out, *start;
    assert_int_equal(longbp(&out, arguments), code);
    assert_true(asprintf(&start, "\n%-10s", word) > 0);
    char *line = strstr(out, start);
    if (!line)
        fail_msg("%s: no line \"%s\": %s", arguments, word, out);
    line += strlen(start);
    line[strcspn(line, "\n")] = 0;
    line = strdup(line);
    free(start);
    free(out);
    return line;
}

// asked: of advise alone, planned: of plan.
static void expect_agreement(const char *asked, const char *planned)
{
    static const char *const setting = "--model llama-3-8b --dtype bf16 --lora r=8";
    json_t *records = longbp_records(0, "advise %s %s --json", setting, asked), *value;
    const json_t *method = chosen_key(records, "method"), *record = json_array_get(records, 0);
    char *flags = strdup(""), *more;
    const char *key;
    assert_string_equal(json_string_value(json_object_get(record, "status")), "ok");
    json_object_foreach((json_t *)method, key, value)
    {
        if (json_is_array(value) && (json_array_size(value) == 0 || json_is_integer(json_array_get(value, 0))))
            continue; // planned says which
        char *text = named_option_words(value, 0);
        assert_true(asprintf(&more, "%s --%s %s", flags, strcmp(key, "name") ? key : "method", text) > 0);
        free(text);
        free(flags);
        flags = more;
    }
    json_t *plan = longbp_json("plan %s %s --kv-gradient-dtype %s %s --json", setting, flags,
                               json_string_value(chosen_key(records, "kv_gradient_dtype")), planned);
    static const char *const same[] = {"peak_bytes", "estimate_ms", "flops"};
    for (size_t i = 0; i < COUNT(same); i++)
        if (!near(number(plan, same[i]), number(record, same[i])))
            fail_msg("%s: %.17g, but plan says %.17g", same[i], number(record, same[i]), number(plan, same[i]));
    assert_true(json_equal(json_object_get(plan, "host_peak_bytes"), json_object_get(record, "host_peak_bytes")));
    assert_true(json_is_true(json_object_get(plan, "fits")));
    free(flags);
    json_decref(plan);
    json_decref(records);
}

// A plan of the choice says what its record says.
static void advise_and_plan_agree(void **state)
{
    (void)state;
#define HOST  "--profile rtx-3090 --host-memory 120GiB --context 65536 "
#define DRAWN "--profile rtx-4090 --host-memory 120GiB --context 8192 --offload kv "
    expect_agreement(HOST, HOST);
    expect_agreement(DRAWN "--methods spaco --chunk 512 --budget 4", DRAWN);
    expect_agreement(DRAWN "--methods spaco --chunk 512 --sampler fixed --drawn-chunks 3,9",
                     DRAWN "--drawn-chunks 3,9");
#undef DRAWN
#undef HOST
}

// The line that is printed runs, also where the optimizer's state is on the host, of which grad knows nothing.
#define ON_HOST "advise --model tiny --context 256 --memory-limit 7MiB --host-memory 30MiB --optimizer adamw"
static void the_command_runs(void **state)
{
    (void)state;
    json_t *records = longbp_records(0, ON_HOST " --json");
    assert_true(offloads(records, "optimizer"));
    json_decref(records);
    char *command = line_of(0, "run", ON_HOST), *file = strstr(command, "gradients.safetensors"), *run, *out;
    assert_non_null(file);
    assert_non_null(strstr(command, "longbp grad "));
    assert_true(asprintf(&run, "%.*s/dev/null", (int)(file - command) - 7, command + 7) > 0); // without "longbp "
    if (longbp(&out, run) != 0)
        fail_msg("%s: %s", command, out);
    free(out);
    free(run);
    free(command);
}
#undef ON_HOST

// So does the training run, in the memory that is said.
static void the_training_run_runs(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const asked[] = {
        "--memory-limit 30MiB --lora r=2",
        // The peak is the optimizer's step, which finds the batch closed.
        "--memory-limit 9MiB --host-memory 100MiB --dtype bf16 --like cpu --optimizer adamw,master=f32"};
    for (size_t i = 0; i < COUNT(asked); i++) {
        char *run, *said, *arguments;
        assert_true(asprintf(&arguments, "advise --model tiny --context 64 %s", asked[i]) > 0);
        char *command = line_of(0, "train", arguments), *out = strstr(command, " --out trained"),
             *peak = strstr(command, "  # ");
        assert_true(out && peak);
        assert_non_null(strstr(command, "longbp train --model tiny "));
        assert_true(asprintf(&run, "%.*s --steps 2 --out %s%zu", (int)(out - command) - 7, command + 7,
                             scratch_path(scratch, "trained").text, i) > 0);
        if (longbp(&said, run) != 0)
            fail_msg("%s: %s", run, said);
        const char *bytes = strstr(said, "\"peak_bytes\":");
        char size[32];
        assert_non_null(bytes);
        size_text((size_t)strtod(strchr(bytes, ':') + 1, NULL), size, sizeof size);
        if (strncmp(peak + 4, size, strlen(size)) != 0)
            fail_msg("%s is not in %s", size, peak);
        free(said);
        free(run);
        free(command);
        free(arguments);
    }
    // An optimizer's state may take what is left.
    char *none = line_of(0, "train", "advise --model tiny --context 256 --memory-limit 8MiB");
    assert_non_null(strstr(none, "not with adamw"));
    assert_non_null(strstr(none, "limits.memory"));
    free(none);
}

// Remedies that advise names are plans of advise itself.
static void remedies_are_planned(void **state)
{
    (void)state;
#define ASKED "advise --model tiny --context 512 --batch 4 --device-memory 12MiB"
    static const char *const flags[] = {"--host-memory ",          "--chunk ",    "--dtype bf16", "--lora r=8",
                                        "--dtype bf16 --lora r=8", "--parallel ", "--batch ",     "--context "};
    char *out, *line;
    size_t fitting = 0, named = 0;
    assert_int_equal(longbp(&out, ASKED), 1);
    for (char *rest = strstr(out, "Other requests"); (line = strsep(&rest, "\n"));) {
        char *fits = strstr(line, " fits: "), *not_so = strstr(line, " does not: ");
        if (strncmp(line, "  --", 4) != 0 || (!fits && !not_so))
            continue;
        const char *said = fits ? fits + 7 : not_so + 11;
        for (size_t f = 0; f < COUNT(flags); f++)
            named += strncmp(line + 2, flags[f], strlen(flags[f])) == 0;
        if (strstr(line, "SIZE"))
            continue;
        char *asked, *again;
        assert_true(asprintf(&asked, ASKED "%.*s", (int)((fits ? fits : not_so) - line), line) > 0);
        int code = longbp(&again, asked);
        size_t label = fits ? strcspn(said, ",") : strlen(said); // "seco chunk=64, 3 s, ..."
        char *wanted = strndup(said, label);
        if (code != !fits || !strstr(again, wanted))
            fail_msg("%s: exit code %d, no \"%s\": %s", asked, code, wanted, again);
        fitting += fits != NULL;
        free(wanted);
        free(asked);
        free(again);
    }
#undef ASKED
    assert_true(named >= 8 && fitting >= 4);
    free(out);
    assert_int_equal(
        longbp(&out, "advise --model tiny --context 512 --device-memory 5MiB --methods full --keep all"), 1);
    assert_non_null(strstr(out, "\n  without --keep --methods         "));
    free(out);
}

// A row is marked where its estimate does not tell it from the choice.
static void seconds_that_are_not_told_apart_are_marked(void **state)
{
    (void)state;
#define ASKED "advise --model llama-3-8b --dtype bf16 --lora r=8 --context 16384 --profile h100-80g"
    json_t *records = longbp_records(0, ASKED " --json"), *row;
    char *out, *line;
    assert_int_equal(longbp(&out, ASKED), 0);
    double factor, fastest = number(json_array_get(records, 0), "estimate_ms");
    assert_int_equal(sscanf(strstr(out, "estimates within "), "estimates within %lf times", &factor), 1);
    size_t i, marked = 0;
    char *rest = strstr(out, " candidates, ");
    strsep(&rest, "\n");
    json_array_foreach(records, i, row)
    {
        double ms = number(row, "estimate_ms"), printed;
        char mark;
        line = strsep(&rest, "\n");
        assert_int_equal(sscanf(line, "%lf%c", &printed, &mark), 2);
        assert_true(fabs(1e3 * printed - ms) < 1e-3 * ms);
        bool near = ms > fastest && ms <= factor * fastest;
        if ((mark == '~') != near)
            fail_msg("%s: %g of %g", line, ms, fastest);
        marked += near;
    }
    assert_true(marked > 0 && marked < i - 1);
    free(out);
    json_decref(records);
#undef ASKED
}

// One block of all tokens is a choice where the usual block is shorter than they are.
static void blocks_longer_than_the_context_are_tried(void **state)
{
    (void)state;
    json_t *records = longbp_records(
        0, "advise --model gemma-3-1b --dtype bf16 --context 1900 --lora r=8 --profile h100-80g --json");
    assert_int_equal(json_integer_value(json_object_get(chosen_key(records, "method"), "head_chunk")), 2048);
    json_decref(records);
}

// A list that names all has all, each of them once, whatever the command.
static void all_may_stand_in_a_list(void **state)
{
    (void)state;
    static const char *const commands[] =
        {"advise --model tiny --context 300 --memory-limit 30MiB --methods %s --json",
         "max-context --model tiny --memory-limit 12MiB --methods %s --json",
         "max-batch --model tiny --context 300 --memory-limit 20MiB --methods %s --json",
         "frontier --model tiny --device-memory 12MiB --methods %s --json"},
                             *const lists[] = {"all,seco", "full,all", "all,all"};
    for (size_t i = 0; i < COUNT(commands); i++) {
        json_t *all = longbp_records(0, commands[i], "all");
        for (size_t k = 0; k < COUNT(lists); k++) {
            json_t *listed = longbp_records(0, commands[i], lists[k]);
            bool same = json_array_size(all) == json_array_size(listed);
            for (size_t n = 0; same && n < json_array_size(all); n++)
                same = json_equal(json_object_get(json_array_get(all, n), "id"),
                                  json_object_get(json_array_get(listed, n), "id"));
            if (!same)
                fail_msg("%s: %s is not all", commands[i], lists[k]);
            json_decref(listed);
        }
        json_decref(all);
    }
}

// A record's choice equals that of advise: the method, and the offloaded tensors.
static void expect_chosen(const json_t *chosen, const json_t *records)
{
    assert_true(json_equal(chosen, chosen_key(records, "method")));
}

// Nothing is chosen that the decoder refuses: updates in the walk are of methods that walk rows.
static void auto_chooses_what_may_be_asked(void **state)
{
    (void)state;
    char *out;
#define ASKED "plan --model tiny --context 300 --method auto --optimizer sgd,when=backward --memory-limit "
    static const char *const asked[] = {ASKED "7MiB",
                                        ASKED "8MiB --host-memory 1GiB"}; // where seco would be fastest
#undef ASKED
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(longbp(&out, asked[i]), 0);
        assert_null(strstr(out, "seco"));
        free(out);
    }
}

// A card's profile, and the CPU's bytes: it is told, unless it was asked for.
static void a_card_planned_as_the_cpu_is_told(void **state)
{
    (void)state;
#define CARD "plan --model tiny --context 64 --method full --profile rtx-3090"
    static const struct {
        const char *command;
        bool told;
    } cases[] = {{CARD, true},
                 {CARD " --memory-limit 1GiB", true},
                 {CARD " --dtype bf16", false},
                 {CARD " --like cuda", false},
                 {CARD " --like cpu", false},
                 {CARD " --json", false}};
#undef CARD
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *out;
        assert_int_equal(longbp(&out, cases[i].command), 0);
        if (cases[i].told != (strstr(out, "profile rtx-3090 describes a card") != NULL))
            fail_msg("%s: %s", cases[i].command, out);
        free(out);
    }
}

// Method auto walks what advise says of the same limits; its id is that of what was asked.
static void auto_walks_the_choice(void **state)
{
    (void)state;
    static const char *const setting = "--model tiny --context 300 --profile rtx-3090";
    json_t *wanted = longbp_records(0, "advise %s --device-memory 12MiB --host-memory 1GiB --json", setting),
           *plan = longbp_json("plan %s --memory-limit 12MiB --host-memory 1GiB --method auto --json", setting);
    expect_chosen(json_object_get(plan, "chosen"), wanted);
    assert_true(near(number(plan, "estimate_ms"), number(json_array_get(wanted, 0), "estimate_ms")));
    assert_true(json_is_true(json_object_get(plan, "fits")));
    json_t *measured =
        record_of("{'model': 'tiny', 'context': 300, 'profile': 'rtx-3090', 'method': 'auto', 'limits': "
                  "{'memory': '12MiB', 'host_memory': '1GiB'}, 'measure': {'samples': 1}}");
    expect_chosen(json_object_get(measured, "chosen"), wanted);
    assert_true(number(measured, "peak_bytes") == number(plan, "peak_bytes"));
    const json_t *trial = json_object_get(measured, "trial");
    assert_int_equal(json_object_size(json_object_get(trial, "method")), 2); // {"name": "auto", "offload": []}
    assert_true(number(json_object_get(measured, "gradient"), "relative_l2") < 1e-5);
    json_t *named = record_of("{'model': 'tiny', 'context': 300, 'device': 'plan', 'method': 'full'}");
    assert_true(json_is_null(json_object_get(named, "chosen")));
    json_t *grad =
        longbp_json("grad --model tiny --context 300 --method auto --memory-limit 12MiB --out /dev/null");
    // A host's memory that was not given is not used, whatever the machine has free.
    json_t *alone = longbp_json("plan --model tiny --context 300 --method auto --memory-limit 12MiB --json");
    assert_true(json_is_object(json_object_get(grad, "chosen")));
    assert_true(json_equal(json_object_get(grad, "chosen"), json_object_get(alone, "chosen")));
    char *out;
    assert_int_equal(
        longbp(&out, "grad --model tiny --context 300 --method auto --memory-limit 4MiB --out /dev/null"), 1);
    assert_non_null(strstr(out, "no exact method fits"));
    free(out);
    json_decref(alone);
    json_decref(grad);
    json_decref(named);
    json_decref(measured);
    json_decref(plan);
    json_decref(wanted);
}

// The same of ranks, of every kind: what a plan of the choice says is what was advised, messages and all.
static void auto_chooses_for_ranks(void **state)
{
    (void)state;
    static const char *const kinds[] = {"data=2", "stage=2", "sequence=2", "sequence=2,exchange=ring",
                                        "stage=2,data=2"};
    for (size_t i = 0; i < COUNT(kinds); i += STRIDE) {
        char *setting;
        assert_true(asprintf(&setting,
                             "--model tiny --context 300 --batch 2 --profile h200-141g --parallel %s "
                             "--memory-limit 10MiB",
                             kinds[i]) > 0);
        json_t *wanted = longbp_records(0, "advise %s --json", setting),
               *plan = longbp_json("plan %s --method auto --json", setting);
        expect_chosen(json_object_get(plan, "chosen"), wanted);
        static const char *const same[] = {"peak_bytes", "flops", "estimate_ms"};
        for (size_t k = 0; k < COUNT(same); k++)
            if (!near(number(plan, same[k]), number(json_array_get(wanted, 0), same[k])))
                fail_msg("%s, %s: %.17g, but plan says %.17g", kinds[i], same[k],
                         number(json_array_get(wanted, 0), same[k]), number(plan, same[k]));
        json_t *found = longbp_records(0,
                                       "max-context --model tiny --batch 2 --parallel %s --memory-limit 10MiB "
                                       "--head-chunk 256 --methods all,auto --json",
                                       kinds[i]);
        size_t last = json_array_size(found) - 1; // auto
        double max = extent_found(json_array_get(found, last));
        for (size_t m = 0; m < last; m++)
            assert_true(extent_found(json_array_get(found, m)) <= max);
        assert_true(max >= 300);
        json_decref(found);
        json_decref(plan);
        json_decref(wanted);
        free(setting);
    }
    char *out;
    assert_int_equal(longbp(&out, "plan --model tiny --context 300 --method auto --parallel stage=2,sequence=2"),
                     2);
    assert_non_null(strstr(out, "no exact method can be shared so: "));
    free(out);
}

// A plan of what is chosen that cannot be has a failure's exit code, and says which limit is how much too low.
static void what_is_missing_is_said(void **state)
{
    (void)state;
    static const char *const limits[] = {"--memory-limit 1MiB", "--memory-limit 1MiB --host-memory 1KiB",
                                         "--memory-limit 3MiB --host-memory 1KiB --offload weights"};
    static const char *const keys[][2] = {
        {"(limits.memory)", NULL}, {"(limits.memory)", NULL}, {"(limits.memory)", "(limits.host_memory)"}};
    for (size_t i = 0; i < COUNT(limits); i++) {
        char *out, *arguments;
        assert_true(asprintf(&arguments, "plan --model tiny --context 300 --method auto %s", limits[i]) > 0);
        int code = longbp(&out, arguments);
        for (size_t k = 0; k < 2; k++)
            if (code != 1 || (keys[i][k] && (!strstr(out, " bytes too few ") || !strstr(out, keys[i][k]))))
                fail_msg("%s: exit code %d: %s", arguments, code, out);
        free(arguments);
        free(out);
    }
    char *out, *arguments;
    size_t min_bytes = 0;
    longbp(&out, "plan --model tiny --context 300 --method auto --memory-limit 1MiB");
    const char *min = strstr(out, ", takes ");
    assert_non_null(min);
    assert_int_equal(sscanf(strchr(min, '('), "(%zu bytes)", &min_bytes), 1);
    free(out);
    assert_true(asprintf(&arguments, "plan --model tiny --context 300 --method auto --memory-limit %zuB",
                         min_bytes - 1) > 0);
    longbp(&out, arguments);
    assert_non_null(strstr(out, ", 1 byte too few (limits.memory)"));
    free(arguments);
    free(out);
}

// The interconnect changes the ranks' step times, and is named.
static void the_interconnect_is_weighed_and_named(void **state)
{
    (void)state;
    static const char *const named[] = {"", "--interconnect ethernet-10g", "--interconnect infiniband"},
                             *const said[] = {"(--interconnect)", "interconnect ethernet-10g",
                                              "interconnect infiniband"},
                             *const setting = "--model tiny --batch 4 --profile rtx-3090 --parallel data=4,zero=2";
    double ms[COUNT(named)];
    for (size_t i = 0; i < COUNT(named); i++) {
        char *lines[2], *out;
        assert_true(asprintf(&lines[0], "advise %s --context 300 %s", setting, named[i]) > 0);
        assert_true(
            asprintf(&lines[1], "max-context %s --methods auto --memory-limit 12MiB %s", setting, named[i]) > 0);
        for (size_t k = 0; k < COUNT(lines); k++) {
            assert_int_equal(longbp(&out, lines[k]), 0);
            if (!strstr(out, said[i]))
                fail_msg("%s: %s", lines[k], out);
            free(out);
        }
        assert_int_equal(longbp(&out, lines[0]), 0);
        assert_int_equal(sscanf(strchr(strstr(out, " candidates, "), '\n'), "%lf", &ms[i]), 1);
        free(out);
        free(lines[0]);
        free(lines[1]);
    }
    assert_true(ms[0] < ms[2] && ms[2] < ms[1]);
}

// Offload is chosen if the host has room for it, and options that change the gradient are if they were requested.
static void places_and_roundings_are_tried(void **state)
{
    (void)state;
    static const char *const setting = "advise --model llama-3-8b --dtype bf16 --lora r=8 --context 16384";
#define WIDE "--device-memory 20GiB --context 32768 --methods seco --chunk 8192"
    json_t *near = longbp_records(0, "%s --json --device-memory 20GiB", setting),
           *far = longbp_records(0, "%s --json --device-memory 4GiB --host-memory 120GiB", setting),
           *wide = longbp_records(0, "%s --json --profile h100-80g " WIDE, setting),
           *narrow =
               longbp_records(0, "%s --json --profile h100-80g " WIDE " --also weights,kv-gradient-dtype", setting);
    assert_false(offloads(near, "weights"));
    assert_string_equal(json_string_value(chosen_key(near, "kv_gradient_dtype")), "f32");
    assert_true(offloads(far, "weights"));
    char *arguments, *out;
    assert_true(asprintf(&arguments, "%s --device-memory 4GiB --host-memory 120GiB", setting) > 0);
    assert_int_equal(longbp(&out, arguments), 0);
    assert_non_null(strstr(out, " offload=weights"));
    assert_non_null(strstr(out, " --offload weights"));
    free(out);
    free(arguments);
    assert_true(json_is_null(chosen_key(wide, "weights")));
    assert_true(number(json_array_get(narrow, 0), "estimate_ms") < number(json_array_get(wide, 0), "estimate_ms"));
    assert_true(asprintf(&arguments, "%s " WIDE " --also weights,kv-gradient-dtype", setting) > 0);
    char *command = line_of(0, "run", arguments);
    assert_non_null(strstr(command, " --weights "));
    free(command);
    free(arguments);
#undef WIDE
    json_decref(narrow);
    json_decref(wide);
    json_decref(far);
    json_decref(near);
}

// Advice takes as long as the steps that it plans. For an 8B model at 1 M tokens, also with all of the host
// searched, they are a few hundred of 15,056.
static void advice_plans_few_steps(void **state)
{
    (void)state;
    static const struct {
        const char *memory;
        double plans;
    } cases[] = {{"--profile rtx-3090 --device-memory 80GB --host-memory 120GiB", 180},
                 {"--profile h200-141g --host-memory 2TiB", 420}};
    for (size_t i = 0; i < COUNT(cases); i += exhaustive() ? 1 : 2) {
        char *arguments, *out;
        double candidates, plans;
        assert_true(asprintf(&arguments, "advise --model llama-3-8b --dtype bf16 --lora r=8 --context 1048576 %s",
                             cases[i].memory) > 0);
        assert_int_equal(longbp(&out, arguments), 0);
        assert_int_equal(
            sscanf(strstr(out, "host  of "), "host  of %lf candidates, %lf planned", &candidates, &plans), 2);
        assert_true(candidates >= 10000);
        if (plans > cases[i].plans)
            fail_msg("%s: %g steps planned", cases[i].memory, plans);
        free(out);
        free(arguments);
    }
}

#define LARGE "--model llama-3-8b --dtype bf16 --lora r=8 "
struct said {
    const char *arguments, *says;
    int code;
};

static void expect_said(const struct said *said)
{
    char *arguments, *out;
    assert_true(asprintf(&arguments, "advise %s", said->arguments) > 0);
    int code = longbp(&out, arguments);
    if (code != said->code || !strstr(out, said->says))
        fail_msg("%s: exit code %d: %s", arguments, code, out);
    free(arguments);
    free(out);
}

// For drawn chunks a longer chunk is not better; shares refer to each chunk's own number of chunks.
static void chunks_are_tried_where_chunks_are_drawn(void **state)
{
    (void)state;
    static const struct said cases[] = {
        {LARGE "--context 8192 --profile rtx-4090 --methods spaco,seco --budget 2",
         "fastest   spaco chunk=256 budget=2 head_chunk=2048 keep=all", 0},
        {LARGE "--context 8192 --profile rtx-4090 --budget 40", "fastest   streambp chunk=8192 ", 0},
        {LARGE "--context 65536 --profile rtx-3090 --methods spaco --budget 4",
         "fastest   spaco chunk=512 budget=4 head_chunk=2048 keep=all segments=2", 0},
        {LARGE "--context 8192 --profile rtx-4090 --methods spaco --budget 100%",
         "fastest   spaco chunk=8192 budget=1 ", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        if (is_chosen(i, 2))
            expect_said(&cases[i]);
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    static const struct said cases[] = {
        {"--model tiny --context 512 --device-memory 1MiB", "Nothing fits", 1},
        {"--model tiny --context 512 --device-memory 1MiB", "\n  --host-memory SIZE               does not: ", 1},
        {"--model tiny --context 512 --device-memory 40MiB --host-memory 1KiB --offload inputs --methods "
         "checkpoint",
         "the host's memory", 1},
        {"--model tiny --context 512 --device-memory 40", "a size with its unit", 2},
        {"--model tiny --context 512 --device-memory 1GiB --against transformers",
         "their run is not planned: command line: key \"dtype\"", 0},
        {"--model tiny --context 512", "--memory-limit or --profile", 2},
        {"--model tiny --device-memory 1GiB", "--context", 2},
        {"--model tiny --context 512 --device-memory 1GiB --methods sceo", "seco", 2},
        {"--model tiny --context 512 --device-memory 1GiB --methods forward,null", "forward computes no gradient",
         2},
        {"--model tiny --context 512 --device-memory 1GiB --methods all,null", "null computes no gradient", 2},
        // Columns of each chunk's own.
        {"--model tiny --context 1000 --device-memory 1GiB --methods spaco --budget 8", "spaco chunk=128 budget=8",
         0},
        {"--model tiny --context 1000 --device-memory 1GiB --methods spaco --budget 9",
         "chunks of 128 are 8 chunks", 2},
        // The kind of seconds.
        {"--model tiny --context 1000 --device-memory 1GiB --methods spaco --budget 1",
         "where chunks are drawn, of the largest draw", 0},
        {"--model tiny --context 1000 --device-memory 1GiB --methods spaco --sampler fixed --drawn-chunks 0,2",
         "for a nominal card, to rank by.", 0},
        {"--model tiny --context 512 --device-memory 1GiB --profile results/host.json",
         "by the measured rates of profile host: nine in ten", 0},
        {"--model tiny --context 512 --like cuda --profile rtx-3090",
         "scaled to rtx-3090 in f32, which was not\nmeasured: a step may take 0.75 to 1.4 times as long.\n", 0},
        {"--model tiny --context 512 --device-memory 1GiB --documents 64",
         "\ntrain     not possible: command line: key \"train\": predicts every token of a window; leave", 0},
        {"--model tiny --context 256 --device-memory 8MiB", "\ntrain     not with adamw (longbp advise", 0},
        {"--model tiny --context 512 --device-memory 1GiB --lora r=4,targets=q,v",
         "\nLoRA      rank 4, alpha 16, of q, v\n", 0},
        {"--model tiny --context 1000 --device-memory 1GiB --methods spaco --sampler fixed --drawn-chunks 0,2",
         " --drawn-chunks 0,2 ", 0},
        {"--model tiny --context 512 --device-memory 1GiB --methods spaco --exact", "exact", 2},
        {"--model tiny --context 512 --device-memory 1GiB --methods full --chunk 3", "--chunk", 2},
        {"--model tiny --context 512 --device-memory 1GiB --methods seco --chunk 0", "chunk", 2},
        {"--model tiny --context 512 --device-memory 1GiB --also dtype",
         "--also: unknown key \"dtype\"; known keys: weights, kv_gradient_dtype", 2},
        {"--model tiny --context 512 --device-memory 1GiB --host-memory 1GiB --offload kv",
         "checkpoint left out: ", 0},
        {"--model tiny --context 512 --device-memory 1GiB --optimizer sgd,when=backward", "seco left out: ", 0},
        // With no host's memory the limit is of what needs none.
        {"--model llama-3-8b --dtype bf16 --lora r=8 --context 65536 --profile rtx-3090 --methods "
         "full,seco,streambp",
         "limit     the device's memory: seco chunk=65536 head_chunk=2048 keep=all, which would take 128.4 s", 0},
        {"--model tiny --context 512 --memory-limit 1", "--memory-limit: expected a size", 2},
        {"--model tiny --context 512 --device-memory 1", "--device-memory: expected a size", 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_said(&cases[i]);
}

// The framework's step beside the advice is what plan says of it, with each head.
static void expect_theirs(const char *out, const char *name, const char *loss)
{
    char *plan, *start, *arguments, size[3][32];
    assert_true(
        asprintf(&arguments,
                 "plan --model llama-3-8b --dtype bf16 --lora r=8 --context 4096 --method checkpoint --profile "
                 "rtx-3090 --like transformers --framework loss=%s --json",
                 loss) > 0);
    assert_int_equal(longbp(&plan, arguments), 0);
    free(arguments);
    json_t *record = json_loads(plan, 0, NULL), *framework = json_object_get(record, "framework");
    const json_t *bytes[] = {json_object_get(record, "peak_bytes"),
                             json_object_get(framework, "reserved_low_bytes"),
                             json_object_get(framework, "reserved_high_bytes")};
    for (size_t i = 0; i < 3; i++)
        size_text((size_t)json_integer_value(bytes[i]), size[i], sizeof *size);
    assert_true(asprintf(&start, "\n%-9s %12s  reserved %s to %s: %s; ", name, size[0], size[1], size[2],
                         json_string_value(json_object_get(record, "verdict"))) > 0);
    if (!strstr(out, start))
        fail_msg("no line \"%s\" in %s", start, out);
    free(start);
    json_decref(record);
    free(plan);
}

static void anothers_step_is_planned_beside_it(void **state)
{
    (void)state;
    char *out;
    int code = longbp(&out, "advise --model llama-3-8b --dtype bf16 --lora r=8 --context 4096 --profile rtx-3090 "
                            "--methods checkpoint --against transformers");
    assert_int_equal(code, 0);
    expect_theirs(out, "their run", "whole");
    expect_theirs(out, "the same", "chunked");
    expect_theirs(out, "the same", "trl");
    expect_theirs(out, "the same", "liger");
    assert_non_null(strstr(out, "its peak is in backward, at log_softmax_backward; 5.87 GiB of it are 3 tensors:"));
    free(out);
}

// Changes of a step without checkpoints, and of several sequences, are planned with it; and how long a context
// would fit by max-context.
static void changes_of_anothers_step_are_planned(void **state)
{
    (void)state;
    static const char step[] =
        "--model llama-3-8b --dtype bf16 --lora r=8 --batch 2 --optimizer adamw --profile rtx-3090";
    static const struct {
        const char *words, *plan;
    } changes[] = {
        {"checkpoints\n", "--method checkpoint"},
        {"checkpoints; its loss in chunks of 2,048 tokens\n", "--method checkpoint --framework loss=chunked"},
        {"checkpoints; its loss in chunks; 2 micro-batches of one sequence\n",
         "--method checkpoint --batch 1 --framework loss=chunked,gradients=held"}};
    char *out, *arguments, folder[] = "/tmp/longbp-advise-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/run.yaml", folder);
    FILE *file = fopen(path, "w");
    fputs("per_device_train_batch_size: 2\ngradient_accumulation_steps: 1\noptim: adamw_torch\n", file);
    fclose(file);
    assert_true(asprintf(&arguments, "advise --from %s --context 3000 --methods checkpoint %s", path, step) > 0);
    assert_int_equal(longbp(&out, arguments), 0);
    free(arguments);
    for (size_t i = 0; i < COUNT(changes); i++) {
        char peak[32], *line;
        json_t *plan = longbp_json("plan %s %s --context 3000 --like transformers --json", step, changes[i].plan);
        size_text((size_t)json_integer_value(json_object_get(plan, "peak_bytes")), peak, sizeof peak);
        assert_true(asprintf(&line, "\nthe same  %12s  ", peak) > 0);
        const char *found = strstr(out, changes[i].words), *begin = found;
        while (begin && begin > out && begin[-1] != '\n')
            begin--;
        if (!found || strncmp(begin, line + 1, strlen(line) - 1) != 0)
            fail_msg("no line \"%s...%s\" in %s", line, changes[i].words, out);
        free(line);
        json_decref(plan);
    }
    json_t *longest = longbp_records(0, "max-context %s --like transformers --methods full --json", step);
    char *said;
    assert_true(asprintf(&said, "\nat most   a context of %zu tokens, or with checkpoints; ",
                         (size_t)number(json_object_get(json_array_get(longest, 0), "trial"), "context")) > 0);
    assert_non_null(strstr(out, said));
    json_decref(longest);
    free(said);
    free(out);
    unlink(path);
    rmdir(folder);
}

// As records they are those of plan, behind the advice, each with what a run's own file has that no plan does.
static void anothers_step_is_recorded_beside_it(void **state)
{
    const struct scratch *scratch = *state;
    static const char file[] =
        "base_model: llama-3-8b\nmicro_batch_size: 1\nsequence_len: 2048\nsample_packing: true\n"
        "adapter: lora\noptimizer: adamw_torch\ngradient_checkpointing: true\nan_unknown_key: 3\n";
    static const char *const losses[] = {"whole", "chunked", "trl", "liger"};
    scratch_text(scratch, "run.yaml", file);
    struct scratch_path path = scratch_path(scratch, "run.yaml");
    json_t *rows = longbp_records(0, "advise --from %s --profile rtx-3090 --methods checkpoint --json", path.text);
    size_t count = json_array_size(rows), ours = count - COUNT(losses);
    assert_true(count > COUNT(losses));
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i), *framework = json_object_get(row, "framework");
        if (i < ours) {
            assert_true(json_is_null(framework));
            continue;
        }
        json_t *plan = longbp_json("plan --from %s --profile rtx-3090 --framework loss=%s --json", path.text,
                                   losses[i - ours]);
        static const char *const same[] = {"id", "peak_bytes", "framework"};
        for (size_t k = 0; k < COUNT(same); k++)
            if (!json_equal(json_object_get(row, same[k]), json_object_get(plan, same[k])))
                fail_msg("record %zu: another \"%s\" than that of plan", i, same[k]);
        const json_t *unchecked = json_object_get(framework, "unchecked");
        bool named = false;
        for (size_t k = 0; k < json_array_size(unchecked); k++)
            named |= strcmp(json_string_value(json_array_get(unchecked, k)),
                            "key \"an_unknown_key\": is not known, and was not read") == 0;
        assert_true(named);
        json_decref(plan);
    }
    json_decref(rows);
    // In words, too.
    char *out, *arguments;
    assert_true(asprintf(&arguments, "advise --from %s --profile rtx-3090 --methods checkpoint", path.text) > 0);
    assert_int_equal(longbp(&out, arguments), 0);
    assert_non_null(strstr(out, "unchecked key \"an_unknown_key\": is not known, and was not read\n"));
    free(arguments);
    free(out);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(advise_and_plan_agree),
        cmocka_unit_test(all_may_stand_in_a_list),
        cmocka_unit_test(anothers_step_is_planned_beside_it),
        cmocka_unit_test(changes_of_anothers_step_are_planned),
        cmocka_unit_test_setup_teardown(anothers_step_is_recorded_beside_it, scratch_setup, scratch_teardown),
        cmocka_unit_test(the_command_runs),
        cmocka_unit_test_setup_teardown(the_training_run_runs, scratch_setup, scratch_teardown),
        cmocka_unit_test(remedies_are_planned),
        cmocka_unit_test(seconds_that_are_not_told_apart_are_marked),
        cmocka_unit_test(blocks_longer_than_the_context_are_tried),
        cmocka_unit_test(auto_chooses_what_may_be_asked),
        cmocka_unit_test(a_card_planned_as_the_cpu_is_told),
        cmocka_unit_test(auto_walks_the_choice),
        cmocka_unit_test(auto_chooses_for_ranks),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(the_interconnect_is_weighed_and_named),
        cmocka_unit_test(places_and_roundings_are_tried),
        cmocka_unit_test(advice_plans_few_steps),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(chunks_are_tried_where_chunks_are_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
