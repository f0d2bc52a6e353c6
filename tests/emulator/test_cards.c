// Several cards and their sensors: the emulated runtime with two cards, and a library that stands in for NVML
// (tests/emulator/nvml.c).
#define _GNU_SOURCE // environ, nftw
#include "kernels/device/ops.h"
#include "tests/fixture.h"
#include "tests/scratch.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

static const char *longbp, *nvml;

// One step of full in bf16 on the device that is named; its bus id.
static void step_on(const char *name, char bus_id[32])
{
    struct status status = {0};
    struct fixture f = fixture_default();
    struct step_report report = {0};
    f.config.kinds[0].head_dim = 8;
    f.dtype = f.rounding = DTYPE_BF16;
    f.context = 40;
    f.device = device_open(name, f.dtype, 0, &status);
    if (!f.device)
        fail_msg("%s", status.message);
    struct trainer_options model = {.kv_gradient_dtype = DTYPE_F32, .gradient_dtype = DTYPE_F32};
    int32_t ids[40] = {3, 1, 4, 1, 5, 9, 2, 6};
    trainer_open(&f.trainer, &f.model, &f.config, &model, f.device);
    random_weights_set(&f.model, f.seed, f.rounding);
    batch_open(&f.batch, f.device, ids, NULL, f.context, 1);
    trainer_zero(&f.trainer);
    const struct method *full = method_find("full");
    void *options = options_new(&full->options);
    method_step(full, &f.model, &f.batch, options, &report);
    options_free(&full->options, options);
    assert_int_equal(f.device->status.code, STATUS_OK);
    assert_true(isfinite(report.sums.loss));
    assert_non_null(strstr(f.device->description, f.device->bus_id));
    memcpy(bus_id, f.device->bus_id, sizeof f.device->bus_id);
    batch_close(&f.batch, f.device);
    trainer_close(&f.trainer);
    device_close(f.device);
    step_report_free(&report);
}

static void test_cards_take_turns(void **state)
{
    (void)state;
    char ids[5][32];
    const char *const names[] = {"cuda", "cuda:1", "cuda:0", "cuda:1"};
    for (size_t i = 0; i < 4; i++)
        step_on(names[i], ids[i]);
    assert_string_equal(ids[0], "0000:E0:00.0");
    assert_string_equal(ids[1], "0000:E1:00.0");
    assert_string_equal(ids[2], ids[0]);
    assert_string_equal(ids[3], ids[1]);
}

static void test_a_wrong_number_says_how_many_there_are(void **state)
{
    (void)state;
    struct status status = {0};
    assert_null(device_open("cuda:2", DTYPE_F32, 0, &status));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
    assert_string_equal(status.message, "there is no device cuda:2: this machine has 2 GPUs, cuda:0 to cuda:1");
    assert_int_equal(setenv("LONGBP_EMULATED_CARDS", "1", 1), 0);
    status = (struct status){0};
    assert_null(device_open("cuda:1", DTYPE_F32, 0, &status));
    assert_string_equal(status.message, "there is no device cuda:1: this machine has 1 GPU, cuda:0");
    assert_int_equal(setenv("LONGBP_EMULATED_CARDS", "2", 1), 0);
}

// `longbp ARGUMENTS` in the scratch's folder, its stdout and stderr; environment: assignments before it.
static const char *output(const struct scratch *scratch, const char *environment, const char *arguments, int *code)
{
    static char text[65536];
    char command[2048];
    snprintf(command, sizeof command, "cd %s && %s %s %s >said 2>&1", scratch->folder, environment, longbp,
             arguments);
    char *words[] = {"sh", "-c", command, NULL};
    pid_t shell;
    assert_int_equal(posix_spawn(&shell, "/bin/sh", NULL, NULL, words, environ), 0);
    assert_int_equal(waitpid(shell, code, 0), shell);
    *code = WEXITSTATUS(*code);
    snprintf(command, sizeof command, "%s/said", scratch->folder);
    FILE *said = fopen(command, "r");
    assert_non_null(said);
    text[fread(text, 1, sizeof text - 1, said)] = 0;
    fclose(said);
    return text;
}

// The record of a small trial on card 1.
static json_t *measure(const struct scratch *scratch, const char *environment, int samples)
{
    char path[512];
    snprintf(path, sizeof path, "%s/spec.json", scratch->folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "{\"experiment\": \"e\", \"question\": \"What does a card's record say?\", \"device\": \"cuda:1\",\n"
            " \"model\": \"tiny\", \"dtype\": \"f32\", \"data\": \"random\",\n"
            " \"axes\": {\"context\": [150], \"method\": [{\"name\": \"full\"}]},\n"
            " \"measure\": {\"warmup\": 0, \"samples\": %d, \"gradient\": \"none\"}}\n",
            samples);
    fclose(file);
    int code;
    const char *said = output(scratch, environment, "run spec.json --fresh --out out.jsonl", &code);
    if (code != 0)
        fail_msg("%s", said);
    snprintf(path, sizeof path, "%s/out.jsonl", scratch->folder);
    json_t *record = json_load_file(path, 0, NULL);
    assert_non_null(record);
    return record;
}

