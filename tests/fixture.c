#include "tests/fixture.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

struct fixture fixture_default(void)
{
    return (struct fixture){
        .config = {.name = "test",
                   .layers = 3,
                   .width = 24,
                   .heads = 4,
                   .kv_heads = 2,
                   .head_dim = 6,
                   .ffn = 40,
                   .vocab = 31,
                   .rope_theta = 10000,
                   .norm_epsilon = 1e-5},
        .dtype = DTYPE_F64,
        .rounding = DTYPE_F32,
        .context = 23,
        .batch_size = 2,
        .seed = 7,
    };
}

enum dtype fixture_sums(const struct fixture *f)
{
    return f->narrow ? f->dtype : dtype_accumulator(f->dtype);
}

struct model_options fixture_model_options(const struct fixture *f)
{
    enum dtype sums = fixture_sums(f);
    return (struct model_options){.lora = f->lora,
                                  .kv_gradient_dtype = sums,
                                  .gradient_dtype = sums,
                                  .quantisation = f->quantisation,
                                  .dequantised = f->dequantised,
                                  .weights_place = f->weights_place,
                                  .gradients_place = f->gradients_place,
                                  .optimizer_place = f->optimizer_place,
                                  .optimizer = f->optimizer,
                                  .optimizer_options = f->optimizer_options};
}

void fixture_open(struct fixture *f)
{
    struct status status = {0};
    CHECK(config_check(&f->config, &status));
    f->device = device_open("cpu", f->dtype, 0, &status);
    CHECK(f->device);
    struct model_options options = fixture_model_options(f);
    options.ranks = f->ranks;
    model_open(&f->model, &f->config, &options, f->device);
    model_randomize(&f->model, f->seed, f->rounding);
    size_t count = f->context * f->batch_size;
    f->ids = malloc(count * sizeof *f->ids);
    CHECK(f->ids);
    struct random random = random_named(f->seed, "ids");
    f->weights = malloc(count * sizeof *f->weights);
    CHECK(f->weights);
    for (size_t i = 0; i < count; i++) {
        f->ids[i] = (int32_t)random_below(&random, i, f->config.vocab);
        f->weights[i] = i % 7 ? random_uniform(&random, i) : 0;
    }
    batch_open(&f->batch, f->device, f->ids, f->targets, f->context, f->batch_size);
    fixture_set_documents(f, f->device, &f->batch);
    fixture_set_objective(f, f->device, &f->batch, 0);
    f->gradient_count = 0;
    for (size_t i = 0; i < f->model.parameter_count; i++) {
        f->gradient_count += tensor_count(f->model.parameters[i].grad); // 0 of what is another rank's
    }
    CHECK(f->device->status.code == STATUS_OK);
}

void fixture_close(struct fixture *f)
{
    batch_close(&f->batch, f->device);
    model_close(&f->model);
    device_close(f->device); // aborts on a leak
    fixture_set_optimizer(f, NULL, "%s", "");
    free(f->ids);
    free(f->weights);
}

void fixture_set_objective(const struct fixture *f, struct device *device, struct batch *batch, size_t first)
{
    if (f->objective) {
        bool given = f->objective->averaging == MEAN_BY_WEIGHT && !device->ops->dataless;
        batch_set_objective(batch, device, f->objective, given ? f->weights + first * f->context : NULL);
    }
}

static void *options_of(const struct option_table *table, const char *format, va_list arguments)
{
    void *options = options_new(table);
    char text[256];
    CHECK((size_t)vsnprintf(text, sizeof text, format, arguments) < sizeof text);
    for (char *rest = text, *name; (name = strsep(&rest, " "));) {
        char *value = strchr(name, '=');
        if (!*name) {
            continue;
        }
        CHECK(value);
        *value++ = '\0';
        CHECK(!option_find(table, name) || options_set(table, options, name, value));
    }
    return options;
}

void fixture_set_documents(const struct fixture *f, struct device *device, struct batch *batch)
{
    size_t count = f->context * f->batch_size;
    int32_t *documents = malloc(count * sizeof *documents);
    CHECK(documents);
    for (size_t i = 0; i < count && f->document; i++) {
        documents[i] = (int32_t)((i % f->context + 3 * (i / f->context) + 1) / f->document);
    }
    if (f->document) {
        batch_set_documents(batch, device, documents);
    }
    free(documents);
}

void *fixture_options(const struct method *method, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    void *options = options_of(&method->options, format, arguments);
    va_end(arguments);
    return options;
}

void fixture_set_optimizer(struct fixture *f, const struct optimizer *optimizer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (f->optimizer)
        options_free(&f->optimizer->options, f->optimizer_options);
    f->optimizer = optimizer;
    f->optimizer_options = optimizer ? options_of(&optimizer->options, format, arguments) : NULL;
    va_end(arguments);
}

double *fixture_step(struct fixture *f, const char *name, const void *options, struct step_report *report)
{
    const struct method *method = method_find(name);
    void *defaults = options_new(&method->options);
    // What is left in the gradients must not matter.
    for (size_t i = 0; i < f->model.parameter_count; i++) {
        struct tensor grad = f->model.parameters[i].grad;
        if (grad.data) {
            memset(grad.data, 0xff, tensor_bytes(grad)); // NaN in every dtype
        }
    }
    size_t live = f->device->arena.live_bytes;
    model_zero_gradients(&f->model);
    method_step(method, &f->model, &f->batch, options ? options : defaults, report);
    options_free(&method->options, defaults);
    CHECK(f->device->status.code == STATUS_OK);
    CHECK(f->device->arena.live_bytes == live); // a walk gives back all that it takes
    return fixture_gradients(f);
}

double *fixture_gradients(struct fixture *f)
{
    double *gradients = malloc((f->gradient_count + 1) * sizeof *gradients), *next = gradients;
    CHECK(gradients);
    for (size_t i = 0; i < f->model.parameter_count; i++) {
        if (f->model.parameters[i].grad.data) {
            tensor_read(f->device, f->model.parameters[i].grad, next);
            next += tensor_count(f->model.parameters[i].grad);
        }
    }
    return gradients;
}

double relative_l2(const double *a, const double *b, size_t count)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return difference == 0 ? 0 : sqrt(difference / norm); // NaN stays NaN, and fails every bound
}

double largest_difference(const double *a, const double *b, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs(a[i] - b[i]);
        largest = difference > largest || isnan(difference) ? difference : largest;
    }
    return largest;
}
