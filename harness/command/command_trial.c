// Command: `longbp trial`, the child's side of a sweep.
#include "harness/options/command.h"
#include "harness/process/child.h"
#include "harness/sweep/trial_child.h"
#include <string.h>

int command_trial(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    return trial_child_main(strcmp(how, "references") == 0, strcmp(how, TRIAL_OF_RANKS) == 0);
}
