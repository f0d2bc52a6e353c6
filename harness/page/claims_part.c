#include "harness/files/share.h"
#include "harness/page/html.h"
#include "harness/page/part.h"
#include "harness/report/claims_report.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The column's title is repeated in each cell if the window is too narrow for columns.
static void write_figure(const struct claim_figure *figure, const char *title, FILE *stream)
{
    struct claim_words words = claim_figure_words(figure);
    bool none = strcmp(words.text, "-") == 0;
    fprintf(stream, "<td class=\"n%s\" data-title=\"%s\">%s</td>", none ? " none" : "", title,
            none ? "–" : words.text);
}

static void write_verdict(const struct claim *claim, FILE *stream)
{
    const char *name = claim_verdict_name(claim->found.verdict);
    char look[40];
    snprintf(look, sizeof look, "%s", name);
    for (char *c = look; *c; c++)
        *c = *c == ' ' ? '-' : *c;
    fprintf(stream, "<td><span class=\"verdict %s\">%s", look, name);
    if (claim->found.verdict == CLAIM_PLANNED_ONLY)
        fprintf(stream, "<small>%s in the plan</small>", claim->found.holds ? "holds" : "does not hold");
    fputs("</span></td>", stream);
}

// Links its figures on the page, for any setting.
static void write_links(const struct claim *claim, const struct page_figures *figures, FILE *stream)
{
    const char *before = ". Figure: ";
    for (size_t p = 0; claim->pictures[p]; p++)
        for (size_t i = 0; i < figures->count; i++) {
            if (strcmp(figures->items[i].kind, claim->pictures[p]) != 0)
                continue;
            fprintf(stream, "%s<a href=\"#picture-%zu\">", before, i + 1);
            html_text(stream, figures->items[i].name);
            fputs("</a>", stream);
            before = ", ";
        }
}

static void write_claim(const struct claim *claim, const struct page_figures *figures, FILE *stream)
{
    fputs("<tr><th scope=\"row\"><span class=\"paper\">", stream);
    html_text(stream, claim->paper);
    fputs("</span> ", stream);
    html_text(stream, claim->text);
    fputs("<span class=\"cause\">", stream);
    html_text(stream, claim->source);
    if (*claim->cause)
        fputs(". ", stream);
    html_text(stream, claim->cause);
    write_links(claim, figures, stream);
    fputs("</span></th>", stream);
    write_verdict(claim, stream);
    fputs("<td class=\"n\" data-title=\"published\">", stream);
    html_text(stream, claim->published);
    fputs("</td>", stream);
    for (int b = 0; b < BASELINE_COUNT; b++)
        write_figure(&claim->figures[b], claim_figure_titles[b], stream);
    fputs("</tr>\n", stream);
}

static void write_claims(const struct claims *claims, size_t count, const struct page_figures *figures,
                         FILE *stream)
{
    fputs("<p>What papers say, held against these records: over gradient checkpointing as they ran it, and over a "
          "lean "
          "checkpoint on the same core; and the paper's longest context over that of transformers with checkpoints "
          "and its loss in chunks. What is planned was not measured.</p>\n"
          "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Claims\"><table "
          "class=\"claims\">\n<thead>"
          "<tr><th scope=\"col\">claim</th><th scope=\"col\">verdict</th><th scope=\"col\" "
          "class=\"n\">published</th>",
          stream);
    for (int b = 0; b < BASELINE_COUNT; b++)
        fprintf(stream, "<th scope=\"col\" class=\"n wraps\">%s</th>", claim_figure_titles[b]);
    fputs("</tr></thead>\n<tbody>\n", stream);
    for (size_t i = 0; i < claims->count; i++)
        if (claims->items[i].decided_by >= 0)
            write_claim(&claims->items[i], figures, stream);
    fputs("</tbody></table></div>\n", stream);
    if (count < claims->count)
        fprintf(
            stream,
            "<p class=\"quiet\">%zu more claim%s decided by other records, or by none: <code>longbp claims</code> "
            "has them all.</p>\n",
            claims->count - count, claims->count - count == 1 ? " is" : "s are");
}

bool claims_part(const struct page *page, FILE *stream, size_t *count, struct status *status)
{
    const struct report_request *report = page->report;
    const char *path = page->claims ? page->claims : "experiments/claims.json";
    char found[PATH_MAX];
    // The default file may be missing.
    if (!page->claims && access(share_resolve(path, found), R_OK) != 0)
        return true;
    const struct claim_files files = {report->path_count, report->paths};
    struct claims claims;
    bool fine = claims_open(&claims, path, &files, status);
    for (size_t i = 0; fine && i < claims.count; i++)
        *count += claims.items[i].decided_by >= 0;
    if (fine && *count)
        write_claims(&claims, *count, &page->figures, stream);
    claims_close(&claims);
    return fine;
}
