#include "harness/page/html.h"
#include "harness/page/part.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Distinct words.
struct words {
    size_t count;
    json_t *seen;
};

static void words_add(struct words *words, const char *word)
{
    if (!words->seen)
        words->seen = json_object();
    json_t *text = record_text(word);
    if (*word && !json_object_get(words->seen, json_string_value(text))) {
        CHECK(json_object_set_new(words->seen, json_string_value(text), json_true()) == 0);
        words->count++;
    }
    json_decref(text);
}

static void write_fact(const char *name, struct words *words, FILE *stream)
{
    enum { MAX = 6 };
    const char *word;
    json_t *value;
    size_t at = 0;
    if (words->count) {
        fprintf(stream, "<div><dt>%s</dt><dd>", name);
        json_object_foreach(words->seen, word, value)
        {
            if (at < MAX && at)
                fputs(" · ", stream);
            if (at++ < MAX)
                html_text(stream, word);
        }
        if (at > MAX)
            fprintf(stream, " and %zu more", at - MAX);
        fputs("</dd></div>\n", stream);
    }
    json_decref(words->seen);
}

static void add_machine(struct words *words, const struct record *record)
{
    const struct record_provenance *provenance = &record->provenance;
    char text[200];
    record_card(record, text, sizeof text);
    if (record_is_planned(record))
        snprintf(text, sizeof text, "planned%s%.100s", record->profile ? ", profile " : "",
                 text_or(record->profile, ""));
    else if (!*text && provenance->cpu)
        snprintf(text, sizeof text, "%.120s, %.0f thread%s", provenance->cpu, fmax(provenance->threads, 0),
                 provenance->threads == 1 ? "" : "s");
    words_add(words, text);
}

static void write_count(const struct results *results, FILE *stream)
{
    size_t by_status[RECORD_STATUS_COUNT] = {0}, planned = 0;
    for (size_t i = 0; i < results->count; i++) {
        by_status[results->records[i]->status]++;
        planned += record_is_planned(results->records[i]);
    }
    fprintf(stream, "<div><dt>Records</dt><dd>%zu", results->count);
    for (int s = 0; s < RECORD_STATUS_COUNT; s++)
        if (by_status[s])
            fprintf(stream, "%s %zu %s", s == RECORD_OK ? ":" : ",", by_status[s],
                    record_status_name((enum record_status)s));
    if (planned)
        fprintf(stream, "; %zu planned", planned);
    fputs("</dd></div>\n", stream);
}

void facts_write(const struct page *page, FILE *stream)
{
    const struct results *results = &page->results;
    struct words experiments = {0}, revisions = {0}, machines = {0}, days = {0};
    const char *first = NULL, *last = NULL;
    for (size_t i = 0; i < results->count; i++) {
        const struct record *record = results->records[i];
        const char *time = record->provenance.time;
        words_add(&experiments, record->experiment);
        words_add(&revisions, text_or(record->provenance.revision, ""));
        add_machine(&machines, record);
        first = time && (!first || strcmp(time, first) < 0) ? time : first;
        last = time && (!last || strcmp(time, last) > 0) ? time : last;
    }
    if (first) {
        char span[64];
        bool one = strncmp(first, last, 10) == 0;
        snprintf(span, sizeof span, one ? "%.10s" : "%.10s to %.10s", first, last);
        words_add(&days, span);
    }
    fputs("<dl class=\"facts\">\n", stream);
    write_count(results, stream);
    write_fact("Experiments", &experiments, stream);
    write_fact("Revisions", &revisions, stream);
    write_fact("Machines", &machines, stream);
    write_fact("Recorded", &days, stream);
    fputs("</dl>\n", stream);
}
