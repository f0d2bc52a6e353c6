// Command: `longbp trial`, the child's side of a sweep.
#include "harness/command/command.h"
#include "harness/run/child.h"

int command_trial(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return child_main();
}
