// Queue: copies between device and host beside operations, and the events that order them. Memory is reused in the
// order of QUEUE_COMPUTE. Copies therefore need exactly these waits. A copy out waits for the operations that write
// its source, and whoever overwrites or releases the source waits for the copy. A copy in waits for earlier
// operations on its memory, for copies out that read that memory, and for those that write its source; whoever
// reads, overwrites or releases its memory waits for the copy.
#pragma once
#include "kernels/device/device.h"

// host = t, in QUEUE_OUT; t = host, in QUEUE_IN. Asynchronous; both have one dtype and element count. A wrong place
// is a bug: abort.
void copy_out(struct device *device, struct tensor host, struct tensor t);
void copy_in(struct device *device, struct tensor t, struct tensor host);
// host = t, asynchronous, after the operations issued so far that write t. Whoever overwrites or releases t waits
// for the event.
struct event copy_out_written(struct device *device, struct tensor host, struct tensor t);
// Also on a failed device, whose earlier work is still running. Events hold a clock, so they do not outlive a reset
// of the counters.
struct event event_record(struct device *device, enum queue queue);
// Work issued to the queue from now on runs after the event; also on a failed device, whose memory must still be
// released. A queue is in order with itself.
void event_wait(struct device *device, enum queue queue, struct event event);
