#include "harness/page/html.h"
#include "harness/page/part.h"
#include "harness/text/size.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Records of one program on one machine.
struct origin {
    const struct record *example;
    size_t count;
    const char *first, *last; // time
    json_t *files;
};

static bool same_text(const char *a, const char *b)
{
    return strcmp(text_or(a, ""), text_or(b, "")) == 0;
}

static bool same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static bool is_alike(const struct record *one, const struct record *other)
{
    const struct record_provenance *a = &one->provenance, *b = &other->provenance;
    return same_text(a->revision, b->revision) && a->dirty == b->dirty && same_text(a->compiler, b->compiler) &&
           same_text(a->flags, b->flags) && same_text(a->blas, b->blas) && same_text(a->cpu, b->cpu) &&
           same_text(a->card, b->card) && same_text(a->kernel, b->kernel) && same_text(a->version, b->version) &&
           same_number(a->threads, b->threads) && same_number(a->host_memory_bytes, b->host_memory_bytes);
}

static size_t origins_of(const struct results *results, struct origin *origins)
{
    size_t count = 0;
    for (size_t i = 0; i < results->count; i++) {
        const struct record *record = results->records[i];
        const char *time = record->provenance.time;
        size_t at = 0;
        while (at < count && !is_alike(origins[at].example, record))
            at++;
        struct origin *origin = &origins[at];
        if (at == count) {
            *origin = (struct origin){.example = record, .files = json_object()};
            count++;
        }
        origin->count++;
        origin->first = time && (!origin->first || strcmp(time, origin->first) < 0) ? time : origin->first;
        origin->last = time && (!origin->last || strcmp(time, origin->last) > 0) ? time : origin->last;
        json_t *path = record_text(results->origins[i]);
        CHECK(json_object_set_new(origin->files, json_string_value(path), json_true()) == 0);
        json_decref(path);
    }
    return count;
}

static void write_term(const char *name, const char *value, FILE *stream)
{
    if (!value || !*value)
        return;
    fprintf(stream, "<dt>%s</dt><dd>", name);
    html_text(stream, value);
    fputs("</dd>\n", stream);
}

static void write_machine(const struct record_provenance *provenance, FILE *stream)
{
    char threads[40] = "", memory[40] = "";
    if (provenance->threads > 0)
        snprintf(threads, sizeof threads, "%.0f", provenance->threads);
    if (provenance->host_memory_bytes > 0)
        size_text((size_t)provenance->host_memory_bytes, memory, sizeof memory);
    write_term("processor", provenance->cpu, stream);
    write_term("threads", threads, stream);
    write_term("memory", memory, stream);
    write_term("card", provenance->card, stream);
    write_term("kernel", provenance->kernel, stream);
}

static void write_origin(const struct origin *origin, FILE *stream)
{
    const struct record_provenance *provenance = &origin->example->provenance;
    char revision[120] = "", span[80] = "";
    const char *file;
    json_t *value;
    if (provenance->revision)
        snprintf(revision, sizeof revision, "%.60s%s", provenance->revision,
                 provenance->dirty == 1 ? ", with changes that are not committed" : "");
    if (origin->first)
        snprintf(span, sizeof span, strcmp(origin->first, origin->last) == 0 ? "%.30s" : "%.30s to %.30s",
                 origin->first, origin->last);
    fprintf(stream, "<div><h3>%zu record%s</h3>\n<dl>\n", origin->count, origin->count == 1 ? "" : "s");
    write_term("revision", revision, stream);
    write_term("version", provenance->version, stream);
    write_term("recorded", span, stream);
    write_machine(provenance, stream);
    write_term("compiler", provenance->compiler, stream);
    write_term("flags", provenance->flags, stream);
    write_term("BLAS", provenance->blas, stream);
    json_object_foreach(origin->files, file, value)
    {
        write_term("file", file, stream);
    }
    fputs("</dl></div>\n", stream);
}

bool origins_part(const struct page *page, FILE *stream, size_t *count, struct status *status)
{
    (void)status;
    struct origin *origins = calloc(page->results.count + 1, sizeof *origins);
    *count = origins_of(&page->results, origins);
    if (*count)
        fputs("<div class=\"origins\">\n", stream);
    for (size_t i = 0; i < *count; i++) {
        write_origin(&origins[i], stream);
        json_decref(origins[i].files);
    }
    if (*count)
        fputs("</div>\n", stream);
    free(origins);
    return true;
}
