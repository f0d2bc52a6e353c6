#include "harness/options/option_words.h"
#include "harness/text/names.h"
#include "harness/text/text.h"
#include "methods/method.h"
#include <string.h>

#define WORDS_BYTES 1024

static char *choices(const char *name)
{
    struct names names = {0};
    char text[WORDS_BYTES] = "";
    for (size_t i = 0; methods[i]; i++) {
        const struct option *option = option_find(&methods[i]->options, name);
        for (size_t c = 0; option && option->choices[c]; c++) {
            if (names_find(&names, option->choices[c]) < names.count)
                continue;
            text_append(text, sizeof text, "%s%s", names.count ? "|" : "", option->choices[c]);
            names_add(&names, option->choices[c]);
        }
    }
    return strdup(text);
}

char *option_argument(const struct option *option)
{
    return option->type == OPTION_CHOICE   ? choices(option->name)
           : option->type == OPTION_LIST   ? strdup("N,N")
           : option->type == OPTION_WORDS  ? strdup("TARGET,TARGET")
           : option->type == OPTION_NUMBER ? strdup("NUMBER")
                                           : strdup(option->share    ? "N|SHARE%"
                                                    : option->tokens ? "N[K|M]"
                                                                     : "N");
}

static void standard_of(const struct option *option, char *text, size_t bytes)
{
    if (option->type == OPTION_CHOICE)
        snprintf(text, bytes, "%s", option->choices[(size_t)option->initial]);
    else if (option->type == OPTION_LIST || option->type == OPTION_WORDS)
        snprintf(text, bytes, "none");
    else if (option->card_rows > 0)
        snprintf(text, bytes, OPTION_ON_CARD, option->initial, option->card_rows);
    else
        snprintf(text, bytes, "%.15g", option->initial);
}

char *option_describe(const struct option *option)
{
    char text[WORDS_BYTES], first[96], other[96];
    standard_of(option, first, sizeof first);
    snprintf(text, sizeof text, "%s (%s", option->help, first);
    for (size_t i = 0; methods[i]; i++) {
        const struct option *same = option_find(&methods[i]->options, option->name);
        if (!same)
            continue;
        standard_of(same, other, sizeof other);
        if (strcmp(first, other) != 0)
            text_append(text, sizeof text, "; of %s %s", methods[i]->name, other);
    }
    text_append(text, sizeof text, ")");
    return strdup(text);
}
