// Compiles the functions of xxHash, a header-only library, once.
#define XXH_STATIC_LINKING_ONLY
#define XXH_IMPLEMENTATION
#ifdef __SANITIZE_ADDRESS__
#define XXH_FORCE_MEMORY_ACCESS 1 // reads words directly: memcpy would be a call here
#endif
#include <xxhash.h>
