#include "harness/profile/profile.h"
#include "harness/profile/profile_rates.h"
#include "harness/text/size.h"
#include <stddef.h>
#include <string.h>

#define FOLDER     "experiments/devices"
#define AT(member) offsetof(struct profile, member)

// The keys besides "name". Byte counts are whole numbers that a double holds exactly.
static const struct key {
    const char *name;
    size_t offset;
    double minimum, maximum;
    bool required;
} keys[] = {
    {"memory_bytes", AT(memory_bytes), 1, 0x1p53, true},
    {"usable_bytes", AT(usable_bytes), 1, 0x1p53, true},
    {"reserve_bytes", AT(reserve_bytes), 0, 0x1p53, false},
    // A rate below a million has the wrong unit, such as TFLOP/s.
    {"f64_flops_per_s", AT(flops_per_s[DTYPE_F64]), 1e6, 1e30, false},
    {"f32_flops_per_s", AT(flops_per_s[DTYPE_F32]), 1e6, 1e30, false},
    {"bf16_flops_per_s", AT(flops_per_s[DTYPE_BF16]), 1e6, 1e30, false},
    {"bandwidth_bytes_per_s", AT(bandwidth_bytes_per_s), 1e6, 1e30, true},
    {"multiprocessors", AT(multiprocessors), 1, 65536, false},
    {"compute_capability", AT(compute_capability), 1, 100, false},
    {"power_limit_w", AT(power_limit_w), 1, 1e6, false},
    {"launch_s", AT(launch_s), 1e-12, 1, true},
    {"host_link_bytes_per_s", AT(host_link_bytes_per_s), 1e6, 1e30, false},
};
#define KEYS (sizeof keys / sizeof *keys)

// Dtypes with measured rates.
static const enum dtype rated[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};

static struct profile_number *number_of(struct profile *profile, const struct key *key)
{
    return (struct profile_number *)((char *)profile + key->offset);
}

static bool read_rates(struct profile *profile, struct json_field field, struct status *status)
{
    struct names dtypes = {0};
    if (!field.value)
        return true;
    if (!json_is_object(field.value))
        return json_field_expected(field, status, "an object of dtypes");
    for (size_t i = 0; i < sizeof rated / sizeof *rated; i++)
        names_add(&dtypes, dtype_name(rated[i]));
    if (!json_field_object(field, &dtypes, "rates", status))
        return false;
    for (size_t i = 0; i < sizeof rated / sizeof *rated; i++) {
        struct json_field of_dtype = json_field_get(field, dtype_name(rated[i]));
        if (!profile_rates_read(&profile->rates[rated[i]], of_dtype, status))
            return false;
        const char *source = json_string_value(json_object_get(of_dtype.value, "source"));
        if (source)
            snprintf(profile->rates_source, sizeof profile->rates_source, "%s", source);
    }
    return true;
}

static bool read_profile(struct profile *profile, struct json_field root, struct status *status)
{
    struct names known = {1, {"name"}};
    for (size_t i = 0; i < KEYS; i++)
        names_add(&known, keys[i].name);
    names_add(&known, "interconnect");
    names_add(&known, "rates");
    if (!json_field_object(root, &known, NULL, status) ||
        !profile_text_read(json_field_get(root, "name"), "a name for the profile", profile->name,
                           sizeof profile->name, status))
        return false;
    for (size_t i = 0; i < KEYS; i++) {
        const struct key *key = &keys[i];
        if (!profile_number_read(number_of(profile, key), json_field_get(root, key->name), key->name, key->minimum,
                                 key->maximum, key->required, status))
            return false;
    }
    if (profile->usable_bytes.value > profile->memory_bytes.value)
        return json_field_fail(json_field_get(root, "usable_bytes"), status, "more than memory_bytes");
    if (profile->reserve_bytes.value >= profile->usable_bytes.value)
        return json_field_fail(json_field_get(root, "reserve_bytes"), status, "not less than usable_bytes");
    if (profile->flops_per_s[DTYPE_BF16].value > 0 && profile->flops_per_s[DTYPE_F32].value == 0)
        return json_field_fail(root, status,
                               "bf16_flops_per_s without f32_flops_per_s, the rate of f32 operations; add it from "
                               "the card's datasheet, or measure both with longbp calibrate");
    snprintf(profile->interconnect.name, sizeof profile->interconnect.name, "%s", profile->name);
    return interconnect_read(&profile->interconnect, json_field_get(root, "interconnect"), status) &&
           read_rates(profile, json_field_get(root, "rates"), status);
}

