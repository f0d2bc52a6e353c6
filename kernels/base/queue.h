// Queue: copies between the device and the host beside its operations, and the events that order them. A copy that
// reads what an operation writes must wait for it, an operation that reads or overwrites what a copy touches must
// wait for the copy, and so must whoever releases either side: memory is given on in the order of QUEUE_COMPUTE.
#pragma once
#include "kernels/base/device.h"

// host = t, in QUEUE_OUT; and t = host, in QUEUE_IN. Of one dtype and as many elements. They are asked for, not
// waited for. A wrong place is a bug: abort.
void copy_out(struct device *device, struct tensor host, struct tensor t);
void copy_in(struct device *device, struct tensor t, struct tensor host);
// Of a failed device, too: what it was asked for before is still under way. Events do not outlive a reset of the
// counters, for they hold a clock.
struct event event_record(struct device *device, enum queue queue);
// What the queue is asked for from here on happens after the event; also on a failed device, whose memory is still
// to be released. A queue is in order with itself.
void event_wait(struct device *device, enum queue queue, struct event event);
