// xxHash's functions, compiled once; its header, which is all there is of it, declares them everywhere else.
#define XXH_STATIC_LINKING_ONLY
#define XXH_IMPLEMENTATION
#ifdef __SANITIZE_ADDRESS__
#define XXH_FORCE_MEMORY_ACCESS 1 // reads words without memcpy, which is a call here
#endif
#include <xxhash.h>
