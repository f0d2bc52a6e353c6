#include "kernels/base/status.h"
#include <stdarg.h>
#include <string.h>

size_t control_character(const char *text)
{
    unsigned char byte = (unsigned char)text[0];
    if (byte && (byte < 0x20 || byte == 0x7f))
        return 1;
    return byte == 0xc2 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] < 0xa0 ? 2 : 0;
}

bool status_set(struct status *status, enum status_code code, const char *format, ...)
{
    if (status->code != STATUS_OK)
        return false;
    status->code = code;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(status->message, sizeof status->message, format, arguments);
    va_end(arguments);
    for (char *c = status->message; *c; c++)
        memset(c, '?', control_character(c));
    return false;
}

bool status_take(struct status *status, const struct status *part)
{
    return part->code == STATUS_OK || status_set(status, part->code, "%s", part->message);
}

const char *status_name(enum status_code code)
{
    static const char *const names[] = {"ok", "oom", "unsupported", "bad_input", "io", "failed"};
    return names[code];
}
