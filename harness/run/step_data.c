#include "harness/run/step_data.h"
#include "kernels/base/random.h"

// Of every row, uniform in [0, 1).
static double *random_weights(const struct trial *trial, struct status *status)
{
    size_t count = trial->batch * trial->context;
    double *weights = malloc(count * sizeof *weights);
    struct random random = random_named(trial->seed, "row weights");
    if (!weights)
        status_set(status, STATUS_OOM, "no room on the host for the weights of %zu rows", count);
    for (size_t i = 0; weights && i < count; i++)
        weights[i] = random_uniform(&random, i);
    return weights;
}

// Rows with a target that weigh nothing, all of them, have no mean.
static bool check_weights(const struct batch_data *data, const char *path, struct status *status)
{
    for (size_t i = 0; i < data->batch * data->context; i++)
        if (data->labels[i] != NO_TARGET && data->weights[i] > 0)
            return true;
    return status_set(status, STATUS_BAD_INPUT,
                      "%s: weights are 0 wherever there is a label, so there is nothing to average", path);
}

static bool read_batch_file(struct batch_data *data, const struct trial *trial, struct status *status)
{
    const char *path = trial->data.path;
    if (!batch_file_read(data, path, trial->context, trial->batch, trial->config.vocab, status))
        return false;
    if (trial->objective->averaging != MEAN_BY_WEIGHT)
        return true;
    if (!data->weights)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: has no tensor \"weights\"; objective %s needs it, a number >= 0 for every token",
                          path, trial->objective->name);
    return check_weights(data, path, status);
}

bool step_data_read(struct batch_data *data, const struct trial *trial, struct status *status)
{
    size_t vocab = trial->config.vocab;
    *data = (struct batch_data){.context = trial->context, .batch = trial->batch};
    if (trial->data.kind == DATA_BATCH)
        return read_batch_file(data, trial, status);
    data->ids = tokens_read(&trial->data, trial->context, trial->batch, vocab, trial->seed, status);
    if (data->ids && trial->labels)
        data->labels = tokens_read_labels(trial->labels, trial->context, trial->batch, vocab, status);
    if (data->ids && trial->objective->averaging == MEAN_BY_WEIGHT)
        data->weights = random_weights(trial, status);
    return status->code == STATUS_OK;
}
