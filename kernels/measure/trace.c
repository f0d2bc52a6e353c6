#include "kernels/measure/trace.h"
#include "kernels/device/rates.h"
#include <math.h>
#include <stdlib.h>

void trace_begin(struct trace *trace)
{
    trace->count = 0;
    trace->noted_s = trace->rest_s = 0;
}

size_t trace_add(struct trace *trace, const struct device *device, struct trace_event event)
{
    if (trace->count == trace->capacity) {
        trace->capacity = trace->capacity ? 2 * trace->capacity : 256;
        trace->events = realloc(trace->events, trace->capacity * sizeof *trace->events);
        CHECK(trace->events);
    }
    // Includes waiting for computation, but not for copies to and from the host.
    double now = device->counters.clock_s[QUEUE_COMPUTE];
    event.busy_s = now - trace->noted_s;
    trace->noted_s = now;
    trace->events[trace->count] = event;
    return trace->count++;
}

void trace_end(struct trace *trace, const struct device *device)
{
    double clock_s = counters_clock_s(&device->counters);
    double factor = clock_s > 0 && isfinite(clock_s) ? device_estimate_s(device) / clock_s : 1;
    for (size_t i = 0; i < trace->count; i++)
        trace->events[i].busy_s *= factor;
    trace->rest_s = factor * (clock_s - trace->noted_s);
}

void trace_free(struct trace *trace)
{
    free(trace->events);
    *trace = (struct trace){0};
}
