// Device kinds: the table of device names in trials, and of the plans that describe them.
#pragma once
#include <stdbool.h>

struct device_kind {
    const char *name, *planned; // "cuda", "plan-cuda"
    bool card;                  // whose sizes are the defaults; otherwise the processor's
};
extern const struct device_kind device_kinds[]; // ending in a NULL name

// The kind of a device, or of the device that a plan describes, by name: "cuda", "cuda:1", "plan-cuda"; NULL:
// unknown.
const struct device_kind *device_kind_of(const char *device);
// The kind that is a card, or the one that is the processor.
const struct device_kind *device_kind_like(bool card);
bool device_is_of_card(const char *device);
