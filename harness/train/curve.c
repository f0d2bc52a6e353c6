#include "harness/train/curve.h"
#include "harness/record/record_json.h"

// Calls what is given for the address of each of its arrays.
static void each(struct curve *curve, void (*visit)(double **array, size_t count), size_t count)
{
    double **alone[] = {&curve->loss,         &curve->gradient_norm,   &curve->unchanged_weights,
                        &curve->lost_updates, &curve->evaluation_step, &curve->evaluation_loss};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        visit(alone[i], count);
    for (size_t m = 0; m < OBJECTIVE_METRICS; m++) {
        visit(&curve->metrics[m], count);
        visit(&curve->evaluation_metrics[m], count);
    }
}

static void make(double **array, size_t count)
{
    CHECK((*array = calloc(count, sizeof **array)));
}

static void drop(double **array, size_t count)
{
    (void)count;
    free(*array);
}

void curve_open(struct curve *curve, size_t steps)
{
    *curve = (struct curve){0};
    each(curve, make, steps + 1); // evaluations come before the first step and after each
}

void curve_close(struct curve *curve)
{
    each(curve, drop, 0);
    *curve = (struct curve){0};
}

void curve_note_step(struct curve *curve, const struct train *train)
{
    size_t i = curve->steps++;
    curve->loss[i] = train->sums.loss;
    curve->gradient_norm[i] = train->gradient_norm;
    curve->unchanged_weights[i] = lost_updates_unchanged(&train->lost_updates);
    curve->lost_updates[i] = lost_updates_lost(&train->lost_updates);
    for (size_t m = 0; m < OBJECTIVE_METRICS; m++)
        curve->metrics[m][i] = train->sums.metrics[m];
}

void curve_note_evaluation(struct curve *curve, size_t step, const struct objective_sums *found)
{
    size_t i = curve->evaluations++;
    curve->evaluation_step[i] = (double)step;
    curve->evaluation_loss[i] = found->loss;
    for (size_t m = 0; m < OBJECTIVE_METRICS; m++)
        curve->evaluation_metrics[m][i] = found->metrics[m];
}

struct record_curve *curve_record(const struct curve *curve, const struct trial *trial)
{
    struct record_curve *record = malloc(sizeof *record);
    CHECK(record);
    size_t steps = curve->steps, evaluations = curve->evaluations,
           measured = trial->measure.lost_updates ? steps : 0;
    *record = (struct record_curve){.given = true,
                                    .loss = number_list_copy(curve->loss, steps),
                                    .gradient_norm = number_list_copy(curve->gradient_norm, steps),
                                    .evaluation_step = number_list_copy(curve->evaluation_step, evaluations),
                                    .evaluation_loss = number_list_copy(curve->evaluation_loss, evaluations),
                                    .unchanged_weights = number_list_copy(curve->unchanged_weights, measured),
                                    .lost_updates = number_list_copy(curve->lost_updates, measured)};
    for (int m = 0; m < OBJECTIVE_METRICS; m++) {
        bool has = objective_has_metric(trial->objective, trial->objective_options, (enum objective_metric)m);
        record->metrics[m] = number_list_copy(curve->metrics[m], has ? steps : 0);
        record->evaluation_metrics[m] = number_list_copy(curve->evaluation_metrics[m], has ? evaluations : 0);
    }
    return record;
}
