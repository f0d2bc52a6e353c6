// Host memory: what happens where the host has none left. A failed malloc cannot be overlooked, for the linker puts
// functions of this file in the place of malloc, calloc, realloc, strdup, asprintf, getline, fopen and their like
// wherever the program's own code calls them, harness, methods and kernels alike (CHECKED in the Makefile; not what
// libraries and plug-ins call). For want of memory they do not fail but say so on stderr and end the program. What
// is as large as the data is asked for by host_memory_try, and a device's memory is its arenas'
// (kernels/device/arena.h): where these have none, the caller has a status.
#pragma once
#include <stddef.h>

// What the message begins with, the exit code, and what is done before the end; may be NULL. Until then "longbp",
// 2 and NULL.
void host_memory_settle(const char *program, int exit_code, void (*clean_up)(void));
// Zeros; NULL where there is no room for them.
void *host_memory_try(size_t count, size_t bytes);
// Says "PROGRAM: out of host memory while WHAT" and ends the program: where a library had none.
_Noreturn void host_memory_exhausted(const char *what);
