// xxHash's functions, compiled once; its header, which is all there is of it, declares them everywhere else.
#define XXH_STATIC_LINKING_ONLY
#define XXH_IMPLEMENTATION
#include <xxhash.h>