void profile_list_read(struct named_files *list)
{
    named_files_list(list, FOLDER);
}

static bool load_file(struct profile *profile, const char *name, struct status *status)
{
    char path[PATH_MAX];
    struct json_source source;
    *profile = (struct profile){0};
    if (!named_file_find(
            path, FOLDER, "profile",
            "profiles (another card: a similar one's with its own numbers, rtx-3090,memory_bytes=12GiB)", name,
            status))
        return false;
    bool ok = json_source_open(&source, path, status) && read_profile(profile, json_field_root(&source), status);
    json_source_close(&source);
    return ok;
}

// Position of the first ",KEY="; the end if there is none.
static size_t overrides_at(const char *text)
{
    const char *comma = text;
    while ((comma = strchr(comma, ','))) {
        size_t key = strspn(comma + 1, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (key && comma[1 + key] == '=')
            return (size_t)(comma - text);
        comma++;
    }
    return strlen(text);
}

static bool is_bytes(const char *key)
{
    size_t length = strlen(key);
    return length > 6 && strcmp(key + length - 6, "_bytes") == 0;
}

static bool override_number(struct profile *profile, const char *name, const char *value, struct status *status)
{
    struct names known = {0};
    const struct key *key = NULL;
    char hint[640], *end;
    for (size_t i = 0; i < KEYS; i++) {
        names_add(&known, keys[i].name);
        key = strcmp(keys[i].name, name) ? key : &keys[i];
    }
    if (!key) {
        names_hint(&known, name, "numbers", hint, sizeof hint);
        return status_set(status, STATUS_BAD_INPUT, "profile: no number \"%.100s\"; %s", name, hint);
    }
    double number = 0;
    size_t bytes = 0;
    bool read = is_bytes(name) ? size_parse(value, &bytes) || strcmp(value, "0") == 0
                               : *value && (number = strtod(value, &end), !*end);
    if (!read)
        return status_set(status, STATUS_BAD_INPUT, "profile: %s is \"%.100s\"; expected %s", name, value,
                          is_bytes(name) ? size_expected(value) : "a number, such as 71e12");
    number = is_bytes(name) ? (double)bytes : number;
    if (!(number >= key->minimum && number <= key->maximum))
        return status_set(status, STATUS_BAD_INPUT, "profile: %s is %.100s; expected %g to %g", name, value,
                          key->minimum, key->maximum);
    *number_of(profile, key) = (struct profile_number){number, "as given behind the profile's name"};
    return true;
}

// text: "KEY=VALUE,KEY=VALUE".
static bool override_numbers(struct profile *profile, const char *text, struct status *status)
{
    const double memory = profile->memory_bytes.value, usable = profile->usable_bytes.value;
    char buffer[sizeof profile->name], *next = NULL;
    snprintf(buffer, sizeof buffer, "%s", text);
    for (char *word = strtok_r(buffer, ",", &next); word; word = strtok_r(NULL, ",", &next)) {
        char *equals = strchr(word, '=');
        if (!equals)
            return status_set(status, STATUS_BAD_INPUT, "profile: \"%.100s\"; expected KEY=VALUE", word);
        *equals = '\0';
        if (!override_number(profile, word, equals + 1, status))
            return false;
        if (!is_bytes(word))
            for (size_t i = 0; i < DTYPE_COUNT; i++)
                profile->rates[i] = (struct rates){0};
    }
    if (profile->memory_bytes.value != memory && profile->usable_bytes.value == usable) {
        profile->usable_bytes.value += profile->memory_bytes.value - memory;
        snprintf(profile->usable_bytes.source, sizeof profile->usable_bytes.source,
                 "memory_bytes, less what %s leaves out of its own", profile->name);
    }
    if (profile->usable_bytes.value < 1 || profile->usable_bytes.value > profile->memory_bytes.value)
        return status_set(status, STATUS_BAD_INPUT, "profile: usable_bytes is %.0f of memory_bytes %.0f; give both",
                          profile->usable_bytes.value, profile->memory_bytes.value);
    return profile->reserve_bytes.value < profile->usable_bytes.value ||
           status_set(status, STATUS_BAD_INPUT, "profile: reserve_bytes is %.0f of usable_bytes %.0f; give both",
                      profile->reserve_bytes.value, profile->usable_bytes.value);
}

static struct rate_peaks peaks_of(const struct profile *profile)
{
    struct rate_peaks peaks = {.bytes_per_s = profile->bandwidth_bytes_per_s.value,
                               .launch_s = profile->launch_s.value,
                               .power_w = profile->power_limit_w.value};
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        peaks.flops_per_s[dtype] = profile->flops_per_s[dtype].value;
    return peaks;
}

// The card that rates are scaled from also gets rates for its unmeasured dtypes.
static bool complete_rates(struct profile *profile, struct status *status)
{
    struct profile *measured = calloc(1, sizeof *measured);
    bool loaded = load_file(measured, PROFILE_MEASURED, status);
    const struct rate_peaks card = peaks_of(profile), measured_card = peaks_of(measured);
    if (loaded && measured->rates[DTYPE_BF16].count)
        profile_rates_scale(profile->rates, &card, &measured->rates[DTYPE_BF16], &measured_card);
    free(measured);
    return loaded;
}

bool profile_load(struct profile *profile, const char *name, struct status *status)
{
    *profile = (struct profile){0};
    size_t base = overrides_at(name);
    if (strlen(name) >= sizeof profile->name && name[base])
        return status_set(status, STATUS_BAD_INPUT,
                          "profile: more than %zu bytes; write a file like those in experiments/devices",
                          sizeof profile->name - 1);
    char *file = strndup(name, base);
    bool ok = load_file(profile, file, status);
    free(file);
    if (ok && name[base]) {
        ok = override_numbers(profile, name + base + 1, status);
        snprintf(profile->name, sizeof profile->name, "%s", name);
    }
    return ok && complete_rates(profile, status);
}

size_t profile_limit_bytes(const struct profile *profile)
{
    return (size_t)(profile->usable_bytes.value - profile->reserve_bytes.value);
}

bool profile_roofline(const struct profile *profile, enum dtype dtype, struct roofline *roofline,
                      struct status *status)
{
    *roofline = (struct roofline){.flops_per_s = profile->flops_per_s[dtype].value,
                                  .bytes_per_s = profile->bandwidth_bytes_per_s.value,
                                  .launch_s = profile->launch_s.value,
                                  .link_bytes_per_s = profile->host_link_bytes_per_s.value,
                                  .rates = profile->rates[dtype].count ? &profile->rates[dtype] : NULL};
    roofline->f32_flops_per_s = dtype == DTYPE_BF16 ? profile->flops_per_s[DTYPE_F32].value : 0;
    return roofline->flops_per_s > 0 ||
           status_set(status, STATUS_BAD_INPUT,
                      "profile %s has no rate for %s: give %s_flops_per_s, from the card's datasheet or by longbp "
                      "calibrate",
                      profile->name, dtype_name(dtype), dtype_name(dtype));
}

const char *profile_estimate_source(const struct profile *profile, enum dtype dtype)
{
    return profile->rates[dtype].scaled ? "scaled rates" : "measured rates";
}

char *profile_text(const struct profile *profile)
{
    json_t *object = json_pack("{s:s}", "name", profile->name);
    for (size_t i = 0; i < KEYS; i++) {
        const struct profile_number *number = number_of((struct profile *)profile, &keys[i]);
        if (number->value > 0)
            json_object_set_new(object, keys[i].name, profile_number_json(number));
    }
    if (profile->interconnect.count)
        json_object_set_new(object, "interconnect", interconnect_json(&profile->interconnect));
    json_t *rates = json_object();
    for (size_t i = 0; i < sizeof rated / sizeof *rated; i++)
        if (profile->rates[rated[i]].count && !profile->rates[rated[i]].scaled)
            json_object_set_new(rates, dtype_name(rated[i]),
                                profile_rates_json(&profile->rates[rated[i]], profile->rates_source));
    if (json_object_size(rates))
        json_object_set(object, "rates", rates);
    json_decref(rates);
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(object);
    return text;
}
