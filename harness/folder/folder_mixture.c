#include "harness/folder/folder_mixture.h"
#include <string.h>

#define SIZE_LIMIT ((size_t)1 << 24)

// --- reading

struct reading {
    struct json_field root;
    const struct mixture *mixture;
    struct config *config;
    struct status *status;
};

// The key that is there of two names of one. *fine: false, and a status, if both are and differ.
static struct json_field key_of(const struct reading *reading, const char *const keys[2], bool *fine)
{
    struct json_field first = config_key_of(reading->root, keys[0]), second = {0};
    if (keys[1])
        second = config_key_of(reading->root, keys[1]);
    if (first.value && second.value && !json_equal(first.value, second.value))
        *fine = json_field_fail(second, reading->status, "%s is there, too, with another value: keep one of them",
                                keys[0]);
    return second.value ? second : first;
}

static bool read_count(const struct reading *reading, const char *const keys[2], size_t minimum, size_t maximum,
                       size_t standard, size_t *value)
{
    bool fine = true;
    struct json_field field = key_of(reading, keys, &fine);
    *value = standard;
    if (fine && !field.value && standard == 0 && minimum > 0)
        return json_field_expected(field, reading->status, "a whole number above 0: transformers has no default");
    return fine && json_field_count(field, minimum, maximum, "", value, reading->status);
}

// Experts in groups; a single group is none.
static bool read_groups(const struct reading *reading)
{
    const struct mixture *mixture = reading->mixture;
    struct routing *r = &reading->config->experts.routing;
    struct status *status = reading->status;
    struct json_field top = config_key_of(reading->root, "topk_group"),
                      method = config_key_of(reading->root, "topk_method"), groups;
    const char *name = "greedy";
    bool fine = true;
    if (mixture->group_best == 0)
        return true;
    if (mixture->group_method) {
        if (!json_field_text(method, "greedy or group_limited_greedy", &name, status))
            return false;
        if (strcmp(name, "greedy") == 0)
            return true;
        if (strcmp(name, "group_limited_greedy") != 0)
            return json_field_expected(method, status, "greedy or group_limited_greedy");
    }
    groups = key_of(reading, mixture->group_keys, &fine);
    if (!fine || !read_count(reading, mixture->group_keys, 1, ROUTING_GROUPS_MAX, mixture->groups, &r->groups) ||
        !read_count(reading, (const char *const[2]){"topk_group"}, 1, ROUTING_GROUPS_MAX, mixture->top_groups,
                    &r->top_groups))
        return false;
    if (r->experts % r->groups || r->experts / r->groups < mixture->group_best)
        return json_field_expected(groups, status, "a number of groups of equal size, at least %zu of %zu experts",
                                   mixture->group_best, r->experts);
    if (r->top_groups > r->groups || r->chosen > r->top_groups * (r->experts / r->groups))
        return json_field_expected(top, status, "at most %zu groups that have %zu experts together", r->groups,
                                   r->chosen);
    r->group_best = mixture->group_best;
    if (r->groups == 1)
        r->groups = r->top_groups = r->group_best = 0;
    return true;
}

static bool read_routing(const struct reading *reading)
{
    const struct mixture *mixture = reading->mixture;
    struct routing *r = &reading->config->experts.routing;
    struct status *status = reading->status;
    bool fine = true;
    struct json_field chosen = key_of(reading, mixture->chosen_keys, &fine), norm = {0};
    r->score = mixture->score;
    r->normalised = mixture->normalised;
    if (mixture->norm_keys[0])
        norm = key_of(reading, mixture->norm_keys, &fine);
    if (!fine || !json_field_bool(norm, &r->normalised, status) ||
        !read_count(reading, mixture->chosen_keys, 1, ROUTING_EXPERTS_MAX, mixture->chosen, &r->chosen))
        return false;
    if (r->chosen > r->experts)
        return json_field_expected(chosen, status, "at most %zu, all experts", r->experts);
    r->scale = mixture->scale > 0 ? mixture->scale : 1;
    r->added = r->normalised ? mixture->added : 0;
    r->least = r->normalised ? mixture->least : 0;
    if ((mixture->scale > 0 &&
         !json_field_number(config_key_of(reading->root, "routed_scaling_factor"), 1e-6, 1e6, &r->scale, status)) ||
        (mixture->least_keyed &&
         !json_field_number(config_key_of(reading->root, "moe_norm_min"), 0, 1, &r->least, status)))
        return false;
    return read_groups(reading);
}

