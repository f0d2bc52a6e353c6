// Command: `longbp trial`, the child's side of a sweep.
#include "harness/command/command.h"
#include "harness/run/child.h"
#include <string.h>

int command_trial(int argc, char **argv)
{
    return child_main(argc > 1 && strcmp(argv[1], "references") == 0);
}
