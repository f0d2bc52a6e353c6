#include "harness/spec/spec.h"
#include "harness/data/batch_file.h"
#include "harness/data/sequences.h"
#include "harness/files/input_files.h"
#include "harness/files/share.h"
#include "harness/spec/expansion.h"
#include "harness/spec/framework_decode.h"
#include "harness/text/size.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 1000 // of axes.method

static const struct override *find_override(const struct expansion *e, const char *name)
{
    for (size_t i = 0; i < e->override_count; i++)
        if (!strcmp(e->overrides[i].name, name))
            return &e->overrides[i];
    return NULL;
}

// --- the overrides

static bool add_override(struct expansion *e, const char *flag, const char *name, const char *value,
                         struct status *status)
{
    // Shown as typed: `--axis context=1024`, `--device plan`.
    char shown[256];
    struct override *override = &e->overrides[e->override_count++];
    snprintf(shown, sizeof shown, "%s %s", flag, value);
    size_t bytes = strlen(name) + strlen(value) + 1;
    char *text = malloc(bytes);
    snprintf(text, bytes, "%s%s", name, value);
    bool ok = override_parse(override, shown, text, status);
    free(text);
    if (!ok)
        return false;
    for (struct override *other = e->overrides; other < override; other++) {
        if (!strcmp(other->name, override->name))
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: axis \"%s\" is given twice; join the values with commas", override->values.name,
                              override->name);
    }
    struct names known = {0};
    trial_key_names(&known, trial_keys);
    const struct option *option;
    for (size_t i = 0; (option = methods_option(i)); i++)
        names_add(&known, option->name);
    if (names_find(&known, override->name) < known.count)
        return true;
    char hint[640];
    names_hint(&known, override->name, "known axes", hint, sizeof hint);
    return status_set(status, STATUS_BAD_INPUT, "%s: unknown axis; %s", override->values.name, hint);
}

static bool read_overrides(struct expansion *e, const struct spec_changes *changes, struct status *status)
{
    size_t count = changes ? changes->axis_count : 0;
    e->overrides = calloc(count + 1, sizeof *e->overrides);
    for (size_t i = 0; i < count; i++)
        if (!add_override(e, "--axis", "", changes->axes[i], status))
            return false;
    return !changes || !changes->device || add_override(e, "--device", "device=", changes->device, status);
}

// --- the keys and axes of the file

static void add_axis(struct expansion *e, size_t key, struct json_field field, bool list)
{
    const struct override *override = find_override(e, trial_keys[key].name);
    if (override && trial_keys[key].type != KEY_METHOD) { // for methods an override only selects
        field = json_field_root(&override->values);
        list = true;
    }
    e->axes[e->axis_count++] = (struct axis){key, field, list};
}

static bool unknown_axis(struct json_field axes, const char *name, const struct names *known, struct status *status)
{
    struct json_path path = json_path_key(axes.path, name);
    char hint[640];
    if (methods_option_find(name))
        return json_source_error(axes.source, path, JSON_KEY, status,
                                 "an option of methods, not a trial key; write it in the entry of a method, such "
                                 "as {\"name\": \"seco\", \"chunk\": [64, 128]}");
    names_hint(known, name, "known axes", hint, sizeof hint);
    return json_source_error(axes.source, path, JSON_KEY, status, "unknown axis; %s", hint);
}

static bool read_axes(struct expansion *e, struct json_field axes, struct status *status)
{
    struct names known = {0};
    trial_key_names(&known, trial_keys);
    if (!axes.value)
        return json_field_fail(axes, status, "missing; expected {\"context\": [1024, ...], \"method\": [...]}");
    if (!json_is_object(axes.value))
        return json_field_expected(axes, status, "an object such as {\"context\": [1024], \"method\": [\"full\"]}");
    const char *name;
    json_t *value;
    json_object_foreach(axes.value, name, value)
    {
        size_t key = names_find(&known, name);
        struct json_field field = json_field_get(axes, name);
        if (key == known.count)
            return unknown_axis(axes, name, &known, status);
        if (e->constants[key].value)
            return json_source_error(field.source, field.path, JSON_KEY, status,
                                     "given twice: in axes, and beside them; keep one");
        if (!json_is_array(value) || json_array_size(value) == 0)
            return json_field_expected(field, status, "a list with at least one value");
        add_axis(e, key, field, true);
    }
    return true;
}

