// Plug-in: a shared library of this program's own, loaded when it is asked for, so that the program needs nothing
// of what the library needs to be built or to run.
#pragma once
#include "kernels/base/status.h"

struct plugin {
    const char *library;  // "longbp-cuda.so"
    const char *variable; // that names another file: "LONGBP_CUDA"
    const char *serves;   // what it is for: "device cuda"
    const char *remedy;   // where it comes from, as a sentence goes on: "`make cuda` builds it"
    const char *symbol;   // what is asked of it
};
// $VARIABLE, or the library beside the program or in ../lib/longbp from there: its symbol, which stays. NULL and a
// status (unsupported) if it is not there or needs a library that is not there; without a status if it has no such
// symbol.
const void *plugin_load(const struct plugin *plugin, struct status *status);
