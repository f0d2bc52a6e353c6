// Queues: the device's streams, one for operations and one for copies in either direction, and the events between
// them.
#pragma once
#include "kernels/device/device.h"
#include <cuda_runtime_api.h>

// Events of a queue that are told apart. Waiting for one that is longer ago waits for a later one of its queue,
// which was asked for before the wait: never too little, and nothing that waits for it in turn.
#define QUEUE_EVENTS 512

struct queues {
    cudaStream_t streams[QUEUE_COUNT];
    cudaEvent_t events[QUEUE_COUNT][QUEUE_EVENTS]; // made when first recorded
    bool copied;                                   // the copies' streams were asked for something
};

void queues_open(struct queues *queues);
// Waits for all of them.
void queues_synchronize(struct queues *queues);
// The host's side must be pinned (pinned.h), or the copy takes place while it is asked for.
void queues_transfer(struct queues *queues, enum queue queue, struct tensor dst, struct tensor src);
void queues_record(struct queues *queues, struct event event);
void queues_wait(struct queues *queues, enum queue queue, struct event event);
// After queues_synchronize.
void queues_close(struct queues *queues);
