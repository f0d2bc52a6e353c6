// Command: `longbp report`, recorded results beside what papers published.
#include "harness/command/arguments.h"
#include "harness/command/command.h"
#include "harness/results/report.h"
#include <stdlib.h>

enum { OPTION_PUBLISHED = 256, OPTION_MARKDOWN, OPTION_SUMMARY, OPTION_MAX_CONTEXT };

struct arguments {
    struct report_request request;
    const char **paths, **max_context_paths;
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case OPTION_PUBLISHED:
        arguments->request.published = value;
        return 0;
    case OPTION_MARKDOWN:
        arguments->request.markdown = true;
        return 0;
    case OPTION_SUMMARY:
        arguments->request.points = false;
        return 0;
    case OPTION_MAX_CONTEXT:
        arguments->max_context_paths[arguments->request.max_context_count++] = value;
        return 0;
    case ARGP_KEY_ARG:
        arguments->paths[arguments->request.path_count++] = value;
        return 0;
    case ARGP_KEY_END:
        if (!arguments->request.path_count && !arguments->request.max_context_count)
            argp_error(state, "name at least one result file");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_report(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"published", OPTION_PUBLISHED, "DIR", 0,
         "Folder of the published points (default: experiments/published here or near the program)", 0},
        {"max-context", OPTION_MAX_CONTEXT, "FILE", 0,
         "What `longbp max-context --json` printed, beside the longest contexts that others report; again for more",
         0},
        {"markdown", OPTION_MARKDOWN, NULL, 0, "Tables as markdown", 0},
        {"summary", OPTION_SUMMARY, NULL, 0, "One line for each series, and not every point", 0},
        {0},
    };
    static const struct argp argp = {
        options,
        parse,
        "[RESULTS...]",
        "Sets recorded results beside the points that papers published for the same experiment: published, ours "
        "and "
        "their ratio, and what each series grows by per token; says where a step's time goes, of records that "
        "have it, and how far predictions by measured rates are off.\v"
        "Times of planned trials are estimates, and are called so. Exit status: 0 fine, 2 wrong use, a bad file, "
        "or "
        "nothing published of these experiments.",
        NULL,
        NULL,
        NULL};
    struct arguments arguments = {.request = {.points = true},
                                  .paths = calloc((size_t)argc + 1, sizeof *arguments.paths),
                                  .max_context_paths = calloc((size_t)argc + 1, sizeof *arguments.paths)};
    CHECK(arguments.paths && arguments.max_context_paths);
    arguments.request.paths = arguments.paths;
    arguments.request.max_context_paths = arguments.max_context_paths;
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    struct status status = {0};
    bool fine = report_write(&arguments.request, stdout, &status);
    if (!fine)
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    free(arguments.max_context_paths);
    free(arguments.paths);
    return fine ? EXIT_FINE : EXIT_BAD_INPUT;
}
