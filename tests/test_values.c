// Values from outside: losses and gradients that PyTorch, transformers and peft computed in f64, RoPE's
// frequencies and learning-rate schedules as transformers has them, and presets as their published config.json
// says (tests/values, tools/values_from_pytorch.py). They show errors that all methods share: a loss over masked
// tokens, LoRA's scale, a window that is one key too long, a preset's width.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/folder/folder.h"
#include "harness/train/train_schedule.h"
#include "tests/fixture.h"
#include "tests/scratch.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

// Sums of f64, in another order.
#define TOLERANCE 1e-12
// RoPE's angles are computed in f32 there.
#define FREQUENCY_TOLERANCE 5e-7

static const json_t *get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        fail_msg("there is no \"%s\"", key);
    return value;
}
static const char *text(const json_t *object, const char *key)
{
    return json_string_value(get(object, key));
}
static double number_of(const json_t *object, const char *key)
{
    return json_number_value(get(object, key));
}

static json_t *load(const char *name)
{
    char path[128];
    json_error_t error;
    snprintf(path, sizeof path, "tests/values/%s.json", name);
    json_t *file = json_load_file(path, 0, &error);
    if (!file)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return file;
}

// As `numbers` of tools/values_from_pytorch.py: from -0.5 to 0.5, by a name and a place.
static double number_at(const char *prefix, const char *name, size_t i)
{
    const char *const parts[] = {prefix, name};
    uint32_t x = 2166136261u;
    for (size_t part = 0; part < 2; part++)
        for (const char *c = parts[part]; *c; c++)
            x = (x ^ (unsigned char)*c) * 16777619u; // FNV-1a
    x += (uint32_t)i * 2654435761u;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return (x ^ x >> 16) / 4294967296.0 - 0.5;
}

static void set_weights(struct fixture *f)
{
    size_t weights = 0;
    for (size_t k = 0; k < f->model.parameter_count; k++) {
        const struct parameter *p = &f->model.parameters[k];
        bool gain = strstr(p->name, "norm.weight") && !f->config.unit_offset;
        double mean = gain || p->constant ? 1 : 0;
        double *values = zeros(tensor_count(p->value));
        for (size_t i = 0; i < tensor_count(p->value); i++)
            values[i] = 0.8 * number_at("", p->name, i) + mean;
        tensor_write(f->device, p->value, values);
        weights += parameter_is_factor(p) ? 0 : tensor_count(p->value);
        free(values);
    }
    assert_int_equal(weights, config_parameters(&f->config));
}

static struct lora read_lora(const json_t *asked)
{
    struct lora lora = {.rank = (size_t)number_of(asked, "r"), .alpha = number_of(asked, "lora_alpha")};
    lora.rslora = json_is_true(json_object_get(asked, "use_rslora"));
    const json_t *modules = get(asked, "target_modules"), *module;
    size_t i;
    json_array_foreach(modules, i, module)
    {
        for (size_t target = 0; target < LORA_TARGETS; target++)
            lora.targets |= strcmp(json_string_value(module), lora_module_leaf(target)) == 0 ? 1u << target : 0;
    }
    assert_int_equal(__builtin_popcount(lora.targets), json_array_size(modules));
    return lora;
}

static struct config read_config(const struct scratch *scratch, const json_t *object)
{
    struct config config;
    struct status status = {0};
    assert_int_equal(json_dump_file(object, scratch_path(scratch, "config.json").text, 0), 0);
    if (!folder_read_config(scratch->folder, &config, &status))
        fail_msg("%s", status.message);
    return config;
}

// [batch, context], as files hold them; to be freed.
static int32_t *read_rows(const json_t *rows, size_t *batch, size_t *context)
{
    *batch = json_array_size(rows), *context = json_array_size(json_array_get(rows, 0));
    int32_t *values = malloc(*batch * *context * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < *batch * *context; i++) {
        const json_t *row = json_array_get(rows, i / *context);
        values[i] = (int32_t)json_integer_value(json_array_get(row, i % *context));
    }
    return values;
}

