// Shell: command lines as they can be given to a shell again.
#pragma once

// Appends a word to *command, after a space if it is not the first, quoted if a shell would read it as something
// else. *command: NULL, or from earlier calls; to be freed.
void shell_append(char **command, const char *word);
