// Shell: formats command lines for reuse in a shell.
#pragma once

// Appends a word to *command, separated by a space and quoted if a shell requires it. *command: NULL, or from
// earlier calls; to be freed.
void shell_append(char **command, const char *word);
// Appends --name, with hyphens for underscores, and its value; NULL: it has none.
void shell_append_flag(char **command, const char *name, const char *value);
// Returns the command line of a command, whose argv[0] is "longbp plan"; to be freed.
char *shell_line(int argc, char **argv);
