#include "kernels/base/sensors.h"
#include <dlfcn.h>
#include <math.h>

// Constants of nvml.h.
enum { NVML_SUCCESS, NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_TEMPERATURE_GPU = 0 };
struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct sensors {
    void *library;
    unsigned count;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int result);
    int (*get_count)(unsigned *count);
    int (*by_index)(unsigned index, void **card);
    int (*by_bus_id)(const char *bus_id, void **card);
    int (*name)(void *card, char *name, unsigned bytes);
    int (*pci)(void *card, struct nvml_pci *pci);
    int (*clock)(void *card, int which, unsigned *mhz);
    int (*power)(void *card, unsigned *milliwatts);
    int (*temperature)(void *card, int which, unsigned *celsius);
    int (*energy)(void *card, unsigned long long *millijoules);
};

static void *find(const struct sensors *s, const char *name, struct status *status)
{
    void *function = dlsym(s->library, name);
    if (!function)
        status_set(status, STATUS_UNSUPPORTED, "no sensors: NVML has no %s", name);
    return function;
}

static bool find_all(struct sensors *s, struct status *status)
{
    s->init = find(s, "nvmlInit_v2", status);
    s->shutdown = find(s, "nvmlShutdown", status);
    s->error = find(s, "nvmlErrorString", status);
    s->get_count = find(s, "nvmlDeviceGetCount_v2", status);
    s->by_index = find(s, "nvmlDeviceGetHandleByIndex_v2", status);
    s->by_bus_id = find(s, "nvmlDeviceGetHandleByPciBusId_v2", status);
    s->name = find(s, "nvmlDeviceGetName", status);
    s->pci = find(s, "nvmlDeviceGetPciInfo_v3", status);
    s->clock = find(s, "nvmlDeviceGetClockInfo", status);
    s->power = find(s, "nvmlDeviceGetPowerUsage", status);
    s->temperature = find(s, "nvmlDeviceGetTemperature", status);
    s->energy = find(s, "nvmlDeviceGetTotalEnergyConsumption", status);
    return status->code == STATUS_OK;
}

struct sensors *sensors_open(struct status *status)
{
    struct sensors *s = calloc(1, sizeof *s);
    CHECK(s);
    s->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!s->library) {
        status_set(status, STATUS_UNSUPPORTED,
                   "no sensors: %s; NVIDIA's driver brings it, into a container where NVIDIA_DRIVER_CAPABILITIES "
                   "has utility",
                   dlerror());
    } else if (find_all(s, status)) {
        int result = s->init();
        if (result == NVML_SUCCESS && (result = s->get_count(&s->count)) == NVML_SUCCESS)
            return s;
        status_set(status, STATUS_UNSUPPORTED, "no sensors: NVML: %s (error %d)", s->error(result), result);
    }
    if (s->library)
        dlclose(s->library);
    free(s);
    return NULL;
}

void sensors_close(struct sensors *sensors)
{
    if (sensors) {
        sensors->shutdown();
        dlclose(sensors->library);
        free(sensors);
    }
}

size_t sensors_count(const struct sensors *sensors)
{
    return sensors->count;
}

static bool describe(const struct sensors *s, struct sensor_card *card)
{
    struct nvml_pci pci = {0};
    if (s->name(card->handle, card->name, sizeof card->name) != NVML_SUCCESS ||
        s->pci(card->handle, &pci) != NVML_SUCCESS)
        return false;
    // The runtime's spelling of the bus id; NVML's domain has eight digits.
    snprintf(card->bus_id, sizeof card->bus_id, "%04X:%02X:%02X.0", pci.domain, pci.bus, pci.device);
    return true;
}

bool sensors_card_at(const struct sensors *sensors, size_t index, struct sensor_card *card)
{
    *card = (struct sensor_card){0};
    return sensors->by_index((unsigned)index, &card->handle) == NVML_SUCCESS && describe(sensors, card);
}

bool sensors_card_find(const struct sensors *sensors, const char *bus_id, struct sensor_card *card)
{
    *card = (struct sensor_card){0};
    return sensors->by_bus_id(bus_id, &card->handle) == NVML_SUCCESS && describe(sensors, card);
}

void sensors_read(const struct sensors *s, const struct sensor_card *card, struct sensor_reading *reading)
{
    unsigned long long millijoules;
    unsigned milliwatts, celsius, sm_mhz, memory_mhz;
    void *c = card->handle;
    *reading = (struct sensor_reading){
        .energy_j = s->energy(c, &millijoules) == NVML_SUCCESS ? 1e-3 * (double)millijoules : NAN,
        .power_w = s->power(c, &milliwatts) == NVML_SUCCESS ? 1e-3 * milliwatts : NAN,
        .temperature_c = s->temperature(c, NVML_TEMPERATURE_GPU, &celsius) == NVML_SUCCESS ? celsius : NAN,
        .sm_clock_mhz = s->clock(c, NVML_CLOCK_SM, &sm_mhz) == NVML_SUCCESS ? sm_mhz : NAN,
        .memory_clock_mhz = s->clock(c, NVML_CLOCK_MEM, &memory_mhz) == NVML_SUCCESS ? memory_mhz : NAN,
    };
}
