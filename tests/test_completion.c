// Completions of a shell: every command's flags as in its help, the values of every kind of argument, and the
// scripts; bash's is run, as are those of the other shells if they are installed.
#define _GNU_SOURCE // mkdtemp, asprintf
#include "harness/options/command.h"
#include "harness/profile/profile.h"
#include "methods/method.h"
#include "tests/program.h"
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void expect_lines(const struct scratch *scratch, const char *words, const char *const *expected)
{
    char command[512], *text, *rest, *line;
    snprintf(command, sizeof command, "$L --complete %s | cut -f 1", words);
    assert_int_equal(run(scratch, command), 0);
    text = rest = text_of(scratch, "out");
    size_t i = 0;
    while ((line = strsep(&rest, "\n")) && *line) {
        if (!expected[i] || strcmp(line, expected[i]) != 0)
            fail_msg("%s: expected %s, found %s", words, expected[i] ? expected[i] : "no more", line);
        i++;
    }
    if (expected[i])
        fail_msg("%s: %s is missing", words, expected[i]);
    free(text);
}

#define EXPECT(scratch, words, ...) expect_lines(scratch, words, (const char *const[]){__VA_ARGS__, NULL})

static void commands_are_those_of_the_help(void **state)
{
    struct scratch *scratch = *state;
    const char *names[64] = {NULL};
    size_t count = 0;
    for (const struct command *command = commands; command->name; command++)
        if (command->summary)
            names[count++] = command->name;
    expect_lines(scratch, "''", names);
    expect_lines(scratch, "help ''", names);
    EXPECT(scratch, "max-", "max-context", "max-batch");
    expect_lines(scratch, "tri", (const char *const[]){NULL}); // not for people
    expect_lines(scratch, "nothing ''", (const char *const[]){NULL});
}

static void options_are_those_of_the_help(void **state)
{
    struct scratch *scratch = *state;
    char command[512];
    for (const struct command *c = commands; c->name; c++) {
        if (!c->summary)
            continue;
        snprintf(command, sizeof command,
                 "$L %s --help-all | grep -oE '^ {2,6}(-., )?--[^ ]+(, --[^ ]+)*' | grep -oE -- "
                 "'--[a-z0-9-]+' | sort > help; $L --complete %s -- | cut -f 1 | sort > complete; cmp help "
                 "complete && [ -s help ]",
                 c->name, c->name);
        if (run(scratch, command) != 0)
            fail_msg("%s: %s", c->name, text_of(scratch, "complete"));
    }
}

// Each of a command, of options that it has, and short enough for one line of a terminal behind two spaces; man
// pages are made of the help.
static void examples_are_of_options_that_there_are(void **state)
{
    struct scratch *scratch = *state;
    char command[1024];
    for (const struct command *c = commands; c->name; c++) {
        if (!c->summary)
            continue;
        assert_non_null(c->examples);
        snprintf(
            command, sizeof command,
            "$L help %s | sed -n '/^Examples:$/,$s/^  longbp/longbp/p' > examples; cat > expected << "
            "'END'\n%s\nEND\n"
            "cmp examples expected && ! grep -v '^longbp %s' examples && $L --complete %s -- | cut -f 1 > known && "
            "! grep -oE -- '--[a-z-]+' examples | grep -vxFf known && ! grep -q '.\\{78\\}' examples",
            c->name, c->examples, c->name, c->name);
        if (run(scratch, command) != 0)
            fail_msg("%s: %s", c->name, text_of(scratch, "examples"));
    }
}

static void methods_and_profiles_are_all_that_there_are(void **state)
{
    struct scratch *scratch = *state;
    const char *names[64] = {NULL};
    struct named_files profiles;
    size_t count = 0;
    while (methods[count]) {
        names[count] = methods[count]->name;
        count++;
    }
    names[count] = "auto";
    expect_lines(scratch, "train --method ''", names);
    profile_list_read(&profiles);
    assert_true(profiles.names.count > 3);
    profiles.names.items[profiles.names.count] = ":file";
    expect_lines(scratch, "plan --profile ''", profiles.names.items);
}

