// Files of other trainers' runs: what a plan takes of them, and what it refuses by name.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/framework/run_file.h"
#include "tests/golden.h"
#include "tests/scratch.h"

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

// In a scratch folder, that messages do not name it.
static struct scratch within(char root[4096])
{
    struct scratch scratch = scratch_open();
    assert_non_null(getcwd(root, 4096));
    assert_int_equal(chdir(scratch.folder), 0);
    return scratch;
}

static void leave(struct scratch *scratch, const char *root)
{
    assert_int_equal(chdir(root), 0);
    scratch_close(scratch);
}

static void print_run(FILE *out, const char *path)
{
    struct status status = {0};
    struct run_file run;
    if (run_file_read(&run, path, &status)) {
        json_dumpf(run.trial, out, JSON_SORT_KEYS);
        for (size_t i = 0; i < json_array_size(run.unchecked); i++)
            fprintf(out, "\n%s", json_string_value(json_array_get(run.unchecked, i)));
    } else {
        assert_int_equal(status.code, STATUS_BAD_INPUT);
        fputs(status.message, out);
    }
    run_file_close(&run);
}

static void answer(FILE *out, const char *input)
{
    char root[4096];
    struct scratch scratch = within(root);
    write_file("run.yaml", input);
    print_run(out, "run.yaml");
    leave(&scratch, root);
}

static void files_are_read_or_refused(void **state)
{
    (void)state;
    golden_hold(answer);
}

static char *printed(const char *path)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    print_run(out, path);
    fclose(out);
    return text;
}

static void expect_printed(const char *path, const char *expected)
{
    char *text = printed(path);
    assert_string_equal(text, expected);
    free(text);
}

static void folders_have_model_and_adapter(void **state)
{
    (void)state;
    char root[4096];
    struct scratch scratch = within(root);
    expect_printed("none", "none: No such file or directory");
    assert_int_equal(mkdir("run", 0700), 0);
    expect_printed("run", "run/training_args.json: No such file or directory");
    write_file("run/training_args.json",
               "{\"per_device_train_batch_size\": 1, \"optim\": \"adamw_torch\", \"fsdp\": [], "
               "\"fsdp_config\": {\"min_num_params\": 0, \"xla\": false}, \"deepspeed\": null, "
               "\"gradient_checkpointing\": true, \"gradient_checkpointing_kwargs\": {\"use_reentrant\": true}}");
    write_file("run/config.json", "{\"model_type\": \"llama\", \"torch_dtype\": \"bfloat16\"}");
    expect_printed("run",
                   "{\"batch\": 1, \"dtype\": \"bf16\", \"framework\": {\"reentrant\": \"yes\", \"trainer\": "
                   "\"hf\"}, \"method\": \"checkpoint\", \"model\": \"run\", \"optimizer\": \"adamw\"}");
    write_file(
        "run/adapter_config.json",
        "{\"r\": 4, \"lora_alpha\": 8, \"target_modules\": [\"q_proj\", \"down_proj\"], \"bias\": \"none\"}");
    expect_printed("run",
                   "{\"batch\": 1, \"dtype\": \"bf16\", \"framework\": {\"reentrant\": \"yes\", \"trainer\": "
                   "\"hf\"}, \"lora\": {\"alpha\": 8, \"rank\": 4, \"targets\": [\"q\", \"down\"]}, "
                   "\"method\": \"checkpoint\", \"model\": \"run\", \"optimizer\": \"adamw\"}");
    write_file("run/adapter_config.json", "{\"r\": 4,\n \"modules_to_save\": [\"lm_head\"]}");
    expect_printed("run", "run/adapter_config.json:2: key \"modules_to_save\": modules saved whole are not known");
    write_file("run/adapter_config.json", "{\"r\": 4}");
    write_file("run/config.json", "{\"model_type\": \"llama\", \"dtype\": \"float16\"}");
    expect_printed("run", "run: dtype \"float16\" is not known: give bfloat16 or float32");
    leave(&scratch, root);
}

// Aliases that double with each line; a nest; a zero byte.
static void hostile_files_end(void **state)
{
    (void)state;
    char root[4096], nest[400] = "deepspeed: ";
    struct scratch scratch = within(root);
    FILE *file = fopen("bomb.yaml", "w");
    assert_non_null(file);
    fputs("a0: &a0 [x, x]\n", file);
    for (int i = 1; i < 40; i++)
        fprintf(file, "a%d: &a%d [*a%d, *a%d]\n", i, i, i - 1, i - 1);
    fclose(file);
    expect_printed("bomb.yaml", "bomb.yaml:1: more levels or values than a configuration has");
    memset(nest + strlen(nest), '[', 100);
    memset(nest + strlen(nest), ']', 100);
    write_file("nest.yaml", nest);
    expect_printed("nest.yaml", "nest.yaml:1: more levels or values than a configuration has");
    write_file("zero.yaml", "optim: \"a\\0b\"\n");
    expect_printed("zero.yaml", "zero.yaml:1: a text that is not UTF-8, or has a zero byte");
    leave(&scratch, root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_are_read_or_refused),
                                       cmocka_unit_test(folders_have_model_and_adapter),
                                       cmocka_unit_test(hostile_files_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
