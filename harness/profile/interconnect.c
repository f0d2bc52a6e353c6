#include "harness/profile/interconnect.h"
#include <string.h>

#define FOLDER    "experiments/interconnects"
#define RANKS_MAX ((size_t)1 << 24)

static bool read_level(struct interconnect *interconnect, size_t i, size_t count, struct json_field field,
                       struct status *status)
{
    static const struct names known = {4, {"name", "ranks", "bytes_per_s", "latency_s"}};
    struct link_level *level = &interconnect->levels[i];
    struct json_field ranks = json_field_get(field, "ranks");
    size_t min = i ? interconnect->levels[i - 1].ranks + 1 : 2;
    if (!json_field_object(field, &known, NULL, status) ||
        !profile_text_read(json_field_get(field, "name"), "the level's name", level->name, sizeof level->name,
                           status) ||
        !json_field_count(ranks, min, RANKS_MAX, " of ranks", &level->ranks, status))
        return false;
    if (!level->ranks && i + 1 < count)
        return json_field_fail(ranks, status, "missing; the last level alone joins all ranks");
    if (i && level->ranks % interconnect->levels[i - 1].ranks)
        return json_field_expected(ranks, status, "a multiple of the %zu of the level before it",
                                   interconnect->levels[i - 1].ranks);
    return profile_number_read(&level->bytes_per_s, json_field_get(field, "bytes_per_s"), "bytes_per_s", 1, 1e30,
                               true, status) &&
           profile_number_read(&level->latency_s, json_field_get(field, "latency_s"), "latency_s", 0, 1e3, true,
                               status);
}

bool interconnect_read(struct interconnect *interconnect, struct json_field field, struct status *status)
{
    size_t count = json_array_size(field.value);
    if (!field.value)
        return true;
    if (count < 1 || count > LINK_LEVELS)
        return json_field_expected(field, status, "a list of 1 to %d levels, the nearest first", LINK_LEVELS);
    for (size_t i = 0; i < count; i++)
        if (!read_level(interconnect, i, count, json_field_at(field, i), status))
            return false;
    interconnect->count = count;
    return true;
}

json_t *interconnect_json(const struct interconnect *interconnect)
{
    json_t *list = json_array();
    for (size_t i = 0; i < interconnect->count; i++) {
        const struct link_level *level = &interconnect->levels[i];
        json_t *object = json_pack("{s:s}", "name", level->name);
        if (level->ranks)
            json_object_set_new(object, "ranks", json_integer((json_int_t)level->ranks));
        json_object_set_new(object, "bytes_per_s", profile_number_json(&level->bytes_per_s));
        json_object_set_new(object, "latency_s", profile_number_json(&level->latency_s));
        json_array_append_new(list, object);
    }
    return list;
}

static bool read_file(struct interconnect *interconnect, struct json_field root, struct status *status)
{
    static const struct names known = {2, {"name", "interconnect"}};
    struct json_field list = json_field_get(root, "interconnect");
    if (!json_field_object(root, &known, NULL, status) ||
        !profile_text_read(json_field_get(root, "name"), "a name for the interconnect", interconnect->name,
                           sizeof interconnect->name, status))
        return false;
    return list.value ? interconnect_read(interconnect, list, status)
                      : json_field_fail(list, status, "missing; expected a list of levels");
}

void interconnect_list(struct named_files *list)
{
    named_files_list(list, FOLDER);
}

bool interconnect_load(struct interconnect *interconnect, const char *name, struct status *status)
{
    char path[PATH_MAX];
    struct json_source source;
    *interconnect = (struct interconnect){0};
    if (!named_file_find(path, FOLDER, "interconnect", "interconnects", name, status))
        return false;
    bool ok = json_source_open(&source, path, status) && read_file(interconnect, json_field_root(&source), status);
    json_source_close(&source);
    return ok;
}

const struct link_level *interconnect_between(const struct interconnect *interconnect, size_t rank, size_t other)
{
    const struct link_level *level = interconnect->levels;
    while (level->ranks && rank / level->ranks != other / level->ranks)
        level++;
    return level;
}

bool interconnect_reach(const struct interconnect *interconnect, size_t count, struct status *status)
{
    const struct link_level *last = &interconnect->levels[interconnect->count - 1];
    return !last->ranks || count <= last->ranks ||
           status_set(status, STATUS_UNSUPPORTED,
                      "interconnect %s joins %zu ranks, but the trial has %zu: use another, or omit the last "
                      "level's \"ranks\"",
                      interconnect->name, last->ranks, count);
}

// Number of the group's ranks below `end`.
static size_t members_below(size_t end, size_t first, size_t stride, size_t size)
{
    size_t below = end > first ? (end - first + stride - 1) / stride : 0;
    return below < size ? below : size;
}

double interconnect_seconds(const struct interconnect *interconnect, size_t rank, size_t first, size_t stride,
                            size_t size, double sent_bytes, double received_bytes)
{
    double longest = 0, max = sent_bytes > received_bytes ? sent_bytes : received_bytes;
    size_t nearer = 1;
    for (size_t i = 0; i < interconnect->count && size > nearer; i++) {
        const struct link_level *level = &interconnect->levels[i];
        size_t block = level->ranks ? rank / level->ranks : 0, here = size;
        if (level->ranks)
            here = members_below((block + 1) * level->ranks, first, stride, size) -
                   members_below(block * level->ranks, first, stride, size);
        double share = (double)(here - nearer) / (double)(size - 1);
        double seconds = level->latency_s.value + share * max / level->bytes_per_s.value;
        if (here > nearer && seconds > longest)
            longest = seconds;
        nearer = here;
    }
    return longest;
}