// Behind `words` and what is typed already, the methods whose names begin with `begun`, and "all"; but not again.
static void expect_methods(const struct scratch *scratch, const char *words, const char *typed, const char *begun)
{
    char all[200], offered[64][80];
    const char *expected[64] = {NULL};
    size_t count = 0;
    snprintf(all, sizeof all, "%s%s%s", words, typed, begun);
    for (size_t m = 0; methods[m]; m++)
        if (strncmp(methods[m]->name, begun, strlen(begun)) == 0 && !strstr(typed, methods[m]->name)) {
            snprintf(offered[count], sizeof *offered, "%s%s", typed, methods[m]->name);
            expected[count] = offered[count];
            count++;
        }
    assert_true(count > 0);
    expect_lines(scratch, all, expected);
}

static void arguments_are_what_their_names_say(void **state)
{
    struct scratch *scratch = *state;
    EXPECT(scratch, "report --format l", "latex");
    EXPECT(scratch, "report --format=l", "--format=latex");
    EXPECT(scratch, "max-context --methods al", "all");
    expect_methods(scratch, "max-context --methods ", "full,", "se");
    expect_methods(scratch, "max-context --methods ", "seco,", "s"); // what is there is not offered again
    expect_methods(scratch, "max-context ", "--methods=seco,", "st");
    expect_lines(scratch, "grad --method seco,", (const char *const[]){NULL}); // takes one
    EXPECT(scratch, "grad --kv-gradient-dtype ''", "f64", "f32", "bf16");
    EXPECT(scratch, "grad --kv_gradient_dtype ''", "f64", "f32", "bf16"); // as in specs
    EXPECT(scratch, "grad --offload in", "inputs", "input_gradients");
    EXPECT(scratch, "grad --offload inputs,w", "inputs,weights");
    EXPECT(scratch, "grad --objective gr", "grpo");
    EXPECT(scratch, "train --optimizer bc", "bcd");
    EXPECT(scratch, "plan --dtype b", "bf16");
    EXPECT(scratch, "plan --host ''", "folder=");
    EXPECT(scratch, "plan --host folder=", ":folder");
    EXPECT(scratch, "run --axis conte", "context=");
    EXPECT(scratch, "run --axis keep=", "keep=lean", "keep=all");
    EXPECT(scratch, "run -o ''", ":file");
    EXPECT(scratch, "run ''", ":file");
    EXPECT(scratch, "compare --by chu", "chunk");
    EXPECT(scratch, "init --model ti", "tiny", ":folder");
    EXPECT(scratch, "init --out ''", ":folder");
    EXPECT(scratch, "list fi", "fields");
    EXPECT(scratch, "completion ''", "bash", "zsh", "fish");
    EXPECT(scratch, "grad --tf", "--tf32");
    expect_lines(scratch, "plan --context ''", (const char *const[]){NULL});
}

static void bash_completes(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        const char *words, *replies; // as bash takes the line apart
    } cases[] = {{"max-", "max-context max-batch "},
                 {"train --method s", "streambp seco spaco "},
                 {"report --format = l", "latex "},
                 {"report --format =", "text markdown latex csv json "},
                 {"max-context --methods full,se", "full,seco "},
                 {"run --axis keep =", "lean all "},
                 {"run spec", "spec.json "},
                 {"init --out fol", "folder "},
                 {"init --out = fol", "folder "}};
    assert_int_equal(run(scratch, "$L completion bash > script && mkdir folder && touch spec.json folder.txt"), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[512];
        snprintf(command, sizeof command,
                 "bash -c 'source ./script; COMP_WORDS=($L %s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _longbp; "
                 "printf \"%%s \" \"${COMPREPLY[@]}\"'",
                 cases[i].words);
        assert_int_equal(run(scratch, command), 0);
        char *replies = text_of(scratch, "out");
        if (strcmp(replies, cases[i].replies) != 0)
            fail_msg("%s: %s", cases[i].words, replies);
        free(replies);
    }
}

