// cuDNN's backend API on the CPU, as far as kernels/cuda/plugin/attention_graph.c and attention_cudnn.c call it:
// any graph has an engine, which tests/emulator/graph.c computes; a backward's says that it is not deterministic.
// On 9.0 a backward without an accumulator has another behind it that is, unless EMULATED_NONDETERMINISTIC is set.
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

static const struct descriptor *configuration_of(const struct descriptor *plan_or_configuration)
{
    const struct descriptor *configuration =
        descriptor_at(plan_or_configuration, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0);
    return configuration ? configuration : plan_or_configuration;
}

static struct descriptor *graph_of(const struct descriptor *plan_or_configuration)
{
    return descriptor_at(configuration_of(plan_or_configuration), CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
}

static bool is_deterministic(const struct descriptor *plan_or_configuration)
{
    return int64_at(configuration_of(plan_or_configuration), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0) > 0;
}

// Engines carry their graph and their number.
static void give_engine(struct descriptor *to, struct descriptor *graph, int64_t number)
{
    set_attribute(to, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    set_attribute(to, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count,
                                       void *values)
{
    (void)type;
    struct descriptor *graph = graph_of(descriptor);
    *count = 1;
    switch ((int)name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        if (wanted > 1 && graph_keeps_scores(graph) && emulator_capability() == 90 &&
            !getenv("EMULATED_NONDETERMINISTIC"))
            *count = 2;
        for (int64_t i = 0; i < *count; i++)
            give_engine(((cudnnBackendDescriptor_t *)values)[i], graph, i);
        break;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        give_engine(*(cudnnBackendDescriptor_t *)values, graph, is_deterministic(descriptor));
        break;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        ((cudnnBackendNumericalNote_t *)values)[0] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        if (!is_deterministic(descriptor)) {
            CHECK(wanted > 1);
            ((cudnnBackendNumericalNote_t *)values)[(*count)++] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        }
        break;
    default: // a plan's or a configuration's workspace
        *(int64_t *)values = (int64_t)graph_workspace(graph, is_deterministic(descriptor));
    }
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
    emulator_ask(handle->stream, graph_run, graph_ask(graph_of(plan), pack, is_deterministic(plan)));
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
