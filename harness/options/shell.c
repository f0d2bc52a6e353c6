#include "harness/options/shell.h"
#include "harness/text/text.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void shell_append(char **command, const char *word)
{
    bool plain = *word && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+%") ==
                              strlen(word);
    size_t used = *command ? strlen(*command) : 0;
    *command = realloc(*command, used + 4 * strlen(word) + 4);
    char *end = *command + used;
    if (used)
        *end++ = ' ';
    if (!plain)
        *end++ = '\'';
    for (; *word; word++) {
        if (*word == '\'')
            end = stpcpy(end, "'\\'");
        *end++ = *word;
    }
    if (!plain)
        *end++ = '\'';
    *end = 0;
}

void shell_append_flag(char **command, const char *name, const char *value)
{
    char *flag = text_new("--%s", name);
    for (char *c = flag; *c; c++)
        *c = *c == '_' ? '-' : *c;
    shell_append(command, flag);
    if (value)
        shell_append(command, value);
    free(flag);
}

char *shell_line(int argc, char **argv)
{
    char *line = strdup(argv[0]);
    for (int i = 1; i < argc; i++)
        shell_append(&line, argv[i]);
    return line;
}
