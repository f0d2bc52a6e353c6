#define _GNU_SOURCE // tdestroy
#include "kernels/cuda/plugin/attention_engines.h"
#include <search.h>
#include <string.h>

// Since 9.12 the forward honours the logsumexp's strides. Before 9.15.1 the backward reads beyond the last key if
// the number of keys is no multiple of 128, as in causal blocks; NVIDIA's frontend adds a padding mask there (its
// release notes 1.16.0; issue 160; CompositeSDPABackwardNode).
#define CUDNN_MIN 91501

static struct attention_engines *cards; // opened cards

static int compare_graphs(const void *a, const void *b)
{
    return memcmp(&((const struct attention_graph *)a)->shape, &((const struct attention_graph *)b)->shape,
                  sizeof(struct attention_graph_shape));
}

static void graph_free(void *graph)
{
    attention_graph_free(graph);
}

struct attention_graph *attention_engines_graph(struct attention_engines *engines,
                                                struct attention_graph_shape shape, size_t max,
                                                struct status *status)
{
    const struct attention_graph wanted = {.shape = shape};
    void *found = tfind(&wanted, &engines->graphs, compare_graphs);
    if (found)
        return *(struct attention_graph **)found;
    struct attention_graph *graph = attention_graph_build(shape, &engines->target, (int64_t)max, status);
    if (!graph)
        return NULL;
    CHECK(tsearch(graph, &engines->graphs, compare_graphs));
    engines->graph_count++;
    engines->backward_graphs += shape.backward != 0;
    engines->second_choices += graph->engine > 0;
    if ((size_t)graph->engine_bytes > engines->engine_bytes)
        engines->engine_bytes = (size_t)graph->engine_bytes;
    return graph;
}

cudnnHandle_t attention_engines_handle(struct attention_engines *engines, cudaStream_t stream)
{
    if (engines->stream != stream) {
        if (cudnnSetStream(engines->target.handle, stream) != CUDNN_STATUS_SUCCESS)
            return NULL;
        engines->stream = stream;
    }
    return engines->target.handle;
}

// ---- opening

static struct attention_engines *engines_new(void)
{
    struct attention_engines *engines = calloc(1, sizeof *engines);
    CHECK(engines);
    return engines;
}

void attention_engines_free(struct attention_engines *engines)
{
    tdestroy(engines->graphs, graph_free);
    if (engines->target.properties)
        cudnnBackendDestroyDescriptor(engines->target.properties);
    free(engines);
}

struct attention_engines *attention_engines_of_card(size_t card, struct status *status)
{
    size_t version = cudnnGetVersion();
    if (version < CUDNN_MIN) {
        status_set(status, STATUS_UNSUPPORTED,
                   "device cuda needs cuDNN 9.15.1 or later in bf16 (in earlier ones attention's backward reads "
                   "beyond the last key); found %zu.%zu.%zu; put the folder of a newer one, such as that of pip's "
                   "nvidia-cudnn-cu13, first on LD_LIBRARY_PATH",
                   version / 10000, version / 100 % 100, version % 100);
        return NULL;
    }
    struct attention_engines *engines = cards;
    while (engines && engines->card != card)
        engines = engines->next;
    if (!engines) {
        struct attention_engines *made = engines_new();
        cudnnStatus_t created = cudnnCreate(&made->target.handle);
        if (created != CUDNN_STATUS_SUCCESS) {
            status_set(status, STATUS_UNSUPPORTED, "device cuda cannot use cuDNN: %s (error %d)",
                       cudnnGetErrorString(created), (int)created);
            attention_engines_free(made);
            return NULL;
        }
        made->card = card;
        made->next = cards;
        cards = engines = made;
    }
    engines->stream = NULL; // a new stream may have an old one's address
    return engines;
}

struct attention_engines *attention_engines_described(const char *properties, bool planned, struct status *status)
{
    struct attention_engines *engines = engines_new();
    engines->target.planned = planned;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &engines->target.properties) !=
            CUDNN_STATUS_SUCCESS ||
        cudnnBackendSetAttribute(engines->target.properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                 CUDNN_TYPE_CHAR, (int64_t)strlen(properties),
                                 properties) != CUDNN_STATUS_SUCCESS ||
        cudnnBackendFinalize(engines->target.properties) != CUDNN_STATUS_SUCCESS) {
        status_set(status, STATUS_UNSUPPORTED, "cuDNN does not take these device properties");
        attention_engines_free(engines);
        return NULL;
    }
    return engines;
}
