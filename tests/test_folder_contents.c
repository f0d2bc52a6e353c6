// Tests of harness/tensors/folder_contents, and of the readers of a model's files: messages about a path that is
// no model's folder, and about a file of another format, name its actual format.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/folder/folder.h"
#include "harness/json/json_source.h"
#include "harness/tensors/folder_contents.h"
#include "harness/tensors/safetensors.h"
#include "tests/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define POINTER                                                                                                    \
    "version https://git-lfs.github.com/spec/v1\noid "                                                             \
    "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca"                                                \
    "24d17e2393\nsize 12345\n"
#define PAGE "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n"

static void make_folder(struct scratch_path path)
{
    assert_int_equal(mkdir(path.text, 0700), 0);
}

static void expect(const char *message, const char *word)
{
    if (!strstr(message, word))
        fail_msg("expected \"%s\" in: %s", word, message);
}

// The folder has a file of this name alone.
static void folders_are_told_by_what_they_hold(void **state)
{
    static const struct {
        const char *file, *word, *remedy;
    } cases[] = {
        {"model-Q4_K_M.gguf", "GGUF", "safetensors that it was made from"},
        {"consolidated.safetensors", "Mistral's own format", "config.json and model.safetensors"},
        {"consolidated.00.pth", "Meta's or", "config.json and model.safetensors"},
        {"params.json", "Meta's or", "config.json and model.safetensors"},
        {"pytorch_model.bin", "pickles", "save_pretrained"},
        {"pytorch_model-00001-of-00002.bin", "pickles", "save_pretrained"},
        {"tf_model.h5", "TensorFlow", "config.json and model.safetensors"},
        {"model-00001-of-00002.safetensors", "a shard", "model.safetensors.index.json"},
        {"weights.safetensors", "weights.safetensors", "model.safetensors"},
        {"adapter_model.safetensors", "adapter", "--lora"},
        {"tokenizer.json", "tokenizer alone", "config.json and model.safetensors"},
        {"model.safetensors", "beside its weights", "copy it"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct scratch folder = scratch_within(((struct scratch *)*state)->folder);
        char text[400];
        scratch_text(&folder, cases[i].file, "");
        folder_contents(folder.folder, false, text, sizeof text);
        expect(text, cases[i].word);
        expect(text, cases[i].remedy);
    }
}

static void expect_unread(const char *folder, const char *word)
{
    struct config config;
    struct status status = {0};
    assert_false(folder_read_config(folder, &config, &status));
    expect(status.message, word);
}

static void paths_beside_the_folder_are_told(void **state)
{
    struct scratch *scratch = *state;
    make_folder(scratch_path(scratch, "empty"));
    expect_unread(scratch_path(scratch, "empty").text, "no config.json: it is empty");
    // The hub's cache, of which one revision has a model.
    make_folder(scratch_path(scratch, "models--o--n"));
    make_folder(scratch_path(scratch, "models--o--n/refs"));
    make_folder(scratch_path(scratch, "models--o--n/snapshots"));
    make_folder(scratch_path(scratch, "models--o--n/snapshots/abc"));
    make_folder(scratch_path(scratch, "models--o--n/snapshots/def"));
    expect_unread(scratch_path(scratch, "models--o--n").text, "models--o--n/snapshots/abc");
    scratch_text(scratch, "models--o--n/snapshots/def/config.json", "{}");
    expect_unread(scratch_path(scratch, "models--o--n").text, "models--o--n/snapshots/def");
    // A folder of checkpoints: the last one.
    make_folder(scratch_path(scratch, "run"));
    make_folder(scratch_path(scratch, "run/checkpoint-1000"));
    make_folder(scratch_path(scratch, "run/checkpoint-900"));
    scratch_text(scratch, "run/checkpoint-1000/config.json", "{}");
    scratch_text(scratch, "run/checkpoint-900/config.json", "{}");
    scratch_text(scratch, "run/tokenizer.json", "{}");
    expect_unread(scratch_path(scratch, "run").text, "its folder checkpoint-1000");
    // Files instead of folders.
    expect_unread(scratch_text(scratch, "m.gguf", "GGUF\3\0\0\0").text, "a GGUF model");
    expect_unread(scratch_text(scratch, "config.json", "{}").text, "give the folder that holds config.json");
    // Names that the hub has, perhaps.
    expect_unread("organisation/name-8B", "nothing is downloaded");
    char text[400];
    folder_contents("no/such/folder", false, text, sizeof text);
    assert_string_equal(text, "");
    folder_contents("", false, text, sizeof text);
    assert_string_equal(text, "");
    // A name that would write to a terminal is not shown.
    make_folder(scratch_path(scratch, "hostile"));
    scratch_text(scratch, "hostile/\033[31m.gguf", "");
    expect_unread(scratch_path(scratch, "hostile").text, "config.json");
}

// As --lora and a reference have them.
static void expect_no_adapter(const char *path, const char *word)
{
    char text[400];
    folder_contents(path, true, text, sizeof text);
    expect(text, word);
}

static void paths_beside_an_adapters_folder_are_told(void **state)
{
    struct scratch *scratch = *state;
    static const char *const cases[][2] = {
        {"adapter_config.json", "copy adapter_model.safetensors, too"},
        {"adapter_model.safetensors", "copy adapter_config.json, too"},
        {"adapter_model.bin", "save_pretrained"},
        {"config.json", "of a model; give its folder as the model"},
        {"lora.gguf", "llama.cpp"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct scratch folder = scratch_within(scratch->folder);
        scratch_text(&folder, cases[i][0], "{}");
        expect_no_adapter(folder.folder, cases[i][1]);
    }
    expect_no_adapter("organisation/adapter", "if it is an adapter of the hub, `hf download organisation/adapter");
    make_folder(scratch_path(scratch, "models--o--n"));
    make_folder(scratch_path(scratch, "models--o--n/snapshots"));
    make_folder(scratch_path(scratch, "models--o--n/snapshots/abc"));
    make_folder(scratch_path(scratch, "models--o--n/snapshots/def"));
    scratch_text(scratch, "models--o--n/snapshots/abc/adapter_config.json", "{}");
    scratch_text(scratch, "models--o--n/snapshots/def/config.json", "{}");
    expect_no_adapter(scratch_path(scratch, "models--o--n").text, "models--o--n/snapshots/abc");
    make_folder(scratch_path(scratch, "run"));
    make_folder(scratch_path(scratch, "run/checkpoint-8"));
    scratch_text(scratch, "run/checkpoint-8/adapter_config.json", "{}");
    expect_no_adapter(scratch_path(scratch, "run").text, "its folder checkpoint-8 has an adapter_config.json");
    expect_no_adapter(scratch_text(scratch, "adapter_model.safetensors", "").text,
                      "give the folder that holds adapter_config.json and adapter_model.safetensors");
}

static void files_are_told_by_what_they_begin_with(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
        const char *word, *remedy;
    } cases[] = {
        {POINTER, sizeof POINTER - 1, "Git LFS", "git lfs pull"},
        {PAGE, sizeof PAGE - 1, "an HTML page", "download the file itself"},
        {"GGUF\3\0\0\0\1\0\0\0\0\0\0\0", 16, "a GGUF model", "made from"},
        {"\x1f\x8b\x08\0\0\0\0\0\0\3\0\0", 12, "a gzip archive", "decompress"},
        {"PK\3\4\0\0\0\0\0\0archive/data.pkl\0", 27, "torch.save", "save_pretrained"},
    };
    struct scratch *scratch = *state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct scratch_path path = scratch_file(scratch, "x", cases[i].text, cases[i].bytes);
        struct status status = {0}, other = {0};
        struct safetensors file;
        assert_false(safetensors_open(&file, path.text, &status));
        safetensors_close(&file);
        struct json_source source;
        assert_false(json_source_open(&source, path.text, &other));
        json_source_close(&source);
        const char *const messages[] = {status.message, other.message};
        for (size_t m = 0; m < 2; m++) {
            expect(messages[m], path.text);
            expect(messages[m], cases[i].word);
            expect(messages[m], cases[i].remedy);
            expect(messages[m], m ? "not a JSON file" : "not a safetensors file");
        }
    }
    struct status status = {0};
    struct safetensors file;
    assert_false(safetensors_open(&file, scratch_text(scratch, "x", "{\"weight_map\": {}}").text, &status));
    expect(status.message, "is JSON");
    safetensors_close(&file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(folders_are_told_by_what_they_hold),
        TEST(paths_beside_the_folder_are_told),
        TEST(paths_beside_an_adapters_folder_are_told),
        TEST(files_are_told_by_what_they_begin_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
