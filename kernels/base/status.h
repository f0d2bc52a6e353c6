// Status: why something could not be done. Faults of the program abort through CHECK; everything that
// bad input or a full memory can cause is a status with a reason that the user sees.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum status_code {
    STATUS_OK = 0,
    STATUS_OOM,         // a memory limit was reached
    STATUS_UNSUPPORTED, // the device or method cannot do this
    STATUS_BAD_INPUT,   // a file, option or value is wrong
    STATUS_IO,          // reading or writing failed
    STATUS_FAILED,      // the work itself failed
};

struct status {
    enum status_code code;
    char message[1024];
};

// Sets code and message, control characters as "?", unless one is set: the first is the true one. Returns false.
bool status_set(struct status *status, enum status_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// How many bytes the control character at text takes, of ASCII 1, of Unicode's second block (C1) 2; 0: it is none.
// What a hostile file says must not write to the terminal.
size_t control_character(const char *text);
// "ok", "oom", "unsupported", "bad_input", "io", "failed".
const char *status_name(enum status_code code);

#define CHECK(condition)                                                                                           \
    do {                                                                                                           \
        if (!(condition)) {                                                                                        \
            fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition);                          \
            abort();                                                                                               \
        }                                                                                                          \
    } while (0)
