#include "harness/calibrate/card_rates.h"
#include "harness/plan/planned_step.h"
#include "harness/record/record_json.h"
#include "harness/record/results.h"
#include "harness/record/step_time.h"
#include "harness/stats/sample.h"
#include "kernels/device/ops.h"
#include <math.h>
#include <string.h>

#define POINTS_MAX 96
#define LONGEST_MS 10.0
#define POWER_FLOPS                                                                                                \
    4e14 // per second; among the records seco with chunk 128 (242e12) kept its clock, with 512 (482e12) it did not
#define NARROW_BYTES 1e5 // of the first point of a narrow GEMM; each next one has four times as many

// A measured operation: name of its rate, position in the table, and rate.
struct point {
    char operation[32];
    double at[RATE_DIMENSIONS], value;
    size_t dimensions;
};

// A line of bench_ops: "gemm_forward/tokens=2048/in=4096/out=14336/bf16/...".
struct line {
    const char *name;
    double seconds, amount; // FLOPs, or bytes
};

struct card {
    struct profile *profile;
    struct rates *rates;
    struct device *device; // without data
    bool masks_by_cudnn;   // when the operations were measured
    double narrow_s;       // time beyond its bytes', summed over narrow_count products
    size_t line_count, point_count, narrow_count;
    struct line lines[POINTS_MAX];
    struct point points[POINTS_MAX];
};

static bool is_of(const struct line *line, const char *operation)
{
    size_t length = strlen(operation);
    return strncmp(line->name, operation, length) == 0 && line->name[length] == '/';
}

// The number in "/queries=2048"; 0: none.
static size_t number_of(const struct line *line, const char *key)
{
    const char *found = strstr(line->name, key);
    return found ? strtoull(found + strlen(key), NULL, 10) : 0;
}

static bool read_line(struct card *card, struct json_field field, struct status *status)
{
    struct line line = {0};
    double time_ms = 0, giga = 0;
    struct json_field flops = json_field_get(field, "GFLOP/s"), bytes = json_field_get(field, "GB/s");
    if (!json_field_text(json_field_get(field, "name"), "a benchmark's name", &line.name, status) ||
        !json_field_number(json_field_get(field, "real_time"), 1e-9, 1e9, &time_ms, status) ||
        !json_field_number(flops.value ? flops : bytes, 1e-9, 1e12, &giga, status))
        return false;
    line.seconds = 1e-3 * time_ms;
    line.amount = 1e9 * giga * line.seconds;
    if (!line.name || !(line.amount > 0))
        return json_field_expected(field, status,
                                   "a name, a real_time and GFLOP/s or GB/s, as bench_ops writes them");
    bool window = strstr(line.name, "/window="); // by own kernels, which leave most of the card idle
    if (!strstr(line.name, "/bf16/") || (time_ms > LONGEST_MS && !window))
        return true;
    if (window && card->masks_by_cudnn)
        return json_field_fail(field, status,
                               "%.100s ran by cuDNN, and own kernels' rate is that of windows; run bench_ops with "
                               "LONGBP_MASKED_ATTENTION=own",
                               line.name);
    if (card->line_count == POINTS_MAX)
        return json_field_fail(field, status, "more than %d operations in bf16", POINTS_MAX);
    card->lines[card->line_count++] = line;
    return true;
}

// Which kernels ran masked attention: own ones in files without this key.
static bool read_masked_attention(struct card *card, struct json_field field, struct status *status)
{
    const char *by = json_string_value(field.value);
    card->masks_by_cudnn = by && strcmp(by, "cuDNN") == 0;
    return !field.value || card->masks_by_cudnn || (by && strcmp(by, "own kernels") == 0) ||
           json_field_expected(field, status, "\"own kernels\" or \"cuDNN\"");
}

// Who summed dK and dV over query heads: the blocks' own pass, or an engine in files without this key.
static bool read_head_sums(struct card *card, struct json_field field, struct status *status)
{
    const char *by = json_string_value(field.value);
    card->device->unfused = !by || strcmp(by, "cuDNN") == 0;
    return !field.value || (by && (card->device->unfused || strcmp(by, "own kernels") == 0)) ||
           json_field_expected(field, status, "\"own kernels\" or \"cuDNN\"");
}

// How attention's forward ran: over all keys at once in files without this key.
static bool read_attention_keys(struct card *card, struct json_field field, struct status *status)
{
    const char *how = json_string_value(field.value);
    card->device->whole_keys = !field.value;
    return !field.value || (how && strcmp(how, "ranges") == 0) || json_field_expected(field, status, "\"ranges\"");
}

