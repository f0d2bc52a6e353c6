#include "harness/data/doubtful_labels.h"
#include "harness/data/sequences.h"
#include "kernels/objectives/batch.h"
#include <stdio.h>

// Sequences examined before a step begins; files may hold many more.
#define SEQUENCES_MAX 1000

// Adds a sequence's findings to *found; returns false to stop.
typedef bool look(const struct batch_data *sequence, size_t *found);

static bool count_unseen(const struct batch_data *sequence, size_t *found)
{
    for (size_t t = 0; t + 1 < sequence->context; t++)
        *found += sequence->documents[t] != sequence->documents[t + 1] && sequence->labels[t] != NO_TARGET;
    return true;
}

// Counts labels that equal their ids but not the next ids; resets the count and stops at any other label.
static bool count_unshifted(const struct batch_data *sequence, size_t *found)
{
    for (size_t t = 0; t < sequence->context; t++) {
        int32_t label = sequence->labels[t];
        if (label != NO_TARGET && label != sequence->ids[t]) {
            *found = 0;
            return false;
        }
        *found += label != NO_TARGET && t + 1 < sequence->context && label != sequence->ids[t + 1];
    }
    return true;
}

// Examines the first sequences; 0 if some cannot be read.
static size_t count_first(struct sequences *sequences, look *look)
{
    size_t count = sequences_count(sequences), found = 0;
    struct status ignored = {0};
    bool ok = true, going = true;
    for (size_t i = 0; ok && going && i < count && i < SEQUENCES_MAX; i++) {
        struct batch_data sequence;
        ok = sequences_read(sequences, i, 1, &sequence, &ignored);
        going = ok && look(&sequence, &found);
        batch_data_free(&sequence);
    }
    return ok ? found : 0;
}

void doubtful_labels_say(const char *path)
{
    struct sequences sequences = {0};
    struct status ignored = {0};
    bool open = path && sequences_open(&sequences, path, 1, INT32_MAX, 0, &ignored);
    bool documents = open && safetensors_find(&sequences.files->tensors, "documents");
    size_t unseen = documents ? count_first(&sequences, count_unseen) : 0;
    if (unseen)
        fprintf(stderr,
                "longbp: %s: %s%zu label%s of a document's last token %s not counted: the next token belongs to "
                "another document; use -100 there\n",
                path, sequences_count(&sequences) > SEQUENCES_MAX ? "at least " : "", unseen,
                unseen == 1 ? "" : "s", unseen == 1 ? "is" : "are");
    if (open && count_first(&sequences, count_unshifted))
        fprintf(
            stderr,
            "longbp: %s: every label is the id at its own position, but labels[b, t] is the token to predict at t, "
            "the next one; shift them by one: labels[:, :-1] = labels[:, 1:], then labels[:, -1] = -100\n",
            path);
    if (path)
        sequences_close(&sequences);
}
