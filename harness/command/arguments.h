// Arguments: glibc's argp for commands that also see the methods' options.
// argp.h brings in getopt.h, whose `struct option` nobody here uses but whose name the methods' option table has.
#pragma once
#define option getopt_option
#include <argp.h>
#undef option
