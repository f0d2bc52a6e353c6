// Command: `longbp plot`, every figure that recorded results can be drawn as.
#include "harness/command/arguments.h"
#include "harness/command/command.h"
#include "harness/plot/plot.h"

enum { OPTION_SCRIPTS = 256, OPTION_FIGURES, OPTION_PUBLISHED, OPTION_MAX_CONTEXT, OPTION_ADVICE, OPTION_FRONTIER };

struct arguments {
    struct plot_request request;
    const char **paths, **max_context_paths, **advice_paths, **frontier_paths;
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'o':
        arguments->request.folder = value;
        return 0;
    case 'f':
        arguments->request.formats = value;
        return 0;
    case OPTION_SCRIPTS:
        arguments->request.scripts = value;
        return 0;
    case OPTION_FIGURES:
        arguments->request.figures = value;
        return 0;
    case OPTION_PUBLISHED:
        arguments->request.published = value;
        return 0;
    case OPTION_MAX_CONTEXT:
        arguments->max_context_paths[arguments->request.max_context_count++] = value;
        return 0;
    case OPTION_ADVICE:
        arguments->advice_paths[arguments->request.advice_count++] = value;
        return 0;
    case OPTION_FRONTIER:
        arguments->frontier_paths[arguments->request.frontier_count++] = value;
        return 0;
    case ARGP_KEY_ARG:
        arguments->paths[arguments->request.path_count++] = value;
        return 0;
    case ARGP_KEY_END:
        if (!arguments->request.path_count && !arguments->request.max_context_count &&
            !arguments->request.advice_count && !arguments->request.frontier_count)
            argp_error(state, "name at least one result file");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_plot(int argc, char **argv)
{
    char names[256], figures[384];
    plot_figures(", ", names, sizeof names);
    snprintf(figures, sizeof figures, "Only these: %s (default: all that can be drawn)", names);
    const struct argp_option options[] = {
        {"out", 'o', "DIR", 0, "Folder of the pictures; tables go to DIR/data (default: plots)", 0},
        {"format", 'f', "LIST", 0, "svg, png, or both (default: svg,png)", 0},
        {"figures", OPTION_FIGURES, "LIST", 0, figures, 0},
        {"published", OPTION_PUBLISHED, "DIR", 0,
         "Folder of the published points (default: experiments/published here or near the program)", 0},
        {"scripts", OPTION_SCRIPTS, "DIR", 0,
         "Folder of the gnuplot scripts (default: $LONGBP_PLOTS, else plots/ near the program)", 0},
        {"max-context", OPTION_MAX_CONTEXT, "FILE", 0,
         "What `longbp max-context --json` printed, for one card; give it again for more cards", 0},
        {"advice", OPTION_ADVICE, "FILE", 0, "What `longbp advise --json` printed: its front, a picture", 0},
        {"frontier", OPTION_FRONTIER, "FILE", 0, "What `longbp frontier --json` printed, a picture", 0},
        {0},
    };
    const struct argp argp = {options,
                              parse,
                              "[RESULTS...]",
                              "Draws figures from recorded results alone, one for each experiment and "
                              "setting that has the records for it, "
                              "and prints the path of each picture.\v"
                              "Needs gnuplot 5.4 or later. The tables are tab-separated with a header line. "
                              "Exit status: 0 drawn, 2 wrong "
                              "use, a bad file, nothing to draw, or no gnuplot.",
                              NULL,
                              NULL,
                              NULL};
    struct arguments arguments = {.request = {.folder = "plots", .formats = "svg,png"},
                                  .paths = calloc((size_t)argc + 1, sizeof *arguments.paths),
                                  .max_context_paths = calloc((size_t)argc + 1, sizeof *arguments.paths),
                                  .advice_paths = calloc((size_t)argc + 1, sizeof *arguments.paths),
                                  .frontier_paths = calloc((size_t)argc + 1, sizeof *arguments.paths)};
    CHECK(arguments.paths && arguments.max_context_paths && arguments.advice_paths && arguments.frontier_paths);
    arguments.request.advice_paths = arguments.advice_paths;
    arguments.request.frontier_paths = arguments.frontier_paths;
    arguments.request.paths = arguments.paths;
    arguments.request.max_context_paths = arguments.max_context_paths;
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    struct status status = {0};
    bool fine = plot(&arguments.request, &status);
    if (!fine) {
        fprintf(stderr, "%s: %s\n", argv[0], status.message);
    }
    free(arguments.paths);
    free(arguments.max_context_paths);
    free(arguments.advice_paths);
    free(arguments.frontier_paths);
    return fine ? EXIT_FINE : EXIT_BAD_INPUT;
}
