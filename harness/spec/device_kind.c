#include "harness/spec/device_kind.h"
#include <string.h>

const struct device_kind device_kinds[] = {{"cpu", "plan-cpu", false},
                                           {"cuda", "plan-cuda", true},
                                           {"plan-transformers", "plan-transformers", false},
                                           {0}};

const struct device_kind *device_kind_of(const char *device)
{
    for (const struct device_kind *kind = device_kinds; kind->name; kind++) {
        size_t length = strlen(kind->name);
        bool numbered = strncmp(device, kind->name, length) == 0 && (device[length] == ':' || !device[length]);
        if (numbered || strcmp(device, kind->planned) == 0)
            return kind;
    }
    return NULL;
}

bool device_is_of_card(const char *device)
{
    const struct device_kind *kind = device_kind_of(device);
    return kind && kind->card;
}

const struct device_kind *device_kind_like(bool card)
{
    const struct device_kind *kind = device_kinds;
    while (kind->card != card)
        kind++;
    return kind;
}
