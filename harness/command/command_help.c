// Command: `longbp help`, a list of all commands, or the text of `longbp COMMAND --help`.
#include "harness/options/arguments.h"
#include "harness/options/command.h"
#include "harness/options/help_text.h"
#include <string.h>

static void print_commands(void)
{
    printf("Usage: longbp COMMAND [OPTION...]\n"
           "Memory, time and gradient error of long-context backpropagation, method by method.\n\n");
    for (const struct command *command = commands; command->name; command++) {
        if (!command->summary)
            continue;
        int column = printf("  %-12s ", command->name);
        help_text_words(command->summary, strlen(command->summary), (size_t)column, (size_t)column, stdout);
    }
    static const char more[] =
        "`longbp help COMMAND` and `longbp COMMAND --help` tell about one command, `longbp COMMAND --help-all` all "
        "of its options, `longbp --version` the program's version.\nExit codes: 0 fine, 1 a check failed, 2 wrong "
        "use or bad input, 3 undecided.";
    putchar('\n');
    help_text_words(more, strlen(more), 0, 0, stdout);
}

int command_help(int argc, char **argv)
{
    static const struct flag flags[] = {{OPERANDS, .kind = FLAG_TEXT}, {0}};
    static const struct argp argp = {.args_doc = "[COMMAND]", .doc = "Lists the commands, or describes one."};
    const char *name = NULL;
    arguments_parse(&argp, flags, argc, argv, &name);
    if (!name) {
        print_commands();
        return EXIT_FINE;
    }
    const struct command *command = command_find(name);
    char *asked[] = {"", "--help", NULL};
    return command && command->summary ? command_start(command, 2, asked) : command_unknown(name);
}
