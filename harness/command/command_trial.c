// Command: `longbp trial`, the child's side of a sweep.
#include "harness/command/command.h"
#include "harness/run/child.h"
#include "harness/run/trial_child.h"
#include <string.h>

int command_trial(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    return trial_child_main(strcmp(how, "references") == 0, strcmp(how, TRIAL_OF_RANKS) == 0);
}
