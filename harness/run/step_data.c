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
    if (!(trial->objective->terms.required & BATCH_WEIGHTS))
        return true;
    if (!data->weights)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: has no tensor \"weights\"; objective %s needs it, a number >= 0 for every token",
                          path, trial->objective->name);
    return check_weights(data, path, status);
}

// Of every token its document, as the trial packs them.
static int32_t *packed_documents(const struct trial *trial, struct status *status)
{
    const struct packing *packing = &trial->packing;
    size_t count = trial->batch * trial->context;
    int32_t *documents = malloc(count * sizeof *documents);
    struct random random = random_named(trial->seed, "documents");
    if (!documents)
        status_set(status, STATUS_OOM, "no room on the host for the documents of %zu tokens", count);
    size_t left = 0, drawn = 0; // tokens of a document
    int32_t document = 0;
    for (size_t i = 0; documents && i < count; i++) {
        document = i % trial->context == 0 ? 0 : left == 0 ? document + 1 : document;
        if (left == 0 || i % trial->context == 0) {
            left = packing->mean ? 1 + random_below(&random, drawn++, 2 * packing->mean - 1)
                                 : packing->lengths[(size_t)document % packing->count];
        }
        documents[i] = document;
        left--;
    }
    return documents;
}

static void pack(struct batch_data *data, const struct trial *trial, struct status *status)
{
    if (trial->packing.count || trial->packing.mean)
        data->documents = packed_documents(trial, status);
}

bool step_data_read_documents(struct batch_data *data, const struct trial *trial, struct status *status)
{
    *data = (struct batch_data){.context = trial->context, .batch = trial->batch};
    pack(data, trial, status);
    return status->code == STATUS_OK && (trial->data.kind != DATA_BATCH || read_batch_file(data, trial, status));
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
    if (data->ids && trial->objective->terms.required & BATCH_WEIGHTS)
        data->weights = random_weights(trial, status);
    if (data->ids)
        pack(data, trial, status);
    return status->code == STATUS_OK;
}
