#include "kernels/base/status.h"
#include <stdarg.h>

// Control characters, of ASCII and of Unicode's second block (C1), as "?": what a message quotes of a hostile file
// must not write to the terminal.
static void disarm(char *text)
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)text[0], next = (unsigned char)text[1];
        if (byte < 0x20 || byte == 0x7f) {
            text[0] = '?';
        } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
            text[0] = text[1] = '?';
        }
    }
}

bool status_set(struct status *status, enum status_code code, const char *format, ...)
{
    if (status->code != STATUS_OK) {
        return false;
    }
    status->code = code;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(status->message, sizeof status->message, format, arguments);
    va_end(arguments);
    disarm(status->message);
    return false;
}

const char *status_name(enum status_code code)
{
    static const char *const names[] = {"ok", "oom", "unsupported", "bad_input", "io", "failed"};
    return names[code];
}