static bool read_shared(const struct reading *reading)
{
    const struct mixture *mixture = reading->mixture;
    struct experts *e = &reading->config->experts;
    size_t count = 0;
    if (mixture->shared_key) {
        e->shared_gated = mixture->shared_gated;
        return read_count(reading, (const char *const[2]){mixture->shared_key}, 1, SIZE_LIMIT, mixture->shared,
                          &e->shared_width);
    }
    if (!mixture->shared_keys[0])
        return true;
    if (!read_count(reading, mixture->shared_keys, mixture->shared_required, SIZE_LIMIT / e->width, mixture->shared,
                    &count))
        return false;
    e->shared_width = count * e->width;
    return true;
}

static bool read_clamps(const struct reading *reading)
{
    struct experts *e = &reading->config->experts;
    e->alpha = 1.702, e->limit = 7;
    e->bias = e->router_bias = true;
    return json_field_number(config_key_of(reading->root, "swiglu_alpha"), 1e-6, 1e6, &e->alpha, reading->status) &&
           json_field_number(config_key_of(reading->root, "swiglu_limit"), 1e-6, 1e6, &e->limit, reading->status);
}

// --- which layers

static bool read_behind(const struct reading *reading, struct json_field types, bool *dense)
{
    static const struct names names = {2, {"dense", "sparse"}};
    struct json_field first = config_key_of(reading->root, "first_k_dense_replace");
    size_t layers = reading->config->layers, count = reading->mixture->dense_layers;
    if (types.value && (!json_is_array(types.value) || json_array_size(types.value) != layers))
        return json_field_expected(types, reading->status, "a list of %zu types, one for each of num_hidden_layers",
                                   layers);
    if (!reading->mixture->dense_fixed && !json_field_count(first, 0, SIZE_LIMIT, "", &count, reading->status))
        return false;
    for (size_t l = 0; l < layers; l++) {
        size_t sparse = l >= count;
        if (types.value &&
            !json_field_choice(json_field_at(types, l), &names, "type of MLP", &sparse, reading->status))
            return false;
        dense[l] = !sparse;
    }
    return true;
}

static bool read_steps(const struct reading *reading, bool *dense)
{
    struct json_field listed = config_key_of(reading->root, "mlp_only_layers");
    size_t step = 1, layers = reading->config->layers;
    if (!json_field_count(config_key_of(reading->root, "decoder_sparse_step"), 1, SIZE_LIMIT, "", &step,
                          reading->status))
        return false;
    if (listed.value && !json_is_array(listed.value))
        return json_field_expected(listed, reading->status, "a list of layers, the lowest of which is 0");
    for (size_t l = 0; l < layers; l++)
        dense[l] = (l + 1) % step > 0;
    for (size_t i = 0; i < json_array_size(listed.value); i++) {
        size_t layer = 0;
        if (!json_field_count(json_field_at(listed, i), 0, SIZE_LIMIT, "", &layer, reading->status))
            return false;
        if (layer < layers)
            dense[layer] = true;
    }
    return true;
}

static bool read_between(const struct reading *reading, bool *dense)
{
    struct json_field end = config_key_of(reading->root, "moe_layer_end_index");
    size_t first = 1, last = reading->config->layers - 1, step = 1;
    bool highest = json_is_integer(end.value) && json_integer_value(end.value) == -1;
    if (!json_field_count(config_key_of(reading->root, "moe_layer_start_index"), 0, SIZE_LIMIT, "", &first,
                          reading->status) ||
        (!highest && !json_field_count(end, 0, SIZE_LIMIT, "", &last, reading->status)) ||
        !json_field_count(config_key_of(reading->root, "moe_layer_interval"), 1, SIZE_LIMIT, "", &step,
                          reading->status))
        return false;
    for (size_t l = 0; l < reading->config->layers; l++)
        dense[l] = (l + 1) % step > 0 || l < first || l > last;
    return true;
}

// dense: as many as layers.
static bool read_layers(const struct reading *reading, bool *dense)
{
    switch (reading->mixture->layers) {
    case EXPERTS_BEHIND:
        return read_behind(reading, (struct json_field){0}, dense);
    case EXPERTS_LISTED:
        return read_behind(reading, config_key_of(reading->root, "mlp_layer_types"), dense);
    case EXPERTS_STEPS:
        return read_steps(reading, dense);
    case EXPERTS_BETWEEN:
        return read_between(reading, dense);
    default:
        return true;
    }
}

