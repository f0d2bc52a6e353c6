// Devices: the list of this program's devices, the only file of kernels/ that names them all.
#include "kernels/comm/world.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/plugin.h"
#include "kernels/cuda/workspace.h"
#include "kernels/device/ops.h"
#include "kernels/plan/plan.h"
#include <string.h>

static const struct device_ops *plan_cpu_ops(enum dtype dtype)
{
    static const struct device_ops ops[DTYPE_COUNT] = {
        [DTYPE_F64] = PLAN_OPS("plan-cpu", DTYPE_F64, &cpu_rules_f64),
        [DTYPE_F32] = PLAN_OPS("plan-cpu", DTYPE_F32, &cpu_rules_f32),
        [DTYPE_BF16] = PLAN_OPS("plan-cpu", DTYPE_BF16, &cpu_rules_bf16)};
    return ops[dtype].name ? &ops[dtype] : NULL;
}

static const struct device_ops *plan_cuda_ops(enum dtype dtype)
{
    static const struct device_ops ops[DTYPE_COUNT] = {[DTYPE_F64] = PLAN_OPS("plan-cuda", DTYPE_F64, &cuda_rules),
                                                       [DTYPE_F32] = PLAN_OPS("plan-cuda", DTYPE_F32, &cuda_rules),
                                                       [DTYPE_BF16] =
                                                           PLAN_OPS("plan-cuda", DTYPE_BF16, &cuda_rules)};
    return ops[dtype].name ? &ops[dtype] : NULL;
}

// A framework's own operations run there (kernels/framework), none of this program's.
static const struct device_ops *plan_transformers_ops(enum dtype dtype)
{
    static const struct device_rules rules = {0};
    static const struct device_ops ops[DTYPE_COUNT] = {
        [DTYPE_F32] = PLAN_OPS("plan-transformers", DTYPE_F32, &rules),
        [DTYPE_BF16] = PLAN_OPS("plan-transformers", DTYPE_BF16, &rules)};
    return ops[dtype].name ? &ops[dtype] : NULL;
}

static const struct {
    const char *name;
    const struct device_ops *(*ops)(enum dtype dtype);
    bool (*load)(struct status *status); // called first; NULL: part of the program
    void (*start)(void);
    size_t (*available_bytes)(const char **what); // NULL: no limit, or the device determines its own
    size_t (*host_bytes)(const char **what);      // of the host's place; NULL: no limit
    bool has_cards;                               // that a name can number
    // Switches to its transport between ranks (kernels/comm/world.h); NULL: keeps the processes' own.
    bool (*join)(struct world *world, struct status *status);
} devices[] = {
    {"cpu", cpu_ops, NULL, cpu_start, cpu_available_bytes, cpu_available_bytes, false, NULL},
    {"cuda", cuda_plugin_ops, cuda_plugin_load, NULL, NULL, cpu_available_bytes, true, cuda_plugin_join},
    {"plan-cpu", plan_cpu_ops, NULL, NULL, NULL, NULL, false, NULL},
    {"plan-cuda", plan_cuda_ops, NULL, NULL, NULL, NULL, false, NULL},
    {"plan-transformers", plan_transformers_ops, NULL, NULL, NULL, NULL, false, NULL},
};
#define DEVICES     (sizeof devices / sizeof *devices)
#define CARD_DIGITS 3

const char *const *device_names(void)
{
    static const char *const names[DEVICES + 1] = {"cpu", "cuda", "plan-cpu", "plan-cuda", "plan-transformers",
                                                   NULL};
    return names;
}

static size_t find(const char *name, size_t length)
{
    size_t i = 0;
    while (i < DEVICES && (strlen(devices[i].name) != length || strncmp(devices[i].name, name, length) != 0))
        i++;
    return i;
}

