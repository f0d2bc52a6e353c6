#include "kernels/cuda/plugin/ranges.h"
#include <nvtx3/nvToolsExt.h>

struct ranges {
    struct observer observer;
    nvtxDomainHandle_t domain;
};

static void describe(const struct range *range, char *text, size_t bytes)
{
    if (range->level == RANGE_CELL)
        snprintf(text, bytes, "%s, layer %zu, token %zu", range->name, range->layer, range->start);
    else if (range->level == RANGE_HEAD)
        snprintf(text, bytes, "%s, token %zu", range->name, range->start);
    else if (range->work == WORK_GEMM && range->level == RANGE_OPERATION)
        snprintf(text, bytes, "%s %zu x %zu x %zu", range->name, range->m, range->n, range->k);
    else
        snprintf(text, bytes, "%s", range->name);
}

static void push(struct observer *observer, struct device *device, const struct range *range)
{
    (void)device;
    char text[128];
    describe(range, text, sizeof text);
    nvtxEventAttributes_t event = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = text};
    nvtxDomainRangePushEx(((struct ranges *)observer)->domain, &event);
}

static void pop(struct observer *observer, struct device *device)
{
    (void)device;
    nvtxDomainRangePop(((struct ranges *)observer)->domain);
}

struct ranges *ranges_open(struct device *device)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("longbp"); // NULL without a tool
    if (!domain)
        return NULL;
    struct ranges *ranges = calloc(1, sizeof *ranges);
    CHECK(ranges);
    *ranges = (struct ranges){.observer = {.push = push, .pop = pop}, .domain = domain};
    observer_attach(&ranges->observer, device);
    return ranges;
}

void ranges_close(struct ranges *ranges, struct device *device)
{
    if (ranges) {
        observer_detach(&ranges->observer, device);
        nvtxDomainDestroy(ranges->domain);
        free(ranges);
    }
}
