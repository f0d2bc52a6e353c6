// Fuzz target: any bytes as text, as a file of ids of either width, as an array and as labels are refused with a
// reason, or give ids below the vocabulary; read at once and in parts they are the same. The first byte says how
// many tokens are asked for.
#define _GNU_SOURCE // memfd_create
#include "harness/data/tokens.h"
#include "tests/fuzzed_file.h"

#define VOCAB 300 // above a byte

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    size_t context = count ? 1 + bytes[0] % 16 : 1, batch = count ? 1 + bytes[0] / 64 : 1;
    struct fuzzed_path file = count ? fuzzed_file(bytes + 1, count - 1) : fuzzed_file(bytes, 0);
    for (enum data_kind kind = DATA_BYTES; kind <= DATA_ARRAY; kind++) {
        struct data_source source = {kind, file.text};
        struct token_stream stream;
        struct status status = {0}, of_stream = {0};
        int32_t *ids = tokens_read(&source, context, batch, VOCAB, 1, &status), again[64];
        fuzzed_check(ids != NULL, &status);
        bool open = token_stream_open(&stream, &source, VOCAB, 1, &of_stream);
        CHECK(open || !ids);
        for (size_t i = 0; ids && i < context * batch; i++) {
            CHECK(ids[i] >= 0 && ids[i] < VOCAB && stream.count >= context * batch);
            CHECK(token_stream_read(&stream, i, 1, again, &of_stream) && again[0] == ids[i]);
        }
        token_stream_close(&stream);
        free(ids);
    }
    struct status status = {0};
    int32_t *labels = tokens_read_labels(file.text, context, batch, VOCAB, &status);
    fuzzed_check(labels != NULL, &status);
    for (size_t i = 0; labels && i < context * batch; i++)
        CHECK(labels[i] < VOCAB && labels[i] >= -100);
    free(labels);
    return 0;
}