// Keys outside the axes have one value, unless the command line makes them axes.
static bool read_constants(struct expansion *e, struct json_field root, struct json_field axes,
                           struct status *status)
{
    for (size_t key = 0; key < trial_key_count(); key++) {
        const char *name = trial_keys[key].name;
        if (json_object_get(axes.value, name))
            continue;
        bool method = trial_keys[key].type == KEY_METHOD, needed = method || !strcmp(name, "context");
        struct json_field constant = json_field_get(root, name);
        if (json_is_array(constant.value))
            return json_field_fail(constant, status, "a list of values is an axis; put it into \"axes\"");
        // The path for errors: missing required keys are reported among the axes.
        e->constants[key] = constant.value || !needed ? constant : json_field_get(axes, name);
        if (method || find_override(e, name))
            add_axis(e, key, e->constants[key], false);
    }
    return true;
}

static bool read_root(struct expansion *e, struct spec *spec, struct status *status)
{
    struct json_field root = json_field_root(&e->source), axes = json_field_get(root, "axes");
    struct names known = {2, {"experiment", "question"}};
    trial_key_names(&known, trial_keys);
    names_add(&known, "axes");
    if (!json_field_object(root, &known, NULL, status))
        return false;
    const char *experiment = NULL, *question = NULL;
    static const char *const label =
        "a label of letters, digits, \"-\", \"_\" and \".\", such as \"context-sweep\"";
    struct json_field field = json_field_get(root, "experiment");
    if (!field.value)
        return json_field_fail(field, status, "missing; expected %s", label);
    if (!json_field_text(field, label, &experiment, status) ||
        !json_field_text(json_field_get(root, "question"), "one sentence", &question, status))
        return false;
    // The name becomes part of file names.
    if (strlen(experiment) > 100 || experiment[0] == '.' || experiment[0] == '-' ||
        experiment[strspn(experiment, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")])
        return json_field_expected(field, status, "%s", label);
    spec->experiment = strdup(experiment);
    spec->question = question ? strdup(question) : NULL;
    for (size_t key = 0; key < trial_key_count(); key++)
        e->constants[key] = json_field_get(root, trial_keys[key].name);
    return read_axes(e, axes, status) && read_constants(e, root, axes, status);
}

// --- the entries of axes.method

// Tells whether a list given for an option is an axis of the entry rather than its value.
static bool is_axis(const struct option *option, const json_t *value)
{
    return json_is_array(value) && ((option->type != OPTION_LIST && option->type != OPTION_WORDS) ||
                                    json_is_array(json_array_get(value, 0)));
}

static bool add_entry_axis(struct entry *entry, size_t key, struct json_field field, struct status *status)
{
    struct axis axis = {key, field, json_is_array(field.value)};
    if (axis_size(&axis) == 0)
        return json_field_expected(field, status, "a value, or a list with at least one");
    entry->axes[entry->axis_count++] = axis;
    entry->variants = expansion_product(entry->variants, axis_size(&axis));
    return true;
}

// Tells whether the name is a trial key that an entry may set itself.
static bool is_entry_key(const char *name, size_t *key)
{
    *key = trial_key_find(name);
    return *key < trial_key_count() && trial_keys[*key].type != KEY_METHOD;
}

// Options of the command line replace those of the entry.
static bool read_entry_axes(struct expansion *e, struct entry *entry, struct json_field field,
                            struct status *status)
{
    entry->variants = 1;
    entry->axis_count = 0;
    const struct option_table *table = &entry->fields.method->options;
    const char *name;
    json_t *value;
    json_object_foreach(field.value, name, value) // in written order
    {
        const struct option *option = option_find(table, name);
        size_t key;
        if (find_override(e, name))
            continue;
        if (option && is_axis(option, value))
            key = (size_t)(option - table->rows);
        else if (!option && is_entry_key(name, &key))
            key += ENTRY_KEYS;
        else
            continue;
        if (!add_entry_axis(entry, key, json_field_get(field, name), status))
            return false;
    }
    for (size_t i = 0; i < e->override_count; i++) {
        struct override *override = &e->overrides[i];
        const struct option *option = option_find(table, override->name);
        if (!option)
            continue;
        override->used = true;
        if (!add_entry_axis(entry, (size_t)(option - table->rows), json_field_root(&override->values), status))
            return false;
    }
    return true;
}

static const char *entry_name(const json_t *entry)
{
    return json_string_value(json_is_object(entry) ? json_object_get(entry, "name") : entry);
}

// Tells whether `--axis method=...` keeps this entry.
static bool is_picked(const struct override *override, const json_t *entry)
{
    const char *name = entry_name(entry);
    for (size_t i = 0; override && i < json_array_size(override->values.root); i++) {
        const char *picked = json_string_value(json_array_get(override->values.root, i));
        if (name && picked && !strcmp(name, picked))
            return true;
    }
    return !override;
}

// Tells whether an entry is of another framework's step, and the command line asks for other devices alone.
static bool is_elsewhere(const struct expansion *e, const json_t *entry)
{
    const struct override *devices = find_override(e, "device");
    const json_t *framework = json_object_get(entry, "framework");
    bool elsewhere = devices && framework && !json_is_null(framework);
    for (size_t i = 0; elsewhere && i < json_array_size(devices->values.root); i++) {
        const char *device = json_string_value(json_array_get(devices->values.root, i));
        elsewhere = device && strcmp(device, FRAMEWORK_DEVICE) != 0;
    }
    return elsewhere;
}

// Checks that every name in `--axis method=...` has an entry.
static bool check_picks(const struct override *override, const struct axis *axis, struct status *status)
{
    struct names known = {0};
    for (size_t i = 0; i < axis_size(axis); i++) {
        const char *name = entry_name(axis_value(axis, i).value);
        if (name && names_find(&known, name) == known.count && known.count < NAMES_MAX)
            names_add(&known, name);
    }
    for (size_t i = 0; i < json_array_size(override->values.root); i++) {
        size_t index;
        if (!json_field_choice(json_field_at(json_field_root(&override->values), i), &known,
                               "method entry of the spec", &index, status))
            return false;
    }
    return true;
}

static bool check_used(const struct expansion *e, struct status *status)
{
    struct named_tables known = method_tables();
    for (size_t i = 0; i < e->override_count; i++) {
        const struct override *override = &e->overrides[i];
        char methods_knowing[256];
        named_tables_knowing(&known, override->name, methods_knowing, sizeof methods_knowing);
        if (methods_option_find(override->name) && !override->used)
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: no method entry here has the option \"%s\"; methods that have it: %s",
                              override->values.name, override->name, methods_knowing);
    }
    return true;
}

// The entry without the trial keys that it sets: a new reference.
static json_t *method_alone(json_t *entry)
{
    json_t *method = json_is_object(entry) ? json_copy(entry) : json_incref(entry);
    size_t key;
    for (size_t i = 0; json_is_object(entry) && i < trial_key_count(); i++)
        if (is_entry_key(trial_keys[i].name, &key))
            json_object_del(method, trial_keys[i].name);
    return method;
}

static bool read_entries(struct expansion *e, size_t *left_out, struct status *status)
{
    const struct axis *axis = e->axes;
    while (trial_keys[axis->key].type != KEY_METHOD)
        axis++;
    const struct override *override = find_override(e, "method");
    if (axis_size(axis) > ENTRIES_MAX)
        return json_field_fail(axis->field, status, "more than %d entries", ENTRIES_MAX);
    if (axis->field.value && override && !check_picks(override, axis, status))
        return false;
    e->entries = calloc(axis_size(axis), sizeof *e->entries);
    for (size_t i = 0; i < axis_size(axis); i++) {
        struct json_field field = axis_value(axis, i);
        struct entry *entry = &e->entries[e->entry_count++];
        struct json_field method = field;
        method.value = entry->method = method_alone(field.value);
        if (!method_fields_read(&entry->fields, method, status))
            return false;
        bool elsewhere = is_elsewhere(e, field.value);
        *left_out += elsewhere;
        if (elsewhere || !is_picked(override, field.value)) {
            json_decref(e->entries[--e->entry_count].method);
            continue;
        }
        if (!read_entry_axes(e, entry, field, status))
            return false;
    }
    if (e->entry_count == 0)
        return json_field_fail(axis->field, status,
                               "every entry is of another framework's step, which device " FRAMEWORK_DEVICE
                               " plans; leave --device out");
    return check_used(e, status);
}

// --- the trials

// Finds a missing file before the sweep starts.
static bool check_file(struct json_field field, const char *path, struct status *status)
{
    struct stat info;
    char found[PATH_MAX];
    path = share_resolve(path, found);
    if (stat(path, &info) != 0 || access(path, R_OK) != 0)
        return json_field_fail(field, status, "%s: cannot be read: %s%s", path, strerror(errno),
                               path[0] == '/' ? ""
                                              : "; relative paths start in the folder that longbp is started in");
    if (!S_ISREG(info.st_mode))
        return json_field_fail(field, status, "%s: is not a file", path);
    input_files_name(path);
    return true;
}

// Offloaded data are as large as the method makes them, so their size is checked at allocation.
static bool check_folder(struct json_field field, const char *path, struct status *status)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode))
        return json_field_fail(field, status, "%s: is not a folder", path);
    if (access(path, W_OK | X_OK) != 0)
        return json_field_fail(field, status, "%s: no file can be made there: %s", path, strerror(errno));
    return true;
}