static void check_gradients(struct fixture *f, const json_t *item, const char *method,
                            const struct step_report *report)
{
    const json_t *gradients = get(item, "gradients");
    const char *title = text(item, "title");
    double loss = number_of(item, "loss");
    size_t found = 0;
    if (!(fabs(report->sums.loss - loss) <= TOLERANCE * loss))
        fail_msg("%s, %s: loss %.17g, outside %.17g", title, method, report->sums.loss, loss);
    for (size_t k = 0; k < f->model.parameter_count; k++) {
        const struct parameter *p = &f->model.parameters[k];
        if (!p->grad.data)
            continue;
        const json_t *expected = get(gradients, p->name);
        double norm = json_number_value(json_array_get(expected, 0)), squares = 0, product = 0;
        double *values = numbers_of(f->device, p->grad);
        for (size_t i = 0; i < tensor_count(p->grad); i++) {
            squares += values[i] * values[i];
            product += values[i] * number_at("direction of ", p->name, i);
        }
        double off = fabs(product - json_number_value(json_array_get(expected, 1)));
        if (!(fabs(sqrt(squares) - norm) <= TOLERANCE * norm &&
              off <= TOLERANCE * norm * sqrt(tensor_count(p->grad)))) {
            fail_msg("%s, %s: %s has norm %.17g, outside %.17g; along the direction it is off by %.2e", title,
                     method, p->name, sqrt(squares), norm, off);
        }
        free(values);
        found++;
    }
    assert_int_equal(found, json_object_size(gradients));
}

static void check_case(const struct scratch *scratch, const json_t *item)
{
    struct fixture f = fixture_default();
    const json_t *lora = json_object_get(item, "lora"), *labels = json_object_get(item, "labels");
    int32_t *ids = read_rows(get(item, "ids"), &f.batch_size, &f.context), *targets = NULL;
    f.config = read_config(scratch, get(item, "config"));
    f.lora = lora ? read_lora(lora) : (struct lora){0};
    if (labels)
        f.targets = targets = read_rows(labels, &f.batch_size, &f.context);
    fixture_open(&f);
    set_weights(&f);
    batch_close(&f.batch, f.device);
    batch_open(&f.batch, f.device, ids, targets, f.context, f.batch_size);
    const json_t *length = json_object_get(item, "documents");
    if (length) {
        int32_t *documents = malloc(f.context * f.batch_size * sizeof *documents);
        assert_non_null(documents);
        for (size_t i = 0; i < f.context * f.batch_size; i++)
            documents[i] = (int32_t)(i % f.context / (size_t)json_integer_value(length));
        batch_set_documents(&f.batch, f.device, documents);
        free(documents);
    }
    for (const struct method *const *m = methods; *m; m++) {
        if ((*m)->exact) {
            struct step_report report = {0};
            void *options = fixture_options(*m, "chunk=7 head_chunk=5");
            free(fixture_step(&f, (*m)->name, options, &report));
            check_gradients(&f, item, (*m)->name, &report);
            options_free(&(*m)->options, options);
            step_report_free(&report);
        }
    }
    fixture_close(&f);
    free(targets);
    free(ids);
}

static void gradients_are_those_of_transformers(void **state)
{
    json_t *file = load("gradients"), *item;
    size_t i;
    json_array_foreach(get(file, "cases"), i, item)
    {
        check_case(*state, item);
    }
    assert_true(i > 10);
    json_decref(file);
}

