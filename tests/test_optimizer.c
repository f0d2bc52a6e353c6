// Optimizers: weights after twenty steps are PyTorch's, moments in 8 bits those of a plain reference, and new
// weights in bf16 are rounded without a bias, the same in every run.
#include "kernels/device/dynamic_map.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 64 };
#define COUNT(array) (sizeof(array) / sizeof *(array))

static double *values_of(struct fixture *f, const struct parameter *p)
{
    double *values = malloc(tensor_count(p->value) * sizeof *values);
    assert_non_null(values);
    tensor_read(f->device, p->value, values);
    return values;
}

// Every element of every parameter, from a function of its index and a number.
static void write_all(struct fixture *f, bool gradients, double (*value)(size_t i, size_t t), size_t t)
{
    for (size_t i = 0; i < f->model.parameter_count; i++) {
        struct parameter *p = &f->model.parameters[i];
        struct tensor to = gradients ? p->grad : p->value;
        double *values = malloc(tensor_count(to) * sizeof *values);
        assert_non_null(values);
        for (size_t j = 0; j < tensor_count(to); j++)
            values[j] = value(j, t);
        tensor_write(f->device, to, values);
        free(values);
    }
}

static double first_weight(size_t i, size_t t)
{
    (void)t;
    return ((double)(i % 4) - 1.5) / 4;
}

static double gradient_at(size_t i, size_t t)
{
    return ((double)((7 * t + 3 * (i % 4)) % 11) - 5) / 8;
}

// Four weights (i - 1.5) / 4 after 20 steps with gradients ((7 t + 3 i) mod 11 - 5) / 8, by torch 2.15 in f64:
// torch.optim.SGD, after w *= 1 - rate decay where decay is decoupled; torch.optim.AdamW; and transformers' AdamW,
// written out in torch.
static void weights_are_those_of_pytorch(void **state)
{
    (void)state;
    static const struct {
        const char *optimizer, *options;
        double weights[4];
        bool decays; // matrices alone, which gains then differ from
    } cases[] = {
        {"sgd", "rate=0.02", {-0.39, -0.125, 0.14, 0.3775}, false},
        {"sgd",
         "rate=0.02 momentum=0.9 decay=0.1",
         {-0.3771316556127775, -0.174212441789188, 0.14926350644938824, 0.35187024925512633},
         true},
        {"sgd",
         "rate=0.02 momentum=0.9 decay=0.1 coupling=decoupled master=f32",
         {-0.45609544721275597, -0.20769370336931775, 0.17661088002572994, 0.42888153301471693},
         true},
        {"adamw",
         "rate=0.02 beta2=0.95 epsilon=1e-3 decay=0.1",
         {-0.4278658755311209, -0.1876066986598434, 0.15644478122913075, 0.40518134516435195},
         true},
        {"adamw",
         "rate=0.02 beta2=0.95 epsilon=1e-3 decay=0.1 form=hf master=f32",
         {-0.42734837196945175, -0.18720798070499303, 0.15618319705240774, 0.4049292474257033},
         true},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fixture f = fixture_default();
        fixture_set_optimizer(&f, optimizer_find(cases[i].optimizer), "%s", cases[i].options);
        fixture_open(&f);
        write_all(&f, false, first_weight, 0);
        for (size_t t = 1; t <= 20; t++) {
            trainer_begin(&f.trainer, t, 1);
            write_all(&f, true, gradient_at, t);
            trainer_update(&f.trainer);
        }
        for (size_t k = 0; k < f.model.parameter_count; k++) {
            const struct parameter *p = &f.model.parameters[k];
            double *found = values_of(&f, p), largest = 0;
            for (size_t j = 0; j < tensor_count(p->value); j++)
                largest = fmax(largest, fabs(found[j] - cases[i].weights[j % 4]));
            if (p->vector && cases[i].decays)
                assert_true(largest > 1e-3); // no decay
            else if (!(largest <= 1e-14))
                fail_msg("%s %s: %s is off by %.1e", cases[i].optimizer, cases[i].options, p->name, largest);
            free(found);
        }
        fixture_close(&f);
    }
}

// All levels, as torch computes them in f32: FNV-1a of their bits as functional.create_dynamic_map of bitsandbytes
// has them, and each within an ulp of its definition.
static void levels_are_those_of_bitsandbytes(void **state)
{
    (void)state;
    static const uint64_t hashes[] = {0xa9aaf4b4f33a51e3, 0x690ca6ad558a2475};
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        uint64_t hash = 0xcbf29ce484222325;
        for (int code = 0; code < MAP_LEVELS; code++) {
            float level = map_level(is_signed, code);
            uint32_t bits;
            memcpy(&bits, &level, sizeof bits);
            hash = (hash ^ bits) * 0x100000001b3;
            assert_true(code == 0 || level > map_level(is_signed, code - 1));
        }
        assert_true(hash == hashes[is_signed]);
    }
    for (int i = 0, code = 1; i < 7; i++) {
        for (int part = 0; part < 2 << i; part++, code++) {
            double level = pow(10, i - 6) * (0.1 + 0.9 * (part + 0.5) / (2 << i));
            assert_true(fabs(map_level(false, code) - level) <= level * 0x1p-22);
        }
        for (int part = 0; part < 1 << i; part++) {
            double level = pow(10, i - 6) * (0.1 + 0.9 * (part + 0.5) / (1 << i));
            float positive = map_level(true, MAP_ZERO + (1 << i) + part);
            assert_true(fabs(positive - level) <= level * 0x1p-22);
            assert_true(map_level(true, MAP_ZERO - (1 << i) - part) == -positive);
        }
    }
    assert_true(map_level(true, MAP_ZERO) == 0 && map_level(false, 0) == 0);
}

