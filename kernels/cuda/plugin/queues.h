// Queues: the device's streams, one for operations and one for copies in either direction, and the events between
// them.
#pragma once
#include "kernels/device/device.h"
#include <cuda_runtime_api.h>

// Distinguishable events per queue. Waiting for an older one waits for a later event of its queue, recorded before
// the wait: never too little, and never a cycle.
#define QUEUE_EVENTS 512

struct queues {
    cudaStream_t streams[QUEUE_COUNT];
    cudaEvent_t events[QUEUE_COUNT][QUEUE_EVENTS]; // made when first recorded
    bool copied;                                   // the copies' streams have had work
};

void queues_open(struct queues *queues);
// Waits for all of them.
void queues_synchronize(struct queues *queues);
// The host tensor must be pinned (pinned.h); otherwise the copy is synchronous.
void queues_transfer(struct queues *queues, enum queue queue, struct tensor dst, struct tensor src);
void queues_record(struct queues *queues, struct event event);
void queues_wait(struct queues *queues, enum queue queue, struct event event);
// Call after queues_synchronize.
void queues_close(struct queues *queues);
