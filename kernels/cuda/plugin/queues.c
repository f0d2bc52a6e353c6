#include "kernels/cuda/plugin/queues.h"
#include "kernels/cuda/kernels/check.h"

void queues_open(struct queues *queues)
{
    for (int i = 0; i < QUEUE_COUNT; i++)
        CUDA_CHECK(cudaStreamCreateWithFlags(&queues->streams[i], cudaStreamNonBlocking));
}

void queues_synchronize(struct queues *queues)
{
    CUDA_CHECK(cudaStreamSynchronize(queues->streams[QUEUE_COMPUTE]));
    if (queues->copied) {
        CUDA_CHECK(cudaStreamSynchronize(queues->streams[QUEUE_OUT]));
        CUDA_CHECK(cudaStreamSynchronize(queues->streams[QUEUE_IN]));
        queues->copied = false;
    }
}

void queues_transfer(struct queues *queues, enum queue queue, struct tensor dst, struct tensor src)
{
    enum cudaMemcpyKind kind = queue == QUEUE_OUT ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    CUDA_CHECK(cudaMemcpyAsync(dst.data, src.data, tensor_bytes(src), kind, queues->streams[queue]));
    queues->copied = true;
}

static cudaEvent_t *event_of(struct queues *queues, struct event event)
{
    return &queues->events[event.queue][event.serial % QUEUE_EVENTS];
}

void queues_record(struct queues *queues, struct event event)
{
    cudaEvent_t *made = event_of(queues, event);
    if (!*made)
        CUDA_CHECK(cudaEventCreateWithFlags(made, cudaEventDisableTiming));
    CUDA_CHECK(cudaEventRecord(*made, queues->streams[event.queue]));
    queues->copied = queues->copied || event.queue != QUEUE_COMPUTE;
}

void queues_wait(struct queues *queues, enum queue queue, struct event event)
{
    CUDA_CHECK(cudaStreamWaitEvent(queues->streams[queue], *event_of(queues, event), 0));
    queues->copied = queues->copied || queue != QUEUE_COMPUTE;
}

void queues_close(struct queues *queues)
{
    for (int i = 0; i < QUEUE_COUNT; i++) {
        for (int j = 0; j < QUEUE_EVENTS; j++)
            if (queues->events[i][j])
                CUDA_CHECK(cudaEventDestroy(queues->events[i][j]));
        CUDA_CHECK(cudaStreamDestroy(queues->streams[i]));
    }
}
