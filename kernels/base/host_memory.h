// Host memory: ends the program if the host has no memory. The linker replaces malloc, calloc, realloc, strdup,
// asprintf, getline, fopen and similar calls in the program's own code (CHECKED in the Makefile; libraries and
// plug-ins keep theirs). Without memory the replacements print a message on stderr and exit instead of failing.
// Allocations as large as the data use host_memory_try, and devices their arenas (kernels/device/arena.h), whose
// callers get a status.
#pragma once
#include <stddef.h>

// Sets the start of the message, the exit code, and a function to call first (or NULL). Defaults: "longbp", 2,
// NULL.
void host_memory_settle(const char *program, int exit_code, void (*clean_up)(void));
// Allocates zeros; NULL if there is no memory.
void *host_memory_try(size_t count, size_t bytes);
// Prints "PROGRAM: out of host memory while WHAT" and ends the program; for failures inside a library.
_Noreturn void host_memory_exhausted(const char *what);