static void add_point(struct card *card, const char *operation, const double *at, size_t dimensions, double value)
{
    struct point *point = &card->points[card->point_count++];
    snprintf(point->operation, sizeof point->operation, "%s", operation);
    point->dimensions = dimensions;
    memcpy(point->at, at, dimensions * sizeof *at);
    point->value = value;
}

// --- tables

static size_t add_to_axis(double *axis, size_t count, double at)
{
    size_t i = 0;
    while (i < count && axis[i] < at)
        i++;
    if (i < count && axis[i] == at)
        return count;
    memmove(axis + i + 1, axis + i, (count - i) * sizeof *axis);
    axis[i] = at;
    return count + 1;
}

static double squared_distance(const double *a, const double *b, size_t dimensions)
{
    double sum = 0;
    for (size_t d = 0; d < dimensions; d++)
        sum += log(a[d] / b[d]) * log(a[d] / b[d]);
    return sum;
}

// A causal square's time is proportional to its side, because its tiles of queries run in parallel. Its rate is
// then proportional to the side, too.
static void add_squares(struct card *card, const char *operation, const double *at, double value)
{
    const double one[] = {1, at[1], at[2]};
    add_point(card, operation, at, RATE_DIMENSIONS, value);
    add_point(card, operation, one, RATE_DIMENSIONS, value / at[0]);
}

// The weighted mean of logarithms over the points at this place and around it.
static double value_at(const struct card *card, const char *operation, const double *at, size_t dimensions)
{
    double sum = 0, weights = 0, here = 0;
    size_t count = 0;
    for (size_t i = 0; i < card->point_count; i++) {
        const struct point *point = &card->points[i];
        if (strcmp(point->operation, operation) != 0)
            continue;
        double distance = squared_distance(point->at, at, dimensions), weight = 1 / distance;
        if (distance == 0) {
            here += log(point->value);
            count++;
        } else {
            sum += weight * log(point->value);
            weights += weight;
        }
    }
    return exp(count ? here / (double)count : sum / weights);
}

// Makes rates rise with the number of rows: a noisy or estimated point would otherwise suggest useless cuts. Rows
// are the first extent, except for grad_W += grad_y^T x, where they are the last.
static void make_rising(struct rate *rate)
{
    bool last = strcmp(rate->operation, "gemm_tn") == 0;
    size_t values = 1, stride = 1, rows = rate->counts[last ? 2 : 0];
    for (size_t d = 0; d < rate->dimensions; d++) {
        values *= rate->counts[d];
        stride *= d > 0 && !last ? rate->counts[d] : 1;
    }
    for (size_t i = values; i-- > 0;)
        if (i / stride % rows + 1 < rows)
            rate->values[i] = fmin(rate->values[i], rate->values[i + stride]);
}

static bool make_table(struct card *card, const char *operation, struct status *status)
{
    CHECK(card->rates->count < RATES_MAX);
    struct rate *rate = &card->rates->items[card->rates->count++];
    *rate = (struct rate){0};
    snprintf(rate->operation, sizeof rate->operation, "%s", operation);
    for (size_t i = 0; i < card->point_count; i++) {
        const struct point *point = &card->points[i];
        for (size_t d = 0; d < point->dimensions && strcmp(point->operation, operation) == 0; d++) {
            rate->dimensions = point->dimensions;
            if (rate->counts[d] == RATE_POINTS)
                return status_set(status, STATUS_BAD_INPUT, "%s: more than %d sizes of one extent", operation,
                                  RATE_POINTS);
            rate->counts[d] = add_to_axis(rate->axes[d], rate->counts[d], point->at[d]);
        }
    }
    size_t count = rate->counts[0], fast = 1, middle = 1;
    if (rate->dimensions == RATE_DIMENSIONS)
        middle = rate->counts[1], fast = rate->counts[2], count *= middle * fast;
    if (count == 0)
        return status_set(status, STATUS_BAD_INPUT, "the operations lack %s", operation);
    for (size_t i = 0; i < count; i++) {
        const double at[] = {rate->axes[0][i / (middle * fast)], rate->axes[1][i / fast % middle],
                             rate->axes[2][i % fast]};
        rate->values[i] = value_at(card, operation, at, rate->dimensions);
    }
    make_rising(rate);
    return true;
}

// --- operations

static bool add_bandwidth(struct card *card, struct status *status)
{
    for (size_t i = 0; i < card->line_count; i++) {
        const struct line *line = &card->lines[i];
        if (is_of(line, "copy_from_sums"))
            card->rates->bytes_per_s = line->amount / (line->seconds - card->rates->launch_s);
    }
    return card->rates->bytes_per_s > 0 ||
           status_set(status, STATUS_BAD_INPUT, "the operations lack copy_from_sums");
}

