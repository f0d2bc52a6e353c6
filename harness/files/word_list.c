#include "harness/files/word_list.h"
#include <stdio.h>
#include <string.h>

size_t word_list_first(const char *list)
{
    size_t bytes = 0, open = 0;
    for (; list[bytes] && (open || list[bytes] != ','); bytes++) {
        open += strchr("[{", list[bytes]) != NULL;
        open -= open && strchr("]}", list[bytes]);
    }
    return bytes;
}

bool word_list_has(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, word, length) == 0 && (!at[length] || at[length] == ',')) {
            return true;
        }
    }
    return false;
}

bool word_list_check(const char *list, const char *known, const char *option, struct status *status)
{
    char words[256], *rest = NULL;
    size_t count = 0;
    if (snprintf(words, sizeof words, "%s", list) >= (int)sizeof words) {
        return status_set(status, STATUS_BAD_INPUT, "%s: the list is too long", option);
    }
    for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest), count++) {
        if (!word_list_has(known, word)) {
            return status_set(status, STATUS_BAD_INPUT, "%s: \"%s\" is not one of %s", option, word, known);
        }
    }
    return count || status_set(status, STATUS_BAD_INPUT, "%s: no word; take some of %s", option, known);
}
