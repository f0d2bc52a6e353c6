// An NVTX tool that remembers which ranges were pushed: what a profiler sees. Loaded by NVTX itself, as
// NVTX_INJECTION64_PATH says; the test that counts loads it, too.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEN __attribute__((visibility("default")))

static char *log_text; // a line per range: its depth, and its text
static size_t log_bytes;
static FILE *log_stream;
static int depth, lowest;
static char domain; // its address is the domain's handle

// The ranges since the last call, to be freed; *open: how many are open; -1: one was popped that was not pushed.
SEEN char *ranges_take(int *open)
{
    char *text = NULL;
    if (log_stream) {
        fclose(log_stream);
        text = log_text;
        log_stream = NULL;
    }
    *open = lowest < 0 ? -1 : depth;
    return text;
}

static nvtxDomainHandle_t NVTX_API domain_create(const char *name)
{
    return strcmp(name, "longbp") == 0 ? (nvtxDomainHandle_t)&domain : NULL;
}

static int NVTX_API range_push(nvtxDomainHandle_t handle, const nvtxEventAttributes_t *event)
{
    if ((void *)handle != (void *)&domain || event->messageType != NVTX_MESSAGE_TYPE_ASCII)
        abort();
    if (!log_stream)
        log_stream = open_memstream(&log_text, &log_bytes);
    fprintf(log_stream, "%d %s\n", depth, event->message.ascii);
    return depth++;
}

static int NVTX_API range_pop(nvtxDomainHandle_t handle)
{
    (void)handle;
    depth--;
    lowest = depth < lowest ? depth : lowest;
    return depth;
}

SEEN int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned int count = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &count))
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)range_push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)range_pop;
    return 1;
}