// Operations that move bytes, by bench_ops's names.
static const struct moving {
    const char *benchmark, *operation;
} moving[] = {{"rmsnorm_forward", "rmsnorm_forward"},
              {"rmsnorm_backward", "rmsnorm_backward"},
              {"swiglu_forward", "swiglu_forward"},
              {"swiglu_backward", "swiglu_backward"},
              {"rope", "rope"},
              {"copy_from_sums", "copy"},
              {"cross_entropy", "cross_entropy"},
              {"embedding_backward", "embedding_backward"},
              {"adamw", "adamw"}};

static bool add_moving(struct card *card, struct status *status)
{
    for (size_t o = 0; o < sizeof moving / sizeof *moving; o++) {
        for (size_t i = 0; i < card->line_count; i++) {
            const struct line *line = &card->lines[i];
            if (is_of(line, moving[o].benchmark))
                add_point(card, moving[o].operation, &line->amount, 1,
                          line->amount / (line->seconds - card->rates->launch_s));
        }
        if (!make_table(card, moving[o].operation, status))
            return false;
    }
    return true;
}

static const struct product {
    const char *benchmark, *operation;
    enum transpose a, b;
} products[] = {{"gemm_forward", "gemm_nt", NO_TRANSPOSE, TRANSPOSE},
                {"gemm_grad_x", "gemm_nn", NO_TRANSPOSE, NO_TRANSPOSE},
                {"gemm_grad_weight", "gemm_tn", TRANSPOSE, NO_TRANSPOSE}};

// A product's bytes, as its front counts them.
static double product_bytes(struct card *card, const struct product *product, size_t m, size_t n, size_t k)
{
    struct device *device = card->device;
    bool a = product->a == TRANSPOSE, b = product->b == TRANSPOSE;
    struct tensor x = tensor_new(device, a ? k : m, a ? m : k, DTYPE_BF16, CATEGORY_WORKSPACE),
                  w = tensor_new(device, b ? n : k, b ? k : n, DTYPE_BF16, CATEGORY_WORKSPACE),
                  y = tensor_new(device, m, n, a ? DTYPE_F32 : DTYPE_BF16, CATEGORY_WORKSPACE);
    device->counters = (struct counters){0};
    op_gemm(device, y, x, product->a, w, product->b, 1, a ? 1 : 0);
    tensor_free(device, &y);
    tensor_free(device, &w);
    tensor_free(device, &x);
    return device->counters.bytes_moved;
}

static void add_product(struct card *card, const struct product *product, const struct line *line)
{
    size_t tokens = number_of(line, "/tokens="), in = number_of(line, "/in="), out = number_of(line, "/out=");
    bool weight = product->a == TRANSPOSE, forward = product->b == TRANSPOSE;
    size_t m = weight ? out : tokens, n = forward ? out : in, k = weight ? tokens : forward ? in : out;
    double bytes = product_bytes(card, product, m, n, k), took_s = line->seconds - card->rates->launch_s;
    const double at[] = {(double)m, (double)n, (double)k};
    if (m > RATE_NARROW && n > RATE_NARROW && k > RATE_NARROW) {
        add_point(card, product->operation, at, RATE_DIMENSIONS, line->amount / took_s);
        return;
    }
    card->narrow_s += fmax(took_s - bytes / card->rates->bytes_per_s, 0);
    card->narrow_count++;
}

// A narrow product takes a constant time in addition to its bytes' time.
static void add_narrow(struct card *card)
{
    double bytes = NARROW_BYTES;
    for (size_t i = 0; i < RATE_POINTS && card->narrow_count; i++, bytes *= 4)
        add_point(card, "gemm_narrow", &bytes, 1,
                  bytes / (card->narrow_s / (double)card->narrow_count + bytes / card->rates->bytes_per_s));
}

static bool add_products(struct card *card, struct status *status)
{
    for (size_t o = 0; o < sizeof products / sizeof *products; o++) {
        for (size_t i = 0; i < card->line_count; i++)
            if (is_of(&card->lines[i], products[o].benchmark))
                add_product(card, &products[o], &card->lines[i]);
        if (!make_table(card, products[o].operation, status))
            return false;
    }
    add_narrow(card);
    return make_table(card, "gemm_narrow", status);
}

// --- attention

