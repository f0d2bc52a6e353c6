#include "harness/files/unseen_labels.h"
#include "harness/files/sequences.h"
#include "kernels/transformer/batch.h"
#include <stdio.h>

// What is looked at before a step may begin; there may be very many.
#define SEQUENCES_MAX 1000

static size_t count_of(const struct batch_data *sequence)
{
    size_t unseen = 0;
    for (size_t t = 0; t + 1 < sequence->context; t++)
        unseen += sequence->documents[t] != sequence->documents[t + 1] && sequence->labels[t] != NO_TARGET;
    return unseen;
}

// In the first ones. False: some of it cannot be read.
static bool count_first(struct sequences *sequences, size_t *unseen)
{
    size_t count = sequences_count(sequences);
    struct status ignored = {0};
    bool ok = true;
    *unseen = 0;
    for (size_t i = 0; ok && i < count && i < SEQUENCES_MAX; i++) {
        struct batch_data sequence;
        ok = sequences_read(sequences, i, 1, &sequence, &ignored);
        *unseen += ok ? count_of(&sequence) : 0;
        batch_data_free(&sequence);
    }
    return ok;
}

void unseen_labels_say(const char *path)
{
    struct sequences sequences = {0};
    struct status ignored = {0};
    size_t unseen;
    if (path && sequences_open(&sequences, path, 1, INT32_MAX, 0, &ignored) &&
        safetensors_find(&sequences.files->tensors, "documents") && count_first(&sequences, &unseen) && unseen > 0)
        fprintf(stderr,
                "longbp: %s: %s%zu label%s of a document's last token %s not counted: what follows is another "
                "document's; -100 there says the same\n",
                path, sequences_count(&sequences) > SEQUENCES_MAX ? "at least " : "", unseen,
                unseen == 1 ? "" : "s", unseen == 1 ? "is" : "are");
    if (path)
        sequences_close(&sequences);
}