static bool check_tokens(struct json_field field, const struct trial *trial, const char *path, bool labels,
                         struct status *status)
{
    size_t count = 0, wanted = trial->batch * trial->context, vocab = trial->config.vocab;
    struct status why = {0};
    if (!check_file(field, path, status))
        return false;
    if (labels ? !tokens_count_labels(path, vocab, &count, &why) : !tokens_count(&trial->data, vocab, &count, &why))
        return json_field_fail(field, status, "%s", why.message);
    return count >= wanted || json_field_fail(field, status, "%s: has %zu %s; batch and context need %zu", path,
                                              count, labels ? "labels" : "tokens", wanted);
}

static bool check_batch(struct json_field field, const struct trial *trial, struct status *status)
{
    bool sequences = trial->train.steps; // a micro-batch is a part of them, and they may be a folder
    struct status why = {0};
    if (!sequences && !check_file(field, trial->data.path, status))
        return false;
    return (sequences ? sequences_expect : batch_file_expect)(trial->data.path, trial->context, trial->batch,
                                                              &why) ||
           json_field_fail(field, status, "%s", why.message);
}

static bool check_files(const struct trial *trial, struct trial_fields *fields, struct status *status)
{
    struct json_field data = trial_field(fields, "data");
    if (trial->planned) // reads no data
        return true;
    if (trial->host_folder && !check_folder(trial_field(fields, "host"), trial->host_folder, status))
        return false;
    if (trial->data.path &&
        !(trial->data.kind == DATA_BATCH ? check_batch(data, trial, status)
                                         : check_tokens(data, trial, trial->data.path, false, status)))
        return false;
    return !trial->labels || check_tokens(trial_field(fields, "labels"), trial, trial->labels, true, status);
}

