#include "methods/offload.h"

bool offload_check(enum offload offload, const enum offload *served, const char *keeps, struct status *status)
{
    static const char *const names[] = {"none", "inputs", "inputs+gradient", "kv"};
    for (; *served != OFFLOAD_NONE && *served != offload; served++) {
    }
    return *served == offload ||
           status_set(status, STATUS_BAD_INPUT, "offload \"%s\" is of what is not kept: %s", names[offload], keeps);
}