static struct attention_shape shape_of(const struct line *line)
{
    const char *heads = strstr(line->name, "/heads="), *kv = heads ? strchr(heads, ':') : NULL;
    return (struct attention_shape){.queries = number_of(line, "/queries="),
                                    .start = number_of(line, "/start="),
                                    .batch = 1,
                                    .heads = number_of(line, "/heads="),
                                    .kv_heads = kv ? strtoull(kv + 1, NULL, 10) : 0,
                                    .head_dim = number_of(line, "/head_dim="),
                                    .keys = number_of(line, "/keys="),
                                    .mask = {.window = number_of(line, "/window=")}};
}

// Estimates attention with the current rates.
static double attention_estimate_s(struct card *card, struct attention_shape s, bool backward)
{
    struct device *device = card->device;
    size_t cols = s.heads * s.head_dim, keys = attention_keys(s), kv_cols = s.kv_heads * s.head_dim;
    struct tensor q = tensor_new(device, s.queries, cols, DTYPE_BF16, CATEGORY_WORKSPACE),
                  sums = tensor_new(device, s.queries, s.heads, DTYPE_F32, CATEGORY_WORKSPACE),
                  k = tensor_new(device, keys, kv_cols, DTYPE_BF16, CATEGORY_WORKSPACE),
                  grad_k = tensor_new(device, keys, kv_cols, DTYPE_F32, CATEGORY_WORKSPACE);
    const struct key_segment all = {.count = keys, .grad_k = grad_k, .grad_v = grad_k};
    device->counters = (struct counters){0};
    if (backward)
        op_attention_backward(device, s, q, false, &all, 1, q, q, sums, q, k, k);
    else
        op_attention_forward(device, s, q, sums, q, k, k);
    tensor_free(device, &grad_k);
    tensor_free(device, &k);
    tensor_free(device, &sums);
    tensor_free(device, &q);
    return device->counters.estimate_s;
}

// Solves for the one unknown rate. The time of operations at that rate is inversely proportional to it; all other
// time is known.
static double solve(struct card *card, const struct line *line, const char *operation, bool backward)
{
    const double slow = 1e12, slower = 5e11;
    struct rate *rate = &card->rates->items[card->rates->count];
    struct attention_shape shape = shape_of(line);
    *rate = (struct rate){
        .dimensions = 3, .counts = {1, 1, 1}, .axes = {{(double)shape.queries}, {1}, {1}}, .values = {slow}};
    snprintf(rate->operation, sizeof rate->operation, "%s", operation);
    card->rates->count++;
    double with_slow_s = attention_estimate_s(card, shape, backward);
    rate->values[0] = slower;
    double flops = (attention_estimate_s(card, shape, backward) - with_slow_s) / (1 / slower - 1 / slow);
    card->rates->count--;
    return flops / (line->seconds - (with_slow_s - flops / slow));
}

enum part { CAUSAL, RECTANGLE, F32, OTHER_PART };

// Tells whether a line depends on one rate, or on one besides known ones.
static enum part part_of(const struct line *line)
{
    struct attention_shape shape = shape_of(line);
    bool square = shape.start == 0;
    return strstr(line->name, "/own_keys") ? OTHER_PART : shape.mask.window ? F32 : square ? CAUSAL : RECTANGLE;
}

static bool add_attention(struct card *card, const char *benchmark, struct status *status)
{
    static const char *const parts[] = {[CAUSAL] = "causal", [RECTANGLE] = "rectangle", [F32] = "f32"};
    for (enum part part = CAUSAL; part < OTHER_PART; part++) {
        char operation[32];
        snprintf(operation, sizeof operation, "%s_%s", benchmark, parts[part]);
        for (size_t i = 0; i < card->line_count; i++) {
            const struct line *line = &card->lines[i];
            if (!is_of(line, benchmark) || part_of(line) != part)
                continue;
            struct attention_shape shape = shape_of(line);
            const double at[] = {(double)shape.queries, 1, (double)shape.head_dim};
            double value = solve(card, line, operation, strcmp(benchmark, "attention_backward") == 0);
            if (!(value > 0))
                return status_set(status, STATUS_BAD_INPUT, "%s took less than what is known of it", line->name);
            if (part == CAUSAL)
                add_squares(card, operation, at, value);
            else
                add_point(card, operation, at, RATE_DIMENSIONS, value);
        }
        if (!make_table(card, operation, status))
            return false;
    }
    return true;
}

