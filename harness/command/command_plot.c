// Command: `longbp plot`, figures of recorded results.
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "harness/plot/plot.h"
#include <string.h>

enum { OPTION_SIZE = 256 };

// Tells whether the request may produce several kinds of figures; without --figures, all that the records allow.
static bool is_several(const struct plot_request *request)
{
    return !request->figures || strchr(request->figures, ',');
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct plot_request *request = state->input;
    struct status status = {0};
    switch (key) {
    case OPTION_SIZE:
        if (!picture_size_parse(value, &request->form.size, &status))
            argp_error(state, "%s", status.message);
        return 0;
    case ARGP_KEY_END:
        if (!request->path_count)
            argp_error(state, "name at least one result file");
        if (request->form.title && *request->form.title && is_several(request))
            argp_error(state,
                       "--title is the heading of one figure: name it by --figures, such as --figures memory");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_plot(int argc, char **argv)
{
    char names[320], figures[448], listed[700], panels[1000];
    plot_figures(", ", names, sizeof names);
    plot_panels(listed, sizeof listed);
    snprintf(panels, sizeof panels,
             "Only this panel of figures with several: %s; for published figures and longest contexts the heading "
             "above the panel, or its part up to a comma (default: all)",
             listed);
    snprintf(figures, sizeof figures, "Only these: %s (default: all that can be drawn)", names);
    const struct flag options[] = {
        {"out", .flags = OPTION_FIRST, .key = 'o', TEXT_AT(struct plot_request, form.folder), .arg = "DIR",
         .doc = "Folder of the pictures, created if missing (default: plots)"},
        {"format", .flags = OPTION_FIRST, .key = 'f', TEXT_AT(struct plot_request, form.formats),
         .arg = "svg|png|pdf|tsv,svg|png|pdf|tsv",
         .doc = "Formats among svg, png, pdf and tsv; tsv is the picture's table with a header line (default: "
                "svg,png)"},
        {"figures", .flags = OPTION_FIRST, TEXT_AT(struct plot_request, figures), .arg = "FIGURE,FIGURE",
         .doc = figures},
        {"where", .flags = OPTION_FIRST, LIST_AT(struct plot_request, conditions, condition_count),
         .arg = "KEY=VALUE,VALUE",
         .doc = "Only records whose field or key has one of these values; repeatable for further conditions "
                "(default: all)"},
        {"series", .flags = OPTION_FIRST, TEXT_AT(struct plot_request, series), .arg = "LIST",
         .doc = "Only these methods or series, with their usual colours: full,seco or \"seco, chunk 128\" "
                "(default: all)"},
        {"title", .flags = OPTION_FIRST, TEXT_AT(struct plot_request, form.title), .arg = "TEXT",
         .doc = "Heading of the pictures of the one figure in --figures; \"\": none, for any figures (default: the "
                "figure's own)"},
        {"size", .flags = OPTION_FIRST, .key = OPTION_SIZE, .arg = "WIDTHxHEIGHT",
         .doc = "Size on paper, in mm, cm or in: 170x110mm, or only a width: 85mm; bar charts keep their shape "
                "within it (default: 900 pixels wide)"},
        {"style", .flags = OPTION_FIRST, TEXT_AT(struct plot_request, form.style),
         .arg = "bare|grey|serif,bare|grey|serif",
         .doc = "Styles among bare, without heading and foot, for use with a caption; grey, for print without "
                "colours; serif, as in most papers (default: none)"},
        {"font", TEXT_AT(struct plot_request, form.font), .arg = "FAMILY",
         .doc = "Font family, such as \"Times New Roman\" or \"Latin Modern Roman\", which must be installed where "
                "the picture is drawn, or, for svg, shown (default: sans-serif)"},
        {"panel", .flags = OPTION_FIRST, TEXT_AT(struct plot_request, form.panel), .arg = "NAME", .doc = panels},
        {"log", .flags = OPTION_FIRST, TEXT_AT(struct plot_request, form.log), .arg = "AXES",
         .doc = "Logarithmic axes of figures with curves: x, y, x,y or none (default: chosen for legibility)"},
        {"published", TEXT_AT(struct plot_request, published), .arg = "DIR",
         .doc = "Folder of the published points (default: experiments/published here or near the program)"},
        {"scripts", TEXT_AT(struct plot_request, form.scripts), .arg = "DIR",
         .doc = "Folder of the gnuplot scripts (default: $LONGBP_PLOTS, else plots/ near the program)"},
        {OPERANDS, LIST_AT(struct plot_request, paths, path_count)},
        {0},
    };
    const struct argp argp = {NULL,
                              parse,
                              "[RESULTS...]",
                              "Draws figures from recorded results, one for each experiment and setting with "
                              "suitable records, and prints the path of each picture.\vNeeds gnuplot 5.4 or later. "
                              "Exit status: 0 drawn, 2 wrong use, a bad file, nothing to draw, or no gnuplot.",
                              NULL,
                              NULL,
                              NULL};
    struct plot_request request = {.form = {.folder = "plots", .formats = "svg,png"}};
    struct status status = {0};
    arguments_parse(&argp, options, argc, argv, &request);
    plot(&request, &status);
    free((void *)request.paths);
    free((void *)request.conditions);
    return command_end(argv[0], &status);
}