// Adds an id to an open hash table of indices in trials, from 1; returns false if it exists. Ids are hashes
// already.
static bool add_id(uint32_t *table, size_t slots, const struct spec_trial *trials, size_t index)
{
    char start[9] = "";
    memcpy(start, trials[index].id, 8);
    size_t slot = strtoul(start, NULL, 16) % slots;
    for (; table[slot]; slot = (slot + 1) % slots)
        if (!strcmp(trials[table[slot] - 1].id, trials[index].id))
            return false;
    table[slot] = (uint32_t)(index + 1);
    return true;
}

// Requires units in sizes written by people; a number without one is only written by this program.
static bool check_limits(struct trial_fields *fields, struct status *status)
{
    static const char *const limits[] = {"memory", "host_memory"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct json_field limit = json_field_get(trial_field(fields, "limits"), limits[i]);
        if (json_is_number(limit.value))
            return json_field_expected(limit, status, "%s", size_expected(NULL));
    }
    return true;
}

static bool expand(struct expansion *e, struct spec *spec, struct status *status)
{
    size_t total = expansion_count(e);
    if (total > EXPANSION_TRIALS_MAX)
        return status_set(status, STATUS_BAD_INPUT,
                          "%s: the axes multiply to more than %d trials; use fewer values, or several specs",
                          e->source.name, EXPANSION_TRIALS_MAX);
    size_t slots = 2 * total + 1;
    uint32_t *table = calloc(slots, sizeof *table);
    spec->trials = calloc(total, sizeof *spec->trials);
    bool ok = true, any = false;
    struct status first = {0};
    for (size_t n = 0; ok && n < total; n++) {
        struct trial_fields fields;
        struct trial trial = {0};
        struct spec_trial *kept = &spec->trials[spec->trial_count];
        expansion_pick(e, n, &fields);
        ok = check_limits(&fields, status) && trial_identify_fields(&trial, &fields, &e->defaults, status) &&
             check_files(&trial, &fields, status);
        if (ok) {
            memcpy(kept->id, trial.id, sizeof kept->id);
            kept->place = (uint32_t)n;
            spec->trial_count += add_id(table, slots, spec->trials, spec->trial_count);
            any |= !trial.unsupported;
        }
        if (ok && trial.unsupported && first.code == STATUS_OK)
            json_field_fail(trial_unsupported_field(&trial, &fields), &first, "%s", trial.unsupported);
        trial_free(&trial);
    }
    free(table);
    if (ok && !any) // one message instead of a record for each
        *status = first;
    return ok && any;
}

