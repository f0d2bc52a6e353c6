// Sensors: a card's sensors, read through NVIDIA's management library (NVML), which is loaded at run time. No
// device need be open and no device memory is used. Calls are thread-safe.
#pragma once
#include "kernels/base/status.h"
#include <stddef.h>

// NAN: no such sensor.
struct sensor_reading {
    double energy_j; // since the driver was loaded
    double power_w, temperature_c, sm_clock_mhz, memory_clock_mhz;
};

struct sensors;
// Returns NULL and a status (unsupported) if the library is missing or finds no driver. Release with sensors_close.
struct sensors *sensors_open(struct status *status);
void sensors_close(struct sensors *sensors);

size_t sensors_count(const struct sensors *sensors); // of cards
struct sensor_card {
    void *handle;
    char name[96], bus_id[32]; // "NVIDIA H200", "0000:41:00.0"
};
// Finds a card by index, or by bus id in any spelling. Returns false if there is none.
bool sensors_card_at(const struct sensors *sensors, size_t index, struct sensor_card *card);
bool sensors_card_find(const struct sensors *sensors, const char *bus_id, struct sensor_card *card);
void sensors_read(const struct sensors *sensors, const struct sensor_card *card, struct sensor_reading *reading);
