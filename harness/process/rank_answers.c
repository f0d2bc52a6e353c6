#include "harness/process/rank_answers.h"
#include "harness/text/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// At most this many ranks are named per state.
#define NAMED_MAX 8

enum answer { NONE, COMPUTES, WAITS, STAYS, ANSWERS };
struct answers {
    enum answer *of; // [ranks]
    size_t counts[ANSWERS];
};

static struct answers answers_of(const char *text, size_t ranks)
{
    struct answers answers = {calloc(ranks, sizeof *answers.of), {ranks}};
    for (; (text = strstr(text, "rank ")); text++) {
        size_t rank, count;
        char word[16];
        if (sscanf(text, "rank %zu of %zu: %15[a-z]", &rank, &count, word) != 3 || count != ranks || rank >= ranks)
            continue;
        enum answer answer = strcmp(word, "computes") == 0 ? COMPUTES
                             : strcmp(word, "waits") == 0  ? WAITS
                             : strcmp(word, "stays") == 0  ? STAYS
                                                           : NONE;
        answers.counts[answers.of[rank]]--;
        answers.counts[answer]++;
        answers.of[rank] = answer;
    }
    return answers;
}

bool rank_answers_complete(const char *text, size_t ranks)
{
    struct answers answers = answers_of(text, ranks);
    free(answers.of);
    return answers.counts[NONE] == 0;
}

// "rank 2 of 4 computed", "ranks 1, 2 of 4 computed".
static void tell(char *blame, size_t bytes, const struct answers *answers, size_t ranks, enum answer answer,
                 const char *did)
{
    size_t named = 0, count = answers->counts[answer];
    if (count == 0)
        return;
    text_append(blame, bytes, "%srank%s ", *blame ? ", " : "", count > 1 ? "s" : "");
    for (size_t rank = 0; rank < ranks && named < NAMED_MAX; rank++)
        if (answers->of[rank] == answer)
            text_append(blame, bytes, "%s%zu", named++ > 0 ? ", " : "", rank);
    text_append(blame, bytes, "%s of %zu %s", count > named ? " and more" : "", ranks, did);
}

void rank_answers_blame(const char *text, size_t ranks, char *blame, size_t bytes)
{
    struct answers answers = answers_of(text, ranks);
    size_t waiting = answers.counts[WAITS] + answers.counts[STAYS];
    *blame = '\0';
    if (answers.counts[STAYS] == ranks)
        text_append(blame, bytes, "all %zu ranks waited for each other", ranks);
    else if (waiting == ranks)
        text_append(blame, bytes, "all %zu ranks were slow: each waited, and went on", ranks);
    else if (answers.counts[COMPUTES] == ranks)
        text_append(blame, bytes, "all %zu ranks computed", ranks);
    else if (answers.counts[NONE] == ranks)
        text_append(blame, bytes, "none of %zu ranks answered: does the launcher pass SIGUSR1 on?", ranks);
    else {
        tell(blame, bytes, &answers, ranks, COMPUTES, "computed");
        tell(blame, bytes, &answers, ranks, NONE, "did not answer");
        text_append(blame, bytes, "%s", waiting ? ", the others waited" : "");
    }
    free(answers.of);
}