static bool load(struct spec *spec, const struct spec_changes *changes, struct status *status)
{
    struct expansion *e = spec->expansion;
    return read_overrides(e, changes, status) && read_root(e, spec, status) &&
           read_entries(e, &spec->left_out, status) && expand(e, spec, status);
}

bool spec_load(struct spec *spec, const char *path, const struct spec_changes *changes, struct status *status)
{
    *spec = (struct spec){.expansion = calloc(1, sizeof *spec->expansion)};
    char found[PATH_MAX];
    return json_source_open(&spec->expansion->source, share_resolve(path, found), status) &&
           load(spec, changes, status);
}

bool spec_parse(struct spec *spec, const char *name, const char *text, size_t bytes,
                const struct spec_changes *changes, struct status *status)
{
    *spec = (struct spec){.expansion = calloc(1, sizeof *spec->expansion)};
    return json_source_parse(&spec->expansion->source, name, text, bytes, status) && load(spec, changes, status);
}

bool spec_trial(const struct spec *spec, size_t index, struct trial *trial, struct status *status)
{
    struct trial_fields fields;
    expansion_pick(spec->expansion, spec->trials[index].place, &fields);
    return trial_decode_fields(trial, &fields, &spec->expansion->defaults, status);
}

bool spec_varies(const struct spec *spec, size_t key)
{
    return expansion_varies(spec->expansion, key);
}

void spec_free(struct spec *spec)
{
    if (spec->expansion)
        expansion_free(spec->expansion);
    free(spec->trials);
    free(spec->experiment);
    free(spec->question);
    *spec = (struct spec){0};
}