static void zsh_reads_its_script(void **state)
{
    if (run(*state, "command -v zsh") != 0) {
        print_message("zsh is not installed: its script is not checked\n");
        skip();
    }
    assert_int_equal(run(*state, "$L completion zsh > script && zsh -n script"), 0);
    assert_int_equal(run(*state, "zsh -fc 'autoload -U compinit && compinit -D -u && source ./script && "
                                 "[[ $_comps[longbp] == _longbp ]]'"),
                     0);
}

static void fish_completes(void **state)
{
    struct scratch *scratch = *state;
    if (run(scratch, "command -v fish") != 0) {
        print_message("fish is not installed: its script is not run\n");
        skip();
    }
    assert_int_equal(run(scratch,
                         "$L completion fish > script && mkdir folder && HOME=$PWD fish --no-config -c "
                         "'source script; alias longbp=$L; complete -C \"longbp max-\"; "
                         "complete -C \"longbp report --format=l\"; complete -C \"longbp init --out fol\"' "
                         "| cut -f 1 | tr '\\n' ' '"),
                     0);
    assert_says(scratch, "out", "max-batch max-context --format=latex folder/ ");
}

static void help_tells_of_a_command_what_it_says_itself(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run(scratch,
                         "$L help plan > a && $L plan --help > b && cmp a b && $L help > a && $L --help > b "
                         "&& cmp a b && grep -q '^  plan ' a"),
                     0);
    assert_refused(scratch, "$L help plam");
    assert_int_equal(run(scratch, "$L help trial"), 2);
    assert_refused(scratch, "$L completion tcsh");
    assert_int_equal(run(scratch, "$L completion"), 2);
}

// Only an explanation of a typing error is printed; other errors are left to argp.
static void misspelt_options_are_told(void **state)
{
    static const struct {
        const char *arguments, *says;
    } cases[] = {
        {"plan --contxt 5",
         "plan: unknown option --contxt; did you mean --context? `longbp plan --help-all` lists"},
        {"plan --model=tiny --contxt=5", "--contxt; did you mean --context?"},
        {"plan --head_chnk 5", "--head_chnk; did you mean --head-chunk?"},
        {"plan --device cpu", "unknown option --device; `longbp plan --help-all` lists"},
        {"plan --model tiny --context 5 --ho x", "option '--ho' is ambiguous"},
        {"report --format text --colums a", "unknown option --colums; did you mean --columns?"},
        {"run -o --otu --fersh", "unknown option --fersh; did you mean --fresh?"},
        {"run -o x -- --fersh", "--fersh: "},
        {"run -z --fersh", "invalid option -- 'z'"},
        {"plot --figures memroy r",
         "--figures: unknown word \"memroy\"; did you mean \"memory\"? known words: memory"},
        {"list metods", "unknown word \"metods\"; did you mean \"methods\"?"},
        {"init --model tiny --out x --dtype bfloat16",
         "--dtype: unknown word \"bfloat16\"; did you mean \"bf16\"?"},
    };
    struct scratch *scratch = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[200];
        snprintf(command, sizeof command, "$L %s", cases[i].arguments);
        assert_int_equal(run(scratch, command), 2);
        assert_says(scratch, "err", cases[i].says);
    }
    assert_int_equal(run(scratch, "$L plan --help --contxt > help && $L plan --mod tiny --contex 5"), 0);
}

