#include "kernels/objectives/objective.h"
#include <string.h>

const struct objective *objective_find(const char *name)
{
    for (const struct objective *const *o = objectives; *o; o++)
        if (strcmp((*o)->name, name) == 0)
            return *o;
    return NULL;
}

struct objective_terms objective_terms(const struct objective *objective, const void *settings)
{
    struct objective_terms terms = objective->terms;
    CHECK(settings || !objective->set || objective == objectives[0]); // with the default settings
    if (objective->set && settings)
        objective->set(&terms, settings);
    return terms;
}

bool objective_has_sums(const struct objective *objective, const void *settings)
{
    return objective_terms(objective, settings).sequences.kind != SEQUENCE_NONE;
}

size_t objective_together(const struct objective *objective, const void *settings)
{
    struct objective_terms terms = objective_terms(objective, settings);
    return terms.divisor == PER_PAIR ? 2 : terms.masked_group ? terms.masked_group : 1;
}

bool objective_of_tokens(const struct objective *objective, const void *settings)
{
    struct objective_terms terms = objective_terms(objective, settings);
    return terms.required == 0 && terms.divisor != PER_PAIR;
}

bool objective_counts(const struct objective_terms *terms)
{
    return terms->weights == ROWS_BY_SEQUENCE || terms->sequences.mean;
}

bool objective_has_metric(const struct objective *objective, const void *settings, enum objective_metric metric)
{
    return objective_terms(objective, settings).metrics >> metric & 1;
}

bool objective_check(const struct objective *objective, const void *settings, size_t sequences,
                     size_t micro_batches, struct status *status)
{
    return !objective->check || objective->check(settings, sequences, micro_batches, status);
}
