// Fuzz target: any bytes as a PEFT adapter's adapter_config.json are refused with a reason. Its factors, the same
// bytes, never are factors: what they are is fuzz_safetensors's.
#define _GNU_SOURCE // memfd_create
#include "harness/folder/adapter.h"
#include "harness/folder/folder.h"
#include "tests/fuzzed_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const struct config config = {
        .layers = 2, .width = 64, .kinds = {{.heads = 2, .kv_heads = 2, .head_dim = 32}}, .ffn = 64, .vocab = 64};
    static struct fuzzed_path folder;
    struct fuzzed_path file = fuzzed_file(bytes, count);
    if (!*folder.text) {
        folder = fuzzed_folder(file, FOLDER_ADAPTER_CONFIG);
        fuzzed_name(folder, file, FOLDER_ADAPTER);
    }
    struct lora lora;
    struct status status = {0};
    bool ok = adapter_read(folder.text, &config, &lora, &status);
    fuzzed_check(ok, &status);
    CHECK(!ok && lora.rank <= config.width);
    return 0;
}