bool device_name_parse(struct device_name *parsed, const char *name, struct status *status)
{
    const char *colon = strchr(name, ':'), *digits = colon ? colon + 1 : "0";
    size_t length = colon ? (size_t)(colon - name) : strlen(name), count = strspn(digits, "0123456789");
    size_t i = find(name, length);
    if (i == DEVICES) {
        return status_set(status, STATUS_UNSUPPORTED,
                          "this program has no device \"%.*s\"; it has cpu, cuda (a GPU), plan-cpu, plan-cuda, "
                          "plan-transformers",
                          (int)length, name);
    }
    if (colon && !devices[i].has_cards) {
        return status_set(status, STATUS_UNSUPPORTED, "device %s has no cards to number: \"%s\"", devices[i].name,
                          name);
    }
    if (digits[count] || count == 0 || count > CARD_DIGITS || (count > 1 && *digits == '0')) {
        return status_set(status, STATUS_UNSUPPORTED, "\"%s\" numbers no card: the first is %s:0, the next %s:1",
                          name, devices[i].name, devices[i].name);
    }
    *parsed = (struct device_name){devices[i].name, strtoul(digits, NULL, 10)};
    return true;
}

// The first failing rank reports and ends all; messages of several ranks could be interleaved.
static void leave_it_to_the_first(const struct world *world, bool failed)
{
    size_t first = 0;
    bool *all = calloc(world->comm.size, sizeof *all);
    CHECK(all);
    world->ops->gather(world, all, &failed, sizeof failed);
    while (first < world->comm.size && !all[first])
        first++;
    free(all);
    world->ops->broadcast(world, &first, sizeof first);
    if (first < world->comm.size && first != world->comm.rank)
        world->ops->rest(world);
}

bool world_join(struct world *world, const char *device, struct status *status)
{
    struct device_name parsed = {.device = ""};
    if (world->comm.size == 1)
        return true;
    if (!device_name_parse(&parsed, device, status))
        return false;
    size_t i = find(parsed.device, strlen(parsed.device));
    if (!devices[i].join)
        return true;
    bool joined = devices[i].load(status) && devices[i].join(world, status);
    leave_it_to_the_first(world, !joined);
    return joined;
}

struct device *device_open(const char *name, enum dtype dtype, size_t limit_bytes, struct status *status)
{
    struct device_name parsed = {.device = ""};
    if (!device_name_parse(&parsed, name, status))
        return NULL;
    size_t i = find(parsed.device, strlen(parsed.device));
    if (devices[i].load && !devices[i].load(status))
        return NULL;
    const struct device_ops *ops = devices[i].ops(dtype);
    if (!ops) {
        status_set(status, STATUS_UNSUPPORTED, "device %s computes in bf16, f32 and f64, not in %s", name,
                   dtype_name(dtype));
        return NULL;
    }
    if (devices[i].start)
        devices[i].start();
    bool all_free = limit_bytes == 0 && devices[i].available_bytes;
    const char *what = NULL, *host_what = NULL;
    size_t bytes = all_free ? devices[i].available_bytes(&what) : limit_bytes,
           host_bytes = devices[i].host_bytes ? devices[i].host_bytes(&host_what) : 0;
    struct device *device = calloc(1, sizeof *device);
    CHECK(device);
    device->ops = ops;
    device->card = parsed.card;
    arena_open(&device->arena, device, PLACE_DEVICE, ops->source);
    arena_limit(&device->arena, bytes, what);
    arena_open(&device->host, device, PLACE_HOST, ops->host_source);
    arena_limit(&device->host, host_bytes, host_what);
    if (devices[i].host_bytes && devices[i].host_bytes == devices[i].available_bytes) { // one memory
        device->arena.beside = &device->host;
        device->arena.shared_bytes = all_free ? bytes : 0;
        device->arena.shared_what = device->arena.limit_what;
        device->host.beside = &device->arena;
        device->host.shared_bytes = device->host.limit_bytes;
        device->host.shared_what = device->host.limit_what;
    }
    if (ops->open && !ops->open(device, status)) {
        free(device);
        return NULL;
    }
    if (ops->rules->workspace_bytes) {
        device->workspace =
            tensor_new(device, 1, ops->rules->workspace_bytes / sizeof(double), DTYPE_F64, CATEGORY_WORKSPACE);
    }
    if (!status_take(status, &device->status)) {
        device_close(device);
        return NULL;
    }
    return device;
}

void device_close(struct device *device)
{
    if (device) {
        tensor_free(device, &device->workspace);
        arena_close(&device->arena);
        arena_close(&device->host);
        if (device->ops->close)
            device->ops->close(device);
        free(device);
    }
}