static void frequencies_are_those_of_transformers(void **state)
{
    (void)state;
    json_t *file = load("rope"), *item;
    size_t i;
    json_array_foreach(get(file, "cases"), i, item)
    {
        const struct config *preset = config_preset(text(item, "preset"));
        const json_t *expected = get(item, "frequencies"), *yarn = json_object_get(item, "yarn");
        double frequencies[256], gain = yarn ? json_number_value(get(item, "gain")) : 1;
        assert_non_null(preset);
        struct layer_kind kind = *config_full_kind(preset);
        assert_int_equal(json_array_size(expected), kind.head_dim / 2);
        if (yarn) {
            double factor = json_number_value(json_array_get(yarn, 0));
            kind.rope_scaling =
                (struct rope_scaling){.factor = factor,
                                      .low_freq_factor = 1,
                                      .high_freq_factor = 32,
                                      .original_context = (size_t)json_integer_value(json_array_get(yarn, 1)),
                                      .attention_factor = rope_yarn_gain(factor)};
        }
        assert_true(fabs(rope_gain(&kind) / gain - 1) <= FREQUENCY_TOLERANCE);
        rope_frequencies(preset, &kind, 0, frequencies);
        for (size_t j = 0; j < kind.head_dim / 2; j++) {
            double outside = json_number_value(json_array_get(expected, j));
            if (!(fabs(frequencies[j] - outside) <= FREQUENCY_TOLERANCE * outside))
                fail_msg("%s: frequency %zu is %.9g, outside %.9g", preset->name, j, frequencies[j], outside);
        }
    }
    assert_true(i > 0);
    json_decref(file);
}

// Every step's rate, to the bit.
static void schedules_are_those_of_transformers(void **state)
{
    (void)state;
    json_t *file = load("schedules"), *item;
    size_t i;
    json_array_foreach(get(file, "cases"), i, item)
    {
        json_t *asked = json_pack("{s:s, s:i, s:s, s:s, s:O}", "model", "tiny", "context", 8, "method", "full",
                                  "optimizer", "sgd", "train", get(item, "train"));
        char *json = json_dumps(asked, 0);
        const json_t *expected = get(item, "factors");
        struct trial trial = {0};
        struct status status = {0};
        if (!trial_decode(&trial, json, "case", &status))
            fail_msg("%s", status.message);
        for (size_t done = 0; done < json_array_size(expected); done++) {
            double outside = json_number_value(json_array_get(expected, done));
            double factor = train_schedule_factor(&trial.train, done);
            if (memcmp(&factor, &outside, sizeof factor) != 0)
                fail_msg("%s: step %zu: %.17g, outside %.17g", json, done + 1, factor, outside);
        }
        trial_free(&trial);
        free(json);
        json_decref(asked);
    }
    assert_true(i > 0);
    json_decref(file);
}

// Each preset is what is read of the config.json that its model was published with. Those without one are named.
static void presets_are_as_published(void **state)
{
    json_t *file = load("presets");
    const json_t *published = get(file, "published"), *unchecked = get(file, "unchecked");
    size_t found = 0;
    for (const struct config *preset = config_presets; preset->name[0]; preset++) {
        const json_t *item = json_object_get(published, preset->name);
        if (!item) {
            assert_non_null(json_object_get(unchecked, preset->name));
            continue;
        }
        struct config config = read_config(*state, get(item, "config"));
        memcpy(config.name, preset->name, sizeof config.name);
        // How files keep and name projections, and padding, are no part of a shape.
        config.fused = config.padded = false;
        config.submodule = NULL;
        config.pad = 0;
        if (memcmp(&config, preset, sizeof config) != 0)
            fail_msg("%s is not what %s says", preset->name, text(item, "source"));
        assert_ptr_equal(config_preset(text(item, "source")), preset);
        found++;
    }
    assert_int_equal(found, json_object_size(published));
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gradients_are_those_of_transformers, scratch_setup, scratch_teardown),
        cmocka_unit_test(frequencies_are_those_of_transformers),
        cmocka_unit_test(schedules_are_those_of_transformers),
        cmocka_unit_test_setup_teardown(presets_are_as_published, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests_name("values from outside", tests, NULL, NULL);
}
