#include "harness/trial/reference_store.h"
#include "harness/files/io.h"
#include <jansson.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include <xxhash.h>

// The store begins with the number of complete bytes, then entries: header, the floor's tensors, then each
// gradient's name, size and values.
struct entry {
    XXH128_hash_t setting;
    size_t bytes; // of the whole entry
    double loss, noise;
    struct gradient_error floor;
    size_t worst, tensors;
};

struct tensor_head {
    char name[sizeof((struct gradient_tensor *)0)->name];
    size_t size;
};

int reference_store_open(void)
{
    size_t complete = sizeof complete;
    int store = io_memory_file("references");
    if (store >= 0 && !io_write_at(store, &complete, sizeof complete, 0)) {
        close(store);
        return -1;
    }
    return store;
}

static uint64_t choices_hash(const struct kept_choices *given)
{
    uint64_t hash = 0;
    for (size_t l = 0; given && l < given->layers; l++)
        hash = given->of[l] ? XXH3_64bits_withSeed(given->of[l], given->numbers * sizeof **given->of, hash) : hash;
    return hash;
}

// Everything that a reference depends on: the trial without the method and the measurement, and the experts.
static XXH128_hash_t setting_of(const struct trial *trial, const struct kept_choices *given)
{
    static const char *const others[] = {"method",    "measure", "limits",      "host",
                                         "optimizer", "profile", "interconnect"};
    json_t *setting = json_loads(trial->canonical, 0, NULL);
    CHECK(setting);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        json_object_del(setting, others[i]);
    // Only whether the optimizer trains beside LoRA matters.
    json_object_set_new(setting, "lora_beside",
                        json_boolean(trial->optimizer && trial->optimizer->lora == LORA_BESIDE));
    if (given)
        json_object_set_new(setting, "choices", json_integer((json_int_t)choices_hash(given)));
    char *text = json_dumps(setting, JSON_COMPACT | JSON_SORT_KEYS);
    XXH128_hash_t hash = XXH3_128bits(text, strlen(text));
    free(text);
    json_decref(setting);
    return hash;
}

// Reads or writes bytes at *at and advances it.
static bool get(int store, void *bytes, size_t count, size_t *at)
{
    bool whole = io_read_at(store, bytes, count, (off_t)*at) == (ssize_t)count;
    *at += count;
    return whole;
}

static bool put(int store, const void *bytes, size_t count, size_t *at)
{
    bool written = io_write_at(store, bytes, count, (off_t)*at);
    *at += count;
    return written;
}

static bool get_tensors(int store, size_t at, const struct entry *entry, struct reference *reference)
{
    struct gradient_report *floor = &reference->floor;
    struct gradient_set *set = &reference->gradients;
    *floor = (struct gradient_report){.overall = entry->floor, .count = entry->tensors, .worst = entry->worst};
    floor->tensors = calloc(entry->tensors + 1, sizeof *floor->tensors);
    set->tensors = calloc(entry->tensors + 1, sizeof *set->tensors);
    bool fine = get(store, floor->tensors, entry->tensors * sizeof *floor->tensors, &at);
    for (size_t i = 0; fine && i < entry->tensors; i++) {
        struct gradient_tensor *tensor = &set->tensors[i];
        struct tensor_head head;
        fine = get(store, &head, sizeof head, &at);
        if (!fine)
            break;
        memcpy(tensor->name, head.name, sizeof head.name);
        tensor->size = head.size;
        tensor->values = malloc((head.size + 1) * sizeof(double));
        set->count = i + 1;
        fine = get(store, tensor->values, head.size * sizeof(double), &at);
    }
    return fine;
}

bool reference_store_find(int store, const struct trial *trial, const struct kept_choices *given,
                          struct reference *reference)
{
    size_t complete, at = 0;
    *reference = (struct reference){0};
    if (store < 0 || !get(store, &complete, sizeof complete, &at))
        return false;
    XXH128_hash_t setting = setting_of(trial, given);
    struct entry entry;
    for (size_t start = at; start < complete; start += entry.bytes) {
        at = start;
        if (!get(store, &entry, sizeof entry, &at))
            return false;
        if (!XXH128_isEqual(entry.setting, setting))
            continue;
        reference->loss = entry.loss;
        reference->noise = entry.noise;
        if (get_tensors(store, at, &entry, reference))
            return true;
        reference_free(reference);
        return false;
    }
    return false;
}

static bool has_room(size_t bytes)
{
    struct sysinfo info;
    return sysinfo(&info) == 0 && bytes < info.totalram * info.mem_unit / 16;
}

void reference_store_add(int store, const struct trial *trial, const struct kept_choices *given,
                         const struct reference *reference)
{
    const struct gradient_set *set = &reference->gradients;
    const struct gradient_report *floor = &reference->floor;
    size_t complete, at = 0;
    struct entry entry = {.setting = setting_of(trial, given),
                          .bytes = sizeof entry + floor->count * sizeof *floor->tensors,
                          .loss = reference->loss,
                          .noise = reference->noise,
                          .floor = floor->overall,
                          .worst = floor->worst,
                          .tensors = set->count};
    CHECK(floor->count == set->count);
    for (size_t i = 0; i < set->count; i++)
        entry.bytes += sizeof(struct tensor_head) + set->tensors[i].size * sizeof(double);
    if (store < 0 || !get(store, &complete, sizeof complete, &at) || !has_room(complete + entry.bytes))
        return;
    at = complete;
    bool fine = put(store, &entry, sizeof entry, &at) &&
                put(store, floor->tensors, floor->count * sizeof *floor->tensors, &at);
    for (size_t i = 0; fine && i < set->count; i++) {
        struct tensor_head head = {.size = set->tensors[i].size};
        memcpy(head.name, set->tensors[i].name, sizeof head.name);
        fine = put(store, &head, sizeof head, &at) &&
               put(store, set->tensors[i].values, head.size * sizeof(double), &at);
    }
    size_t begin = 0;
    if (fine)
        put(store, &at, sizeof at, &begin);
}