// Choices of every option of every method, and its default.
static void help_has_choices_and_defaults(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(run(scratch, "$L grad --help-all | tr -s ' \\n' ' '"), 0);
    char *help = text_of(scratch, "out");
    for (size_t m = 0; methods[m]; m++)
        for (const struct option *o = methods[m]->options.rows; o && o->name; o++) {
            char flag[80], standard[80];
            snprintf(flag, sizeof flag, "--%s=", o->name);
            for (char *c = flag; *c; c++)
                *c = *c == '_' ? '-' : *c;
            const char *begun = strstr(help, flag);
            if (!begun) {
                fail_msg("no %s", flag);
                return;
            }
            const char *next = strstr(begun + 2, " --");
            char *line = strndup(begun, next ? (size_t)(next - begun) : strlen(begun));
            for (size_t c = 0; o->choices && o->choices[c]; c++)
                if (!strstr(line, o->choices[c]))
                    fail_msg("%s: no choice %s", line, o->choices[c]);
            if (o->type == OPTION_CHOICE)
                snprintf(standard, sizeof standard, "%s", o->choices[(size_t)o->initial]);
            else if (o->type == OPTION_WORDS)
                snprintf(standard, sizeof standard, "none");
            else
                snprintf(standard, sizeof standard, "%.15g", o->initial);
            const char *said = strrchr(line, '(');
            if (!said || (o->type != OPTION_LIST && !strstr(said, standard)))
                fail_msg("%s: not its default, %s", line, standard);
            free(line);
        }
    free(help);
}

// The help of every option with a value ends with its default.
static void help_has_every_default(void **state)
{
    struct scratch *scratch = *state;
    char command[512];
    for (const struct command *c = commands; c->name; c++) {
        if (!c->summary)
            continue;
        snprintf(command, sizeof command,
                 "$L %s --help-all | awk '/^  (    |-., )--[a-z]/ { print \"\" } { printf "
                 "\"%%s \", $0 } "
                 "!/^  / { print \"\" }' | grep -E '^ +(-., )?--[a-z-]+=' | grep -vE '\\(.*\\) *$'",
                 c->name);
        if (run(scratch, command) == 0)
            fail_msg("%s: %s", c->name, text_of(scratch, "out"));
    }
}

// A command's help has its own defaults where they differ from a spec's.
static void help_has_the_commands_own_defaults(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        const char *command, *says;
    } cases[] = {
        {"train", "of `longbp list optimizers` (adamw, rate=0.0001) "},
        {"grad", "with --tokens FILE all of it; required for random tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[512];
        snprintf(command, sizeof command, "$L %s --help-all | tr -s ' \n' ' ' | grep -qF '%s'", cases[i].command,
                 cases[i].says);
        if (run(scratch, command) != 0)
            fail_msg("%s: its help does not say \"%s\"", cases[i].command, cases[i].says);
    }
}

// Names stand at the left, their meanings in one column, and no line is wider than a terminal.
static void help_stays_in_its_columns(void **state)
{
    struct scratch *scratch = *state;
    char command[512];
    for (const struct command *c = commands; c->name; c++) {
        if (!c->summary)
            continue;
        snprintf(
            command, sizeof command,
            "$L %s --help-all > help && ! grep -v '^Usage:' help | grep -E '.{80}' && sed -nE '/^  (    |-., "
            ")--/,/usage "
            " /p' help > "
            "options && "
            "! grep -vE '^(  -., |      )--[^ ]+( --[^ ]+)*( +[^ ].*)?$|^ {29}[^ ]|^$|^ [OK][^ ].*:$' "
            "options && "
            "! grep -E '^(  -., |      )--[^ ]+ +[^- ]' options | grep -vE '^.{27}  [^ ]' && grep -q usage options",
            c->name);
        if (run(scratch, command) != 0)
            fail_msg("%s: %s", c->name, text_of(scratch, "out"));
    }
}

// The longest line of a command's help but for its usage and its examples.
static size_t widest(const struct scratch *scratch, const char *before)
{
    char command[300];
    snprintf(command, sizeof command, "%s $L train --help-all | sed '/^Usage/d; /^  longbp/d' | wc -L", before);
    assert_int_equal(run(scratch, command), 0);
    char *text = text_of(scratch, "out");
    size_t columns = strtoul(text, NULL, 10);
    free(text);
    return columns;
}

static bool is_between(size_t number, size_t min, size_t max)
{
    return number >= min && number <= max;
}