// The key that says which layers are dense.
static struct json_field layers_key(const struct reading *reading)
{
    static const char *const keys[] = {[EXPERTS_BEHIND] = "first_k_dense_replace",
                                       [EXPERTS_LISTED] = "mlp_layer_types",
                                       [EXPERTS_STEPS] = "mlp_only_layers",
                                       [EXPERTS_BETWEEN] = "moe_layer_start_index"};
    return config_key_of(reading->root, keys[reading->mixture->layers]);
}

static bool set_layers(const struct reading *reading, const bool *dense)
{
    struct config *c = reading->config;
    bool some[CONFIG_KIND_LAYERS] = {false};
    for (size_t l = 0; l < c->layers; l++) {
        if (dense[l] && l >= CONFIG_KIND_LAYERS)
            return json_field_fail(layers_key(reading), reading->status,
                                   "layers without experts must be among the first %d", CONFIG_KIND_LAYERS);
        some[l < CONFIG_KIND_LAYERS ? l : 0] |= dense[l];
    }
    for (size_t k = 0; k < CONFIG_KINDS; k++)
        c->kinds[k].mlp = config_has_kind(c, k) ? MLP_EXPERTS : MLP_DENSE;
    return config_set_mlp(c, some, MLP_DENSE) ||
           json_field_fail(layers_key(reading), reading->status, "makes more than %d kinds of layers",
                           CONFIG_DELTA);
}

static bool read_aux_loss(const struct reading *reading)
{
    bool adds = false;
    double aux_loss = reading->mixture->aux_loss;
    if (aux_loss == 0)
        return true;
    if (!json_field_bool(config_key_of(reading->root, "output_router_logits"), &adds, reading->status) ||
        !json_field_number(config_key_of(reading->root, "router_aux_loss_coef"), 0, 1e6, &aux_loss,
                           reading->status))
        return false;
    reading->config->experts.aux_loss = adds ? aux_loss : 0;
    return true;
}

static bool read_experts(const struct reading *reading, const bool *dense)
{
    const struct mixture *mixture = reading->mixture;
    struct config *c = reading->config;
    struct experts *e = &c->experts;
    e->width = c->ffn;
    if (mixture->width_key &&
        !read_count(reading, (const char *const[2]){mixture->width_key}, 1, SIZE_LIMIT, mixture->width, &e->width))
        return false;
    e->correction_bias = mixture->corrected;
    return read_routing(reading) && read_shared(reading) && read_aux_loss(reading) &&
           (!mixture->clamped || read_clamps(reading)) && set_layers(reading, dense);
}

bool folder_mixture_decode(struct json_field root, const struct family *family, struct config *c,
                           struct status *status)
{
    const struct reading reading = {root, family->mixture, c, status};
    if (!family->mixture)
        return true;
    bool *dense = calloc(c->layers, sizeof *dense), any = false;
    CHECK(dense);
    bool steps = family->mixture->layers == EXPERTS_STEPS; // which has none where there are 0 experts
    bool read = read_count(&reading, family->mixture->count_keys, !steps, ROUTING_EXPERTS_MAX,
                           family->mixture->count, &c->experts.routing.experts) &&
                read_layers(&reading, dense);
    for (size_t l = 0; read && l < c->layers; l++)
        any |= !dense[l] && c->experts.routing.experts > 0;
    if (read && any)
        read = read_experts(&reading, dense);
    else if (read)
        c->experts = (struct experts){0};
    free(dense);
    return read;
}

// --- writing

static bool has_experts(const struct config *c, size_t layer)
{
    return config_kind(c, layer)->mlp == MLP_EXPERTS;
}

static void set_count(json_t *json, const char *key, size_t value)
{
    json_object_set_new(json, key, json_integer((json_int_t)value));
}

static size_t first_of(const struct config *c)
{
    size_t first = 0;
    while (first < c->layers && !has_experts(c, first))
        first++;
    return first;
}

