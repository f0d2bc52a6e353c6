// NVML of two cards, those of the emulated runtime: card 0 takes 100 W, card 1 200 W, and their clocks take turns
// between 1,500, 1,510 and 1,520 MHz. With NVML_WITHOUT_ENERGY=1 they do not count their energy.
#include "kernels/base/clock.h"
#include <stdio.h>
#include <stdlib.h>

// As nvml.h has them.
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, CLOCK_SM = 1 };
struct pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

static struct card {
    unsigned watts, readings;
} cards[2] = {{100, 0}, {200, 0}};

int nvmlInit_v2(void)
{
    return SUCCESS;
}

int nvmlShutdown(void)
{
    return SUCCESS;
}

const char *nvmlErrorString(int result)
{
    return result == SUCCESS ? "no error" : "an error";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 2;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct card **card)
{
    *card = &cards[index % 2];
    return index < 2 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct card **card)
{
    unsigned domain, bus;
    if (sscanf(bus_id, "%x:%x:", &domain, &bus) != 2 || domain != 0 || bus < 0xe0 || bus > 0xe1)
        return NOT_FOUND;
    *card = &cards[bus - 0xe0];
    return SUCCESS;
}

int nvmlDeviceGetName(struct card *card, char *name, unsigned bytes)
{
    snprintf(name, bytes, "card of %u W", card->watts);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(struct card *card, struct pci *pci)
{
    *pci = (struct pci){.bus = 0xe0 + (unsigned)(card - cards)};
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(struct card *card, int which, unsigned *mhz)
{
    *mhz = which == CLOCK_SM ? 1500 + 10 * (card->readings++ % 3) : 3201;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(struct card *card, unsigned *milliwatts)
{
    *milliwatts = 1000 * card->watts;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(struct card *card, int which, unsigned *celsius)
{
    (void)card, (void)which;
    *celsius = 40;
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(struct card *card, unsigned long long *millijoules)
{
    *millijoules = (unsigned long long)card->watts * (unsigned long long)(clock_ns() / 1000000);
    return getenv("NVML_WITHOUT_ENERGY") ? NOT_SUPPORTED : SUCCESS;
}
