// Sanitized: under the sanitizers, which take several times as long, long loops over settings take every third one.
// What all of them come to is held without the sanitizers.
#pragma once

#ifdef __SANITIZE_ADDRESS__
enum { STRIDE = 3 };
#else
enum { STRIDE = 1 };
#endif