static void encode_layers(json_t *json, enum experts_of_layers layers, const struct config *c)
{
    json_t *types = json_array(), *dense = json_array();
    for (size_t l = 0; l < c->layers; l++) {
        json_array_append_new(types, json_string(has_experts(c, l) ? "sparse" : "dense"));
        if (!has_experts(c, l))
            json_array_append_new(dense, json_integer((json_int_t)l));
    }
    if (layers == EXPERTS_BEHIND)
        set_count(json, "first_k_dense_replace", first_of(c));
    if (layers == EXPERTS_LISTED)
        json_object_set(json, "mlp_layer_types", types);
    if (layers == EXPERTS_STEPS)
        json_object_set(json, "mlp_only_layers", dense);
    if (layers == EXPERTS_BETWEEN)
        set_count(json, "moe_layer_start_index", first_of(c));
    json_decref(types);
    json_decref(dense);
}

void folder_mixture_encode(json_t *json, const struct family *family, const struct config *c)
{
    const struct mixture *mixture = family->mixture;
    const struct experts *e = &c->experts;
    const struct routing *r = &e->routing;
    if (!mixture)
        return;
    encode_layers(json, mixture->layers, c);
    if (r->experts == 0)
        return;
    set_count(json, "intermediate_size", c->ffn ? c->ffn : e->width);
    set_count(json, mixture->count_keys[0], r->experts);
    set_count(json, mixture->chosen_keys[0], r->chosen);
    if (mixture->width_key)
        set_count(json, mixture->width_key, e->width);
    if (mixture->shared_key)
        set_count(json, mixture->shared_key, e->shared_width);
    if (mixture->shared_keys[0])
        set_count(json, mixture->shared_keys[0], e->shared_width / e->width);
    if (mixture->norm_keys[0])
        json_object_set_new(json, mixture->norm_keys[0], json_boolean(r->normalised));
    if (mixture->scale > 0)
        json_object_set_new(json, "routed_scaling_factor", json_real(r->scale));
    if (mixture->least_keyed)
        json_object_set_new(json, "moe_norm_min", json_real(r->least));
    if (mixture->group_best > 0) {
        set_count(json, mixture->group_keys[0], r->groups ? r->groups : 1);
        set_count(json, "topk_group", r->groups ? r->top_groups : 1);
        if (mixture->group_method)
            json_object_set_new(json, "topk_method", json_string(r->groups ? "group_limited_greedy" : "greedy"));
    }
    if (e->aux_loss > 0) {
        json_object_set_new(json, "output_router_logits", json_true());
        json_object_set_new(json, "router_aux_loss_coef", json_real(e->aux_loss));
    }
    if (mixture->clamped) {
        json_object_set_new(json, "swiglu_alpha", json_real(e->alpha));
        json_object_set_new(json, "swiglu_limit", json_real(e->limit));
    }
}

// Tells whether the keys can say which layers are mixtures.
static bool has_layers(enum experts_of_layers layers, const struct config *c)
{
    size_t first = first_of(c);
    bool behind = true, none = first == c->layers;
    for (size_t l = first; l < c->layers; l++)
        behind &= has_experts(c, l);
    switch (layers) {
    case EXPERTS_ALL:
        return first == 0;
    case EXPERTS_BEHIND:
    case EXPERTS_BETWEEN:
        return behind && !none;
    default:
        return !none;
    }
}

bool folder_mixture_is_of(const struct family *family, const struct config *c)
{
    const struct mixture *mixture = family->mixture;
    const struct experts *e = &c->experts;
    const struct routing *r = &e->routing;
    if (!mixture || r->experts == 0)
        return r->experts == 0 && (!mixture || family->latent.kv_rank > 0);
    bool shared = mixture->shared_key ? e->shared_width > 0
                  : mixture->shared_keys[0]
                      ? e->shared_width % e->width == 0 && (e->shared_width > 0 || !mixture->shared_required)
                      : e->shared_width == 0;
    bool grouped = r->groups == 0 || r->group_best == mixture->group_best;
    bool normed = mixture->norm_keys[0] || r->normalised == mixture->normalised;
    bool least = mixture->least_keyed || r->least == 0;
    return has_layers(mixture->layers, c) && shared && e->shared_gated == mixture->shared_gated && grouped &&
           normed && least && r->score == mixture->score && (mixture->scale > 0 || r->scale == 1) &&
           r->added == (r->normalised ? mixture->added : 0) && e->correction_bias == mixture->corrected &&
           e->bias == mixture->clamped && e->router_bias == mixture->clamped &&
           (e->alpha > 0) == mixture->clamped && (mixture->width_key || e->width == c->ffn || c->ffn == 0);
}