static double noise(size_t i, size_t t)
{
    struct random random = random_named(t, "noise");
    return random_uniform(&random, i) - 0.4;
}

// A block of moments in 8 bits, written plainly: the largest magnitude, and every level's distance.
static void code_plainly(const double *moments, bool is_signed, int codes[256], double *scale)
{
    *scale = 0;
    for (size_t i = 0; i < 256; i++)
        *scale = fmax(*scale, (float)fabs(moments[i]));
    for (size_t i = 0; i < 256; i++) {
        float x = (float)moments[i] / (float)*scale;
        double nearest = 9;
        for (int code = 0; code < 256; code++) {
            float level = map_level(is_signed, code);
            double distance = fabs((double)level - x);
            if ((level < 0) == (x < 0) && distance < nearest) {
                nearest = distance;
                codes[i] = code;
            }
        }
    }
}

// Codes, scales and weights of a matrix after each of 20 steps.
static void eight_bits_are_those_of_a_plain_reference(void **state)
{
    (void)state;
    enum { COUNT_ALL = 64 * 64, BLOCKS = COUNT_ALL / 256 };
    struct fixture f = fixture_default();
    f.config.width = f.config.ffn = 64;
    fixture_set_optimizer(&f, optimizer_find("adam8bit"), "rate=0.01 decay=0.1 epsilon=1e-3");
    fixture_open(&f);
    write_all(&f, false, first_weight, 0);
    static double w[COUNT_ALL];
    static int m_codes[COUNT_ALL], v_codes[COUNT_ALL];
    double m_scale[BLOCKS] = {0}, v_scale[BLOCKS] = {0};
    for (size_t i = 0; i < COUNT_ALL; i++)
        w[i] = first_weight(i, 0);
    const struct parameter *p = model_parameter(&f.model, "model.layers.0.mlp.gate_proj.weight");
    for (size_t t = 1; t <= 20; t++) {
        trainer_begin(&f.trainer, t, 1);
        write_all(&f, true, noise, t);
        trainer_update(&f.trainer);
        double rest1 = 1 - pow(0.9, (double)t), rest2 = 1 - pow(0.999, (double)t);
        for (size_t block = 0; block < BLOCKS; block++) {
            double m[256], v[256];
            for (size_t i = 0; i < 256; i++) {
                size_t at = 256 * block + i;
                double g = noise(at, t);
                m[i] = 0.9 * (map_level(true, m_codes[at]) * m_scale[block]) + (1 - 0.9) * g;
                v[i] = 0.999 * (map_level(false, v_codes[at]) * v_scale[block]) + (1 - 0.999) * g * g;
                w[at] -= 0.01 * sqrt(rest2) / rest1 * m[i] / (sqrt(v[i]) + sqrt(rest2) * 1e-3);
                w[at] -= 0.01 * 0.1 * w[at];
            }
            code_plainly(m, true, m_codes + 256 * block, &m_scale[block]);
            code_plainly(v, false, v_codes + 256 * block, &v_scale[block]);
        }
        double *found = values_of(&f, p);
        const uint8_t *m_found = p->state[0].data, *v_found = p->state[1].data;
        const float *m_scales = p->state[2].data, *v_scales = p->state[3].data;
        for (size_t i = 0; i < COUNT_ALL; i++) {
            assert_int_equal(m_found[i], m_codes[i]);
            assert_int_equal(v_found[i], v_codes[i]);
            assert_true(m_scales[i / 256] == (float)m_scale[i / 256] &&
                        v_scales[i / 256] == (float)v_scale[i / 256]);
            assert_true(fabs(found[i] - w[i]) < 1e-14);
        }
        free(found);
    }
    fixture_close(&f);
}

