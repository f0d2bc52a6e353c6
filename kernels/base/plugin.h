// Plug-in: a shared library of this program's own, loaded when it is asked for, so that the program needs nothing
// of what the library needs to be built or to run.
#pragma once
#include "kernels/base/status.h"

struct plugin {
    const char *library;  // "longbp-cuda.so"
    const char *variable; // that names another file: "LONGBP_CUDA"
    const char *serves;   // what it is for: "device cuda"
    const char *remedy;   // where it comes from, as a sentence goes on: "`make cuda` builds it"
    const char *symbol;   // a struct, whose first member is `char sources[PLUGIN_SOURCES_BYTES]`
    const char *sources;  // what that must be: the hash of the library's sources, made by the Makefile
};
#define PLUGIN_SOURCES_BYTES 17
// $VARIABLE, or the library beside the program or in ../lib/longbp from there: its symbol, which stays. NULL and a
// status (unsupported) if it is not there, needs a library that is not there, has no such symbol or was built from
// other sources than this program.
const void *plugin_load(const struct plugin *plugin, struct status *status);