static double samples_ms(const json_t *record)
{
    const json_t *samples = json_object_get(record, "samples_ms");
    double sum = 0;
    for (size_t i = 0; i < json_array_size(samples); i++)
        sum += json_number_value(json_array_get(samples, i));
    return sum;
}

static void test_a_record_names_its_card(void **state)
{
    json_t *record = measure(*state, "", 1);
    const char *card, *device;
    assert_int_equal(
        json_unpack(record, "{s:{s:s}, s:{s:s}}", "trial", "device", &device, "provenance", "card", &card), 0);
    assert_string_equal(device, "cuda:1");
    assert_non_null(strstr(card, "0000:E1:00.0"));
    assert_true(json_is_null(json_object_get(record, "energy_j"))); // no NVML knows this card
    assert_true(json_is_null(json_object_get(record, "sm_clock_mhz")));
    json_decref(record);
}

// By the card's own counter, and where it has none by its power.
static void test_a_record_has_energy_and_clock(void **state)
{
    const char *const more[] = {"", "NVML_WITHOUT_ENERGY=1"};
    for (size_t i = 0; i < 2; i++) {
        char environment[1024];
        snprintf(environment, sizeof environment, "LD_LIBRARY_PATH=%s %s", nvml, more[i]);
        json_t *record = measure(*state, environment, 6);
        double energy_j, wall_s, min, median, max, samples_s = 1e-3 * samples_ms(record);
        if (samples_s < 0.6)
            skip(); // too fast a machine: the samples are shorter than what an energy is told of
        assert_int_equal(json_unpack(record, "{s:F, s:F, s:{s:F, s:F, s:F}}", "energy_j", &energy_j, "wall_s",
                                     &wall_s, "sm_clock_mhz", "min", &min, "median", &median, "max", &max),
                         0);
        // Samples of a step; between two samples is a little work that belongs to neither. A slow machine takes
        // fewer samples.
        size_t steps = json_array_size(json_object_get(record, "samples_ms"));
        if (steps * energy_j < 0.95 * 200 * samples_s || steps * energy_j > 200 * wall_s)
            fail_msg("%zu steps of %g s together at 200 W took %g J each", steps, samples_s, energy_j);
        assert_true(min == 1500 && median == 1510 && max == 1520);
        json_decref(record);
    }
}

static void test_sensors_as_csv(void **state)
{
    char environment[1024];
    int code;
    snprintf(environment, sizeof environment, "LD_LIBRARY_PATH=%s", nvml);
    output(*state, environment, "sensors --every 20 --count 2 --out s.csv", &code);
    assert_int_equal(code, 0);
    output(*state, environment, "sensors --count 1 --out s.csv", &code); // goes on, under one heading
    assert_int_equal(code, 0);
    char path[512], line[256];
    snprintf(path, sizeof path, "%s/s.csv", ((struct scratch *)*state)->folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "time,bus_id,card,sm_clock_mhz,memory_clock_mhz,power_w,temperature_c,energy_j\n");
    for (int i = 0; i < 6; i++) {
        assert_non_null(fgets(line, sizeof line, file));
        assert_non_null(
            strstr(line, i % 2 ? "Z,0000:E1:00.0,card of 200 W,15" : "Z,0000:E0:00.0,card of 100 W,15"));
        assert_non_null(strstr(line, i % 2 ? ",3201,200.0,40," : ",3201,100.0,40,"));
    }
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
    const char *said = output(*state, "LD_LIBRARY_PATH=", "sensors --count 1", &code);
    if (code == 0)
        skip(); // this machine has NVML
    assert_int_equal(code, 2);
    assert_non_null(strstr(said, "no sensors: libnvidia-ml.so.1"));
    assert_non_null(strstr(said, "NVIDIA's driver brings it"));
}

static int open_scratch(void **state)
{
    static struct scratch scratch;
    scratch = scratch_open();
    *state = &scratch;
    return 0;
}

static int close_scratch(void **state)
{
    scratch_close(*state);
    return 0;
}

int main(void)
{
    longbp = getenv("LONGBP");
    nvml = getenv("NVML");
    if (!longbp || !nvml) {
        fprintf(stderr, "LONGBP must name the program, NVML the folder of the library that stands in for NVML\n");
        return 1;
    }
    setenv("LONGBP_EMULATED_CARDS", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cards_take_turns),
        cmocka_unit_test(test_a_wrong_number_says_how_many_there_are),
        cmocka_unit_test(test_a_record_names_its_card),
        cmocka_unit_test(test_a_record_has_energy_and_clock),
        cmocka_unit_test(test_sensors_as_csv),
    };
    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
