#include "kernels/base/observer.h"
#include "kernels/base/timer.h"
#include "methods/method.h"
#include <string.h>

extern const struct method method_full, method_checkpoint, method_streambp, method_seco, method_spaco, method_null;

const struct method *const methods[] = {
    &method_full, &method_checkpoint, &method_streambp, &method_seco, &method_spaco, &method_null, NULL,
};

const struct method *method_find(const char *name)
{
    for (const struct method *const *m = methods; *m; m++) {
        if (strcmp((*m)->name, name) == 0) {
            return *m;
        }
    }
    return NULL;
}

void method_step(const struct method *method, struct model *model, const struct batch *batch,
                 const struct method_options *options, struct step_report *report)
{
    struct device *device = model->device;
    report->loss = 0;
    index_list_free(&report->columns);
    struct step step = {.model = model, .batch = batch, .options = options, .report = report};
    step.loss = tensor_new(device, 1, 1, DTYPE_F64, CATEGORY_DATA);
    range_push(device, (struct range){.level = RANGE_STEP, .name = method->name});
    device_timer_start(device);
    op_zero(device, step.loss);
    method->walk(&step);
    report->asked_ms = device_timer_asked_ms(device);
    report->ms = device_timer_stop_ms(device);
    range_pop(device);
    op_download(device, &report->loss, step.loss);
    tensor_free(device, &step.loss);
}

void step_report_free(struct step_report *report)
{
    index_list_free(&report->columns);
}
