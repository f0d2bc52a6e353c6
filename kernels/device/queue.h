// Queue: copies between the device and the host beside its operations, and the events that order them. Memory is
// given on in the order of QUEUE_COMPUTE. So whoever copies needs these waits, and no others: a copy out waits for
// the operations that write what it reads; who overwrites or releases that waits for the copy out; a copy in waits
// for the operations that used its memory before, and for a copy out that still reads that memory, or writes what
// it reads; what reads or overwrites its memory, and who releases it, waits for the copy in.
#pragma once
#include "kernels/device/device.h"

// host = t, in QUEUE_OUT; and t = host, in QUEUE_IN. Of one dtype and as many elements. They are asked for, not
// waited for. A wrong place is a bug: abort.
void copy_out(struct device *device, struct tensor host, struct tensor t);
void copy_in(struct device *device, struct tensor t, struct tensor host);
// host = t, beside what follows, after the operations that were asked to write t. Whoever overwrites or releases t
// waits for the event.
struct event copy_out_written(struct device *device, struct tensor host, struct tensor t);
// Of a failed device, too: what it was asked for before is still under way. Events do not outlive a reset of the
// counters, for they hold a clock.
struct event event_record(struct device *device, enum queue queue);
// What the queue is asked for from here on happens after the event; also on a failed device, whose memory is still
// to be released. A queue is in order with itself.
void event_wait(struct device *device, enum queue queue, struct event event);
