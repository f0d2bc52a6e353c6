#include "harness/text/word_list.h"
#include "harness/text/names.h"
#include <stdlib.h>
#include <string.h>

size_t word_list_first(const char *list)
{
    size_t bytes = 0, open = 0;
    bool quoted = false;
    for (; list[bytes] && (quoted || open || list[bytes] != ','); bytes++) {
        if (quoted && list[bytes] == '\\' && list[bytes + 1]) {
            bytes++;
        } else if (list[bytes] == '"') {
            quoted = !quoted;
        } else if (!quoted) {
            open += strchr("[{", list[bytes]) != NULL;
            open -= open && strchr("]}", list[bytes]);
        }
    }
    return bytes;
}

bool word_list_has(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (!at[length] || at[length] == ','))
            return true;
    return false;
}

bool word_check(const char *word, const char *known, const char *option, struct status *status)
{
    struct names names = {0};
    char *copy = strdup(known), *rest = copy, *name, hint[700];
    while ((name = strsep(&rest, ",|")))
        names_add(&names, name);
    bool found = names_find(&names, word) < names.count;
    names_hint(&names, word, "known words", hint, sizeof hint);
    free(copy);
    return found || status_set(status, STATUS_BAD_INPUT, "%s%sunknown word \"%.60s\"; %s", option,
                               *option ? ": " : "", word, hint);
}

bool word_list_check(const char *list, const char *known, const char *option, struct status *status)
{
    char *copy = strdup(list), *rest = copy, *word;
    bool fine = true;
    while (fine && (word = strsep(&rest, ",")))
        fine = word_check(word, known, option, status);
    free(copy);
    return fine;
}
