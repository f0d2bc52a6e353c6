#include "harness/report/claims_report.h"
#include "harness/json/number_json.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

const char *const claim_figure_titles[BASELINE_COUNT] = {
    [BASELINE_NONE] = "ours",
    [BASELINE_PUBLISHED] = "over the published checkpoint",
    [BASELINE_LEAN] = "over a lean checkpoint",
    [BASELINE_FRAMEWORK] = "published, over the framework's checkpoint with a chunked loss"};

// "planned only: holds in the plan"
static struct claim_words verdict_words(struct claim_judgement judgement)
{
    struct claim_words words;
    const char *plan = judgement.verdict != CLAIM_PLANNED_ONLY ? ""
                       : judgement.holds                       ? ": holds in the plan"
                                                               : ": does not hold in the plan";
    snprintf(words.text, sizeof words.text, "%s%s", claim_verdict_name(judgement.verdict), plan);
    return words;
}

// "21,693", as papers write numbers of tokens.
static void add_number(struct claim_words *words, double value)
{
    char digits[400];
    bool whole = fabs(value) >= 100 || value == floor(value);
    snprintf(digits, sizeof digits, whole ? "%.0f" : "%.3g", value);
    size_t used = strlen(words->text), count = strlen(digits);
    for (size_t i = 0; i < count && used + 2 < sizeof words->text; i++) {
        words->text[used++] = digits[i];
        if (whole && i + 1 < count && digits[i] != '-' && (count - i) % 3 == 1)
            words->text[used++] = ',';
    }
    words->text[used] = '\0';
}

static void add_text(struct claim_words *words, const char *text)
{
    size_t used = strlen(words->text);
    snprintf(words->text + used, sizeof words->text - used, "%s", text);
}

struct claim_words claim_figure_words(const struct claim_figure *figure)
{
    struct claim_words words = {""};
    if (isnan(figure->value))
        return (struct claim_words){"-"};
    add_number(&words, figure->value);
    if (figure->high > figure->low && figure->low >= figure->value) { // the least of several
        add_text(&words, " to ");
        add_number(&words, figure->high);
    } else if (isinf(figure->high)) {
        add_text(&words, " (one round)");
    } else if (figure->high > figure->low) {
        add_text(&words, " (");
        add_number(&words, figure->low);
        add_text(&words, " to ");
        add_number(&words, figure->high);
        add_text(&words, ")");
    }
    add_text(&words, figure->planned ? " (planned)" : "");
    return words;
}

static void write_table(const struct claims *claims, enum table_format format, FILE *stream)
{
    struct text_table table = {0};
    const char *cells[BASELINE_COUNT + 4] = {"claim", "published"};
    memcpy(cells + 2, claim_figure_titles, sizeof claim_figure_titles);
    cells[BASELINE_COUNT + 2] = "verdict";
    text_table_row(&table, cells);
    for (size_t i = 0; i < claims->count; i++) {
        const struct claim *claim = &claims->items[i];
        struct claim_words figures[BASELINE_COUNT], verdict = verdict_words(claim->found);
        char text[300];
        snprintf(text, sizeof text, "%.60s: %.220s", claim->paper, claim->text);
        cells[0] = text;
        cells[1] = claim->published;
        for (int b = 0; b < BASELINE_COUNT; b++) {
            figures[b] = claim_figure_words(&claim->figures[b]);
            cells[2 + b] = figures[b].text;
        }
        cells[BASELINE_COUNT + 2] = verdict.text;
        text_table_row(&table, cells);
    }
    text_table_print(&table, format, stream);
    text_table_free(&table);
}

static void write_causes(const struct claims *claims, bool markdown, FILE *stream)
{
    fputc('\n', stream);
    for (size_t i = 0; i < claims->count; i++) {
        const struct claim *claim = &claims->items[i];
        fprintf(stream, "%s%s (%s", markdown ? "- " : "", claim->id, claim->source);
        for (size_t p = 0; claim->pictures[p]; p++)
            fprintf(stream, "%s%s", p ? ", " : "; picture ", claim->pictures[p]);
        fprintf(stream, ")%s%s\n", *claim->cause ? ": " : "", claim->cause);
    }
}

static void write_rounds(const struct claims *claims, FILE *stream)
{
    bool one = false;
    for (size_t i = 0; i < claims->count; i++)
        for (int b = 0; b < BASELINE_COUNT; b++)
            one |= isinf(claims->items[i].figures[b].high);
    if (one)
        fputs("\none round: how far a ratio of times may be off tells a measurement in several (longbp run "
              "EXPERIMENT "
              "--rounds 5)\n",
              stream);
}

static void write_changes(const struct claims *claims, FILE *stream)
{
    bool any = false;
    for (size_t i = 0; i < claims->count; i++)
        any |= claim_changed(&claims->items[i]);
    if (any)
        fputc('\n', stream);
    for (size_t i = 0; i < claims->count; i++) {
        const struct claim *claim = &claims->items[i];
        if (claim_changed(claim))
            fprintf(stream, "changed: %s was \"%s\" and is \"%s\"\n", claim->id,
                    verdict_words(claim->committed).text, verdict_words(claim->found).text);
    }
}

static json_t *figure_json(const struct claim_figure *figure)
{
    if (isnan(figure->value))
        return json_null();
    return json_pack("{s:f, s:o, s:o, s:b, s:o}", "value", figure->value, "low", number_json(figure->low), "high",
                     number_json(figure->high), "planned", (int)figure->planned, "context",
                     number_json(figure->context));
}

static json_t *judgement_json(struct claim_judgement judgement)
{
    return json_pack("{s:s, s:b}", "verdict", claim_verdict_name(judgement.verdict), "holds", (int)judgement.holds);
}

static void write_json(const struct claims *claims, FILE *stream)
{
    json_t *list = json_array();
    for (size_t i = 0; i < claims->count; i++) {
        const struct claim *claim = &claims->items[i];
        json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s?, s:o, s:o, s:b}", "id", claim->id, "paper",
                                   claim->paper, "claim", claim->text, "published", claim->published, "source",
                                   claim->source, "cause", claim->cause, "decided_by",
                                   claim->decided_by < 0 ? NULL : claim_baseline_names[claim->decided_by], "found",
                                   judgement_json(claim->found), "committed", judgement_json(claim->committed),
                                   "changed", (int)claim_changed(claim));
        CHECK(object);
        json_t *figures = json_object(), *pictures = json_array();
        for (size_t p = 0; claim->pictures[p]; p++)
            CHECK(json_array_append_new(pictures, json_string(claim->pictures[p])) == 0);
        for (int b = 0; b < BASELINE_COUNT; b++)
            CHECK(json_object_set_new(figures, claim_baseline_names[b], figure_json(&claim->figures[b])) == 0);
        CHECK(json_object_set_new(object, "figures", figures) == 0 &&
              json_object_set_new(object, "pictures", pictures) == 0 && json_array_append_new(list, object) == 0);
    }
    json_dumpf(list, stream, JSON_INDENT(1));
    fputc('\n', stream);
    json_decref(list);
}

void claims_report_write(const struct claims *claims, enum table_format format, FILE *stream)
{
    if (format == TABLE_JSON) {
        write_json(claims, stream);
        return;
    }
    write_table(claims, format, stream);
    write_causes(claims, format == TABLE_MARKDOWN, stream);
    write_rounds(claims, stream);
    write_changes(claims, stream);
}
