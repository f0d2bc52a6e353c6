// Status: why something could not be done. Faults of the program abort through CHECK; bad input and exhausted
// memory give a status with a message for the user.
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

// Sets code and message, with control characters as "?". Keeps an earlier status, which is the cause. Returns
// false.
bool status_set(struct status *status, enum status_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Takes over the failure of a part, such as a device. Returns whether the part has none.
bool status_take(struct status *status, const struct status *part);
// Bytes of the control character at text: 1 for ASCII, 2 for Unicode's C1; 0: it is none. Text of a hostile file
// must not control the terminal.
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
