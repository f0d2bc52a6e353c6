// cuDNN's backend API on the CPU, as far as kernels/cuda/plugin/attention_graph.c and attention_cudnn.c call it:
// any graph has one engine, which tests/emulator/graph.c computes.
#include "tests/emulator/graph.h"
#include "tests/emulator/stream.h"

struct cudnnContext {
    cudaStream_t stream;
};

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *made)
{
    struct descriptor *descriptor = calloc(1, sizeof *descriptor);
    CHECK(descriptor);
    descriptor->type = type;
    *made = descriptor;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    CHECK(((struct descriptor *)descriptor)->pending == 0); // a graph must stay until the stream has come to it
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    set_attribute(descriptor, (int)name, type, count, values);
    return CUDNN_STATUS_SUCCESS;
}

static struct descriptor *graph_of(const struct descriptor *plan_or_configuration)
{
    const struct descriptor *configuration =
        descriptor_at(plan_or_configuration, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0);
    return descriptor_at(configuration ? configuration : plan_or_configuration,
                         CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count,
                                       void *values)
{
    (void)type, (void)wanted;
    *count = 1;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) { // the one engine carries its graph
        struct descriptor *graph = descriptor_at(descriptor, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
        set_attribute(*(cudnnBackendDescriptor_t *)values, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
        return CUDNN_STATUS_SUCCESS;
    }
    const struct descriptor *graph = graph_of(descriptor); // a plan's or a configuration's workspace
    *(int64_t *)values = (int64_t)graph_workspace(graph);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    (void)descriptor;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    emulator_ask(handle->stream, graph_run, graph_ask(graph_of(plan), pack));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = calloc(1, sizeof **handle);
    CHECK(*handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    (void)status;
    return "";
}

void cudnnGetLastErrorString(char *message, size_t size)
{
    (void)size;
    *message = 0;
}

// EMULATED_CUDNN: another one, as 91501.
size_t cudnnGetVersion(void)
{
    const char *version = getenv("EMULATED_CUDNN");
    return version ? strtoul(version, NULL, 10) : 91900;
}