static bool add_operations(struct card *card, const char *path, struct status *status)
{
    struct json_source source;
    bool fine = json_source_open(&source, path, status);
    struct json_field root = fine ? json_field_root(&source) : (struct json_field){0},
                      lines = json_field_get(root, "benchmarks");
    if (fine && !json_is_array(lines.value))
        fine = json_field_expected(lines, status, "a list, as bench_ops writes it");
    struct json_field context = json_field_get(root, "context");
    fine = fine && read_masked_attention(card, json_field_get(context, "masked_attention"), status) &&
           read_head_sums(card, json_field_get(context, "head_sums"), status) &&
           read_attention_keys(card, json_field_get(context, "attention_keys"), status);
    for (size_t i = 0; fine && i < json_array_size(lines.value); i++)
        fine = read_line(card, json_field_at(lines, i), status);
    fine = fine && add_bandwidth(card, status) && add_moving(card, status) && add_products(card, status) &&
           add_attention(card, "attention_forward", status) && add_attention(card, "attention_backward", status);
    json_source_close(&source);
    return fine;
}

// --- steps

// Measured over estimated time; NaN: not timed, or a draw, whose chunks differ.
static double ratio_of(struct card *card, const struct record *record, struct status *status)
{
    struct trial trial;
    struct planned_step step;
    struct planned_memos memos;
    double ratio = NAN;
    if (record->status != RECORD_OK || record->sample_chunks.count || !(record->median_ms > 0))
        return NAN;
    json_t *whole = record_trial_json(&record->trial), *json = json_deep_copy(whole);
    json_object_set_new(json, "profile", json_null());
    if (!json_object_get(json, "attention_queries")) { // the behaviour before these keys
        json_object_set_new(json, "attention_queries", json_integer(2048));
        json_object_set_new(json, "unfused", json_true());
    }
    if (!json_object_get(json, "whole_keys"))
        json_object_set_new(json, "whole_keys", json_true());
    char *text = json_dumps(json, 0);
    if (trial_decode(&trial, text, "a record's trial", status)) {
        trial.profile = card->profile;
        planned_memos_open(&memos);
        if (planned_step(&step, &trial, trial.options, (struct planned_limits){NO_LIMIT, NO_LIMIT}, &memos, status))
            ratio = 1e-3 * record->median_ms / step.seconds;
        planned_memos_close(&memos);
        trial.profile = NULL;
    }
    trial_free(&trial);
    free(text);
    json_decref(json);
    json_decref(whole);
    return ratio;
}

static bool add_power(struct card *card, const struct results *results, struct status *status)
{
    double *ratios = calloc(results->count + 1, sizeof *ratios);
    size_t count = 0;
    for (size_t i = 0; i < results->count; i++) {
        double ratio = strcmp(record_method(results->records[i]), "full") == 0
                           ? ratio_of(card, results->records[i], status)
                           : NAN;
        if (!isnan(ratio))
            ratios[count++] = ratio;
    }
    if (count)
        card->rates->power = (struct power_limit){POWER_FLOPS, fmax(1, sample_quantile(ratios, count, 0.5))};
    free(ratios);
    return status->code == STATUS_OK &&
           (count ||
            status_set(status, STATUS_BAD_INPUT, "no step of method full, whose time tells the power limit"));
}

static bool add_spread(struct card *card, const struct results *results, struct status *status)
{
    card->rates->low = card->rates->high = 1;
    for (size_t i = 0; i < results->count; i++) {
        double ratio = ratio_of(card, results->records[i], status);
        if (isnan(ratio))
            continue;
        card->rates->low = fmin(card->rates->low, ratio);
        card->rates->high = fmax(card->rates->high, ratio);
    }
    return status->code == STATUS_OK;
}

bool card_rates(struct profile *profile, const char *operations, const char *steps, struct status *status)
{
    struct card *card = calloc(1, sizeof *card);
    struct results results;
    card->profile = profile;
    card->rates = &profile->rates[DTYPE_BF16];
    *card->rates = (struct rates){.launch_s = profile->launch_s.value};
    card->device = device_open("plan-cuda", DTYPE_BF16, 0, status);
    bool fine = card->device;
    if (fine) {
        card->device->multiprocessors = (size_t)profile->multiprocessors.value;
        card->device->compute_capability = (size_t)lround(10 * profile->compute_capability.value);
        fine = profile_roofline(profile, DTYPE_BF16, &card->device->roofline, status);
        card->device->roofline.rates = card->rates;
        card->device->own_masked_attention = true; // as when the operations were measured
        fine = fine && add_operations(card, operations, status);
        device_close(card->device);
    }
    if (fine) {
        fine = results_open(&results, &steps, 1, false, status) && add_power(card, &results, status) &&
               add_spread(card, &results, status);
        results_close(&results);
    }
    snprintf(profile->rates_source, sizeof profile->rates_source,
             "longbp calibrate --operations %.70s --steps %.70s --profile %.30s; power limit: full there",
             operations, steps, profile->name);
    free(card);
    return fine;
}