// A terminal's own width counts, and where stdout is none $COLUMNS.
static void help_is_as_wide_as_the_terminal(void **state)
{
    const struct scratch *scratch = *state;
    assert_true(is_between(widest(scratch, "COLUMNS="), 75, 79) &&
                is_between(widest(scratch, "COLUMNS=x"), 75, 79));
    assert_true(is_between(widest(scratch, "COLUMNS=100"), 95, 99));
    assert_true(is_between(widest(scratch, "COLUMNS=20"), 55, 59));
    assert_true(is_between(widest(scratch, "COLUMNS=1000"), 115, 119));
    char command[300], text[4096] = "";
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = 110}), 0);
    // Less than a terminal holds that nobody reads.
    snprintf(command, sizeof command, "exec 3<>%s; COLUMNS=70 $L list --help >&3", ptsname(terminal));
    assert_int_equal(run(scratch, command), 0);
    ssize_t bytes = read(terminal, text, sizeof text - 1);
    assert_true(bytes > 0);
    size_t max = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\r\n"));)
        max = strncmp(line, "Usage", 5) != 0 && strlen(line) > max ? strlen(line) : max;
    assert_true(is_between(max, 100, 109));
    close(terminal);
}

// The short help has the most used options and ends with a pointer to the rest; a command of few options shows
// all.
static void help_shows_first_what_is_used_first(void **state)
{
    struct scratch *scratch = *state;
    char command[400];
    for (const struct command *c = commands; c->name; c++) {
        if (!c->summary)
            continue;
        snprintf(
            command, sizeof command,
            "$L %s --help > help; $L %s --help-all > all; grep -oE '^ {2,6}(-., )?--[a-z-]+' help | sort > few; "
            "grep -oE '^ {2,6}(-., )?--[a-z-]+' all | sort > every; ! grep -q 'shows the other' all && if cmp -s "
            "few every; then cmp help all; else [ $(wc -l < few) -le 17 ] && [ -z \"$(comm -23 few every)\" ] && "
            "grep -qF '`longbp %s --help-all` shows the other options.' help; fi",
            c->name, c->name, c->name);
        if (run(scratch, command) != 0)
            fail_msg("%s: %s", c->name, text_of(scratch, "help"));
    }
    assert_int_equal(run(scratch,
                         "$L train --help > help; $L train --help-all > all; grep -q -- --context= help && ! grep "
                         "-q -- --keep= help && grep -q -- --keep= all"),
                     0);
    const char *parts[] = {
        "--context=", "\n Other options:\n",         "--verbose", "\n Keys of the trial, as in specs",
        "--seed=",    "\n Options of the method:\n", "--keep=",   "--help-all"};
    char *text = text_of(scratch, "all"), *at = text;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        at = strstr(at, parts[i]);
        assert_non_null(at);
    }
    free(text);
}

// The optimizer's default is the command's own.
static void help_of_the_optimizer_has_its_default(void **state)
{
    const struct scratch *scratch = *state;
    assert_int_equal(run(scratch, "$L train --help-all | tr -s ' \n' ' ' > help"), 0);
    assert_says(scratch, "help", "(adamw, rate=0.0001)");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(commands_are_those_of_the_help),
        TEST(options_are_those_of_the_help),
        TEST(examples_are_of_options_that_there_are),
        TEST(methods_and_profiles_are_all_that_there_are),
        TEST(arguments_are_what_their_names_say),
        TEST(bash_completes),
        TEST(zsh_reads_its_script),
        TEST(fish_completes),
        TEST(help_tells_of_a_command_what_it_says_itself),
        TEST(misspelt_options_are_told),
        TEST(help_has_choices_and_defaults),
        TEST(help_has_every_default),
        TEST(help_has_the_commands_own_defaults),
        TEST(help_stays_in_its_columns),
        TEST(help_is_as_wide_as_the_terminal),
        TEST(help_shows_first_what_is_used_first),
        TEST(help_of_the_optimizer_has_its_default),
    };
    return cmocka_run_group_tests_name("completion", tests, NULL, NULL);
}
