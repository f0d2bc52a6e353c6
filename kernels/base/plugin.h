// Plug-in: a shared library of this program, loaded on demand, so that the program builds and runs without the
// library's dependencies.
#pragma once
#include "kernels/base/status.h"

struct plugin {
    const char *library;  // "longbp-cuda.so"
    const char *variable; // environment variable that overrides the file: "LONGBP_CUDA"
    const char *serves;   // for messages: "device cuda"
    const char *remedy;   // for messages, the end of a sentence: "`make cuda` builds it"
    const char *symbol;   // a struct whose first member is `char sources[PLUGIN_SOURCES_BYTES]`
    const char *sources;  // the required value: the hash of the library's sources, made by the Makefile
};
#define PLUGIN_SOURCES_BYTES 17
// Loads $VARIABLE, or the library beside the program or in ../lib/longbp from there, and returns its symbol, which
// stays loaded. Returns NULL and a status (unsupported) if the library or a dependency is missing, it lacks the
// symbol, or it was built from other sources than this program.
const void *plugin_load(const struct plugin *plugin, struct status *status);
