#include "harness/step/reference_model.h"
#include "harness/folder/adapter.h"
#include "harness/folder/folder.h"
#include "harness/step/loaded_model.h"
#include "harness/step/ranks_possible.h"
#include "harness/step/step_batch.h"
#include "harness/step/step_logprobs.h"

// The trial with the reference as its model; borrows from it. It has factors only if the folder has an adapter, and
// is otherwise frozen.
static bool trial_of(struct trial *reference, const struct trial *trial, bool adapted, struct status *status)
{
    char *folder = trial->reference.folder;
    *reference = *trial;
    reference->model_folder = folder;
    reference->adapter_folder = adapted ? folder : NULL;
    reference->quantisation = QUANTISATION_NONE;
    reference->lora = (struct lora){.rank = 1, .alpha = 1, .targets = LORA_O};
    return folder_read_config(folder, &reference->config, status) &&
           (!adapted || adapter_read(folder, &reference->config, &reference->lora, status));
}

bool reference_model_open(struct reference_model *reference, const struct trial *trial,
                          const struct setup_options *options, struct status *status)
{
    struct setup_options own = *options;
    struct trial other;
    own.optimizer = NULL;
    *reference = (struct reference_model){.adapted = adapter_is_in(trial->reference.folder)};
    bool read = trial_of(&other, trial, reference->adapted, status);
    reference->lora = other.lora;
    return read && (!options->ranks || ranks_fit(&other, status)) &&
           loaded_model_open(&reference->device, &reference->trainer, &reference->model, &other, &own, status);
}

double *reference_model_logprobs(struct reference_model *reference, const struct batch_data *data, size_t longest,
                                 struct status *status)
{
    struct batch batch;
    step_batch_open(&batch, reference->device, data);
    if (longest)
        batch.normaliser.longest = longest;
    step_batch_share(&batch, &reference->model);
    double *log_probs = step_logprobs_read(&reference->model, &batch, !reference->adapted);
    batch_close(&batch, reference->device);
    *status = reference->device->status;
    if (status->code == STATUS_OK)
        return log_probs;
    free(log_probs);
    return NULL;
}

void reference_model_close(struct reference_model *reference)
{
    loaded_model_close(&reference->device, &reference->trainer);
    lora_free(&reference->lora);
}

bool reference_model_tell(struct batch_data *data, const struct trial *trial, const struct setup_options *options,
                          size_t longest, struct status *status)
{
    struct reference_model reference;
    double *log_probs = NULL;
    if (trial->reference.kind != REFERENCE_FOLDER)
        return true;
    if (reference_model_open(&reference, trial, options, status))
        log_probs = reference_model_logprobs(&reference, data, longest, status);
    reference_model_close(&reference);
    free(data->reference_logprobs); // read from a file
    data->reference_logprobs = log_probs;
    return status->code == STATUS_OK;
}
