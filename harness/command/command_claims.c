// Command: `longbp claims`, the papers' claims, compared with records.
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "harness/report/claims_report.h"
#include <stdlib.h>

enum { OPTION_FORMAT = 256 };

struct arguments {
    const char *path;
    enum table_format format;
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case OPTION_FORMAT:
        arguments->format = table_format_find(value);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num)
            argp_error(state, "one file of claims at a time; not also \"%s\"", value);
        arguments->path = value;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_claims(int argc, char **argv)
{
    static const struct flag options[] = {
        {.name = "format",
         .key = OPTION_FORMAT,
         .arg = "text|markdown|json",
         .doc = "Format of the table (default: text)"},
        {0},
    };
    static const struct argp argp = {
        NULL,
        parse,
        "[CLAIMS]",
        "Compares the papers' claims about their methods with recorded results, claim by claim: the published "
        "value, ours, and the gain over gradient checkpointing as the papers ran it (all logits at once, "
        "everything that autograd keeps) and over this core's lean one.\vCLAIMS is experiments/claims.json by "
        "default; its records are searched for in the current folder, then beside the program. A claim is "
        "\"reproduced\" or \"not reproduced\" by measurements; \"cannot tell\" if the 95 % interval of a ratio of "
        "measured times, which needs rounds (run --rounds) and is shown behind it, contains the bound; \"planned "
        "only\" if only a plan decides it, whose times are estimates; \"not run\" if nothing does.\n\nExit status: "
        "0 every verdict equals the file's, 1 one changed, 2 wrong use or a bad file.",
        NULL,
        NULL,
        NULL};
    struct arguments arguments = {.path = "experiments/claims.json"};
    struct claims claims;
    struct status status = {0};
    bool changed = false;
    arguments_parse(&argp, options, argc, argv, &arguments);
    bool fine = claims_open(&claims, arguments.path, NULL, &status);
    if (fine)
        claims_report_write(&claims, arguments.format, stdout);
    else
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    for (size_t i = 0; fine && i < claims.count; i++)
        changed |= claim_changed(&claims.items[i]);
    claims_close(&claims);
    return !fine ? EXIT_BAD_INPUT : changed ? EXIT_CHECK_FAILED : EXIT_FINE;
}