// The moments of the embedding are those of adamw, to the bit, of a tied head with it; a head of its own has codes.
static void embeddings_have_wide_moments(void **state)
{
    (void)state;
    static const struct {
        const char *optimizer, *options;
        bool tied, wide; // the embedding's moments
    } runs[] = {{"adamw", "form=bitsandbytes", false, true},
                {"adam8bit", "", false, true},
                {"adam8bit", "embedding_state=8bit", false, false},
                {"adamw", "form=bitsandbytes", true, true},
                {"adam8bit", "", true, true},
                {"adam8bit", "embedding_state=8bit", true, false}};
    double *expected = NULL;
    for (size_t r = 0; r < COUNT(runs); r++) {
        bool coded = strcmp(runs[r].optimizer, "adam8bit") == 0;
        struct fixture f = fixture_default();
        f.config.width = f.config.vocab = WIDTH;
        f.config.tied = runs[r].tied;
        fixture_set_optimizer(&f, optimizer_find(runs[r].optimizer), "rate=0.01 decay=0.1 %s", runs[r].options);
        fixture_open(&f);
        write_all(&f, false, first_weight, 0);
        for (size_t t = 1; t <= 3; t++) {
            trainer_begin(&f.trainer, t, 1);
            write_all(&f, true, noise, t);
            trainer_update(&f.trainer);
        }
        const struct parameter *embedding = f.model.embedding, *head = f.model.head;
        assert_int_equal(head == embedding, runs[r].tied);
        assert_int_equal(embedding->state[0].dtype == DTYPE_F64, runs[r].wide);
        assert_int_equal(embedding->state[2].data != NULL, !runs[r].wide); // scales
        assert_int_equal(head->state[2].data != NULL, runs[r].tied ? !runs[r].wide : coded);
        double *found = values_of(&f, embedding);
        size_t bytes = tensor_count(embedding->value) * sizeof *found;
        if (!coded) {
            free(expected);
            expected = found;
        } else {
            assert_int_equal(memcmp(found, expected, bytes) == 0, runs[r].wide);
            free(found);
        }
        fixture_close(&f);
    }
    free(expected);
}

static double one(size_t i, size_t t)
{
    (void)i, (void)t;
    return 1;
}

static const double down = 0.3, spacing = 0x1p-8; // of bf16 below 1

// 4096 weights of 1 that a step moves by less than half of the way to their neighbour.
static double *moved(const char *options, size_t t, struct fixture *f)
{
    *f = fixture_default();
    f->dtype = f->rounding = DTYPE_BF16;
    f->config.width = f->config.ffn = WIDTH;
    fixture_set_optimizer(f, optimizer_find("sgd"), "rate=%.17g %s", down * spacing, options);
    fixture_open(f);
    write_all(f, false, one, 0);
    write_all(f, true, one, 0);
    trainer_begin(&f->trainer, t, 1);
    trainer_update(&f->trainer);
    return values_of(f, model_parameter(&f->model, "model.layers.1.mlp.up_proj.weight"));
}

static void stochastic_rounding_has_no_bias(void **state)
{
    (void)state;
    const size_t count = (size_t)WIDTH * WIDTH;
    static const struct {
        const char *options;
        size_t t;
    } runs[] = {
        {"round=stochastic", 1}, {"round=stochastic", 1}, {"round=stochastic", 2}, {"round=stochastic seed=2", 1}};
    double *results[COUNT(runs)];
    for (size_t r = 0; r < COUNT(runs); r++) {
        struct fixture f;
        results[r] = moved(runs[r].options, runs[r].t, &f);
        size_t lower = 0;
        for (size_t i = 0; i < count; i++) {
            assert_true(results[r][i] == 1 || results[r][i] == 1 - spacing);
            lower += results[r][i] < 1;
        }
        double sigma = sqrt(down * (1 - down) * (double)count);
        assert_true(fabs((double)lower - down * (double)count) < 4 * sigma);
        double *other = values_of(&f, model_parameter(&f.model, "model.layers.2.mlp.up_proj.weight"));
        assert_memory_not_equal(other, results[r], count * sizeof *other);
        free(other);
        fixture_close(&f);
    }
    assert_memory_equal(results[1], results[0], count * sizeof(double));
    assert_memory_not_equal(results[2], results[0], count * sizeof(double));
    assert_memory_not_equal(results[3], results[0], count * sizeof(double));
    for (size_t r = 0; r < COUNT(runs); r++)
        free(results[r]);
    struct fixture f;
    double *nearest = moved("", 1, &f);
    for (size_t i = 0; i < count; i++)
        assert_true(nearest[i] == 1);
    free(nearest);
    fixture_close(&f);
}

// Steps that nearest rounding loses move the master, and then the weights.
static void a_master_keeps_what_rounding_loses(void **state)
{
    (void)state;
    struct fixture f;
    free(moved("master=f32", 1, &f));
    for (size_t t = 2; t <= 10; t++) {
        trainer_begin(&f.trainer, t, 1);
        trainer_update(&f.trainer);
    }
    double *found = values_of(&f, model_parameter(&f.model, "model.layers.1.mlp.up_proj.weight"));
    for (size_t i = 0; i < (size_t)WIDTH * WIDTH; i++)
        assert_true(found[i] == 1 - 3 * spacing); // 10 * 0.3
    free(found);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_pytorch),
        cmocka_unit_test(levels_are_those_of_bitsandbytes),
        cmocka_unit_test(eight_bits_are_those_of_a_plain_reference),
        cmocka_unit_test(embeddings_have_wide_moments),
        cmocka_unit_test(stochastic_rounding_has_no_bias),
        cmocka_unit_test(a_master_keeps_what_rounding_loses),
    };
    return cmocka_run_group_tests_name("optimizers", tests, NULL, NULL);
}
