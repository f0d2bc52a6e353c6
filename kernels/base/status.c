#include "kernels/base/status.h"
#include <stdarg.h>

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
    return false;
}

const char *status_name(enum status_code code)
{
    static const char *const names[] = {"ok", "oom", "unsupported", "bad_input", "io", "failed"};
    return names[code];
}
