#include "harness/command/plan_flags.h"
#include "harness/files/size.h"
#include <string.h>

error_t plan_flags_parse(struct plan_flags *flags, int key, const char *text)
{
    static const struct argp_option like = PLAN_FLAG_LIKE, memory_limit = PLAN_FLAG_MEMORY_LIMIT;
    if (key == like.key)
        flags->like = text;
    else if (key == memory_limit.key)
        flags->memory_limit = text;
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

bool plan_flags_device(const struct plan_flags *flags, json_t *trial, struct status *status)
{
    const char *like = flags->like;
    if (like && strcmp(like, "cpu") != 0 && strcmp(like, "cuda") != 0)
        return status_set(status, STATUS_BAD_INPUT, "--like is cpu or cuda, not \"%s\"", like);
    char device[16] = "plan";
    if (like)
        snprintf(device, sizeof device, "plan-%s", like);
    json_object_set_new(trial, "device", json_string(device));
    return true;
}

bool plan_flags_limit(const struct plan_flags *flags, const struct trial *trial, size_t *bytes, char *what,
                      size_t what_bytes, struct status *status)
{
    *bytes = 0;
    *what = 0;
    if (flags->memory_limit) {
        snprintf(what, what_bytes, "--memory-limit");
        return size_parse(flags->memory_limit, bytes) ||
               status_set(status, STATUS_BAD_INPUT, "--memory-limit: expected " SIZE_EXPECTED ", found \"%s\"",
                          flags->memory_limit);
    }
    if (trial->profile) {
        *bytes = (size_t)trial->profile->usable_bytes.value;
        snprintf(what, what_bytes, "usable, profile %s", trial->profile->name);
    }
    return true;
}
