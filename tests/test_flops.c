// FLOPs: every method's count is that of methods/README.md, exactly, for every option; computed here from the
// model's shape and from pairs counted one by one, not from launched operations. A loop over the array of methods;
// an exact one without a closed form here has full's as a lower bound.
#include "kernels/model/flops.h"
#include "methods/schedule/chunk_work.h"
#include "methods/schedule/chunks.h"
#include "methods/schedule/layer_schedule.h"
#include "tests/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// FLOPs per token: of the layers' projections, all together, of keys and values, of those that only a cell's output
// needs, and of the gradients of what trains of them; of the head. lora_again: of x A^T, a second time in the
// backward.
struct costs {
    double all, k, v, output, gradients, lora_again, head, head_gradient;
    double expand;  // a token's keys and values from its latent, which is no part of those
    bool key_norms; // of a rebuilt cell keys are projected again
};

// Costs of latent attention whose weights train. A rebuilt cell projects the latent again.
static struct costs costs_of_latents(const struct fixture *f)
{
    const struct config *c = &f->config;
    const struct layer_kind *k = &c->kinds[0];
    double d = c->width, H = k->heads, q = H * k->head_dim, values = H * k->value_dim, ffn = c->ffn;
    double latent = d * (k->kv_rank + k->rotary), queries = d * k->q_rank + k->q_rank * q;
    double all = 2 * (queries + latent + values * d + 3 * d * ffn);
    assert_int_equal(f->lora.rank, 0);
    return (struct costs){.all = all,
                          .k = 2 * latent,
                          .output = c->norms == NORMS_BEFORE ? 2 * d * ffn : 0,
                          .gradients = all,
                          .head = 2 * d * c->vocab,
                          .head_gradient = 2 * d * c->vocab,
                          .expand = 2 * k->kv_rank * (H * (k->head_dim - k->rotary) + values),
                          .key_norms = true};
}

static struct costs costs_of(const struct fixture *f)
{
    const struct config *c = &f->config;
    if (c->kinds[0].kv_rank)
        return costs_of_latents(f);
    const struct layer_kind *k = config_kind(c, 0);
    double d = c->width, q = k->heads * k->head_dim, kv = k->kv_heads * k->head_dim, ffn = c->ffn;
    double q_out = k->gated ? 2 * q : q; // with its gate
    double v = k->k_is_v ? 0 : kv;
    const double shapes[LORA_PROJECTIONS][2] = {{d, q_out}, {d, kv}, {d, v}, {q, d}, {d, ffn}, {d, ffn}, {ffn, d}};
    double forward[LORA_PROJECTIONS];
    struct costs costs = {
        .head = 2 * d * c->vocab, .head_gradient = f->lora.rank ? 0 : 2 * d * c->vocab, .key_norms = c->qk_norm};
    for (size_t i = 0; i < LORA_PROJECTIONS; i++) {
        double in = shapes[i][0], out = shapes[i][1], r = (f->lora.targets >> i & 1) * (double)f->lora.rank;
        forward[i] = 2 * in * out + 2 * r * (in + out);
        costs.all += forward[i];
        costs.gradients += f->lora.rank ? 2 * r * (2 * in + out) : 2 * in * out;
        costs.lora_again += 2 * r * in;
    }
    costs.k = forward[1], costs.v = forward[2];
    costs.output = c->norms == NORMS_BEFORE ? forward[6] + (c->parallel ? forward[3] : 0) : 0;
    return costs;
}

static size_t document_of(const struct fixture *f, size_t b, size_t t)
{
    return f->document ? (t + 3 * b + 1) / f->document : 0;
}

// The chunk of a token in its document; chunk 0: all are in one.
static size_t chunk_of(const struct fixture *f, size_t b, size_t t, size_t chunk)
{
    size_t place = 0;
    while (chunk > 0 && place < t && document_of(f, b, t - place - 1) == document_of(f, b, t))
        place++;
    return chunk > 0 ? place / chunk : 0;
}

// Multiplications and additions of products over the pairs that queries [start, end) see of keys [first, last) in a
// layer, so many with keys and with values: 2 H D a pair and product.
static double products(const struct fixture *f, size_t layer, struct span queries, struct span keys, size_t of_keys,
                       size_t of_values)
{
    size_t pairs = 0, window = config_kind(&f->config, layer)->window;
    size_t chunk = config_kind(&f->config, layer)->chunked ? window : 0;
    for (size_t b = 0; b < f->batch_size; b++) {
        for (size_t q = queries.start; q < queries.start + queries.count; q++)
            for (size_t k = keys.start; k < keys.start + keys.count && k <= q; k++)
                pairs += document_of(f, b, q) == document_of(f, b, k) && (!window || q - k < window) &&
                         chunk_of(f, b, q, chunk) == chunk_of(f, b, k, chunk);
    }
    const struct layer_kind *kind = config_kind(&f->config, layer);
    size_t values = kind->value_dim ? kind->value_dim : kind->head_dim;
    return 2.0 * (double)(pairs * kind->heads * (of_keys * kind->head_dim + of_values * values));
}

// Products of the tokens of a span with all that they see, in layers [first, end).
static double attention(const struct fixture *f, size_t first, size_t end, struct span queries, size_t of_keys,
                        size_t of_values)
{
    double flops = 0;
    for (size_t l = first; l < end; l++)
        flops += products(f, l, queries, (struct span){0, f->context}, of_keys, of_values);
    return flops;
}

// A method with its options, whose segments are sizes of runs of layers from below, and a fixture.
struct asked {
    const struct fixture *f;
    struct costs costs;
    struct chunks chunks;
    struct index_list drawn;          // of spaco; of deferred those of the second pass
    unsigned at_once;                 // of deferred, a bit each
    bool all_losses, inner, attended; // attended: what attention gives is kept
    bool by_chunk;                    // a layer's cells are of one chunk each
    size_t segments, ends[8];         // ends[s]: the first layer above segment s
};

static double tokens(const struct asked *a, struct span span)
{
    return (double)(span.count * a->f->batch_size);
}
static struct span whole(const struct asked *a)
{
    return (struct span){0, a->f->context};
}
static size_t first_of(const struct asked *a, size_t segment)
{
    return segment ? a->ends[segment - 1] : 0;
}

// Latents up to the end of the span, or of each of its chunks, of which cells project keys and values, once.
static double expansion(const struct asked *a, size_t first, size_t end, struct span span)
{
    size_t keys = span.start + span.count;
    for (size_t i = 0; a->by_chunk && i + 1 < a->chunks.count; i++)
        keys += chunk_span(a->chunks, i + 1).start;
    return (double)(end - first) * a->costs.expand * (double)(keys * a->f->batch_size);
}

// Attention's forward: scores, and what they weigh.
static double attended(const struct asked *a, size_t first, size_t end, struct span span)
{
    return attention(a->f, first, end, span, 1, 1) + expansion(a, first, end, span);
}

// F.
static double forward(const struct asked *a)
{
    size_t L = a->f->config.layers;
    return tokens(a, whole(a)) * ((double)L * a->costs.all + a->costs.head) + attended(a, 0, L, whole(a));
}

// The gradients of all activations and of what trains: attention's has five products.
static double full(const struct asked *a)
{
    const struct costs *c = &a->costs;
    size_t L = a->f->config.layers;
    return forward(a) + tokens(a, whole(a)) * ((double)L * (c->all + c->gradients) + c->head + c->head_gradient) +
           attention(a->f, 0, L, whole(a), 3, 2) + 3 * expansion(a, 0, L, whole(a));
}

// Every row is rebuilt without what only its output needs; rows of lower segments but their highest are run once
// more.
static double checkpoint(const struct asked *a)
{
    const struct costs *c = &a->costs;
    size_t L = a->f->config.layers;
    double N = tokens(a, whole(a)), flops = full(a);
    flops += N * (double)L * (c->all - c->output) + attended(a, 0, L, whole(a));
    for (size_t s = 0; s + 1 < a->segments; s++) {
        size_t rows = a->ends[s] - first_of(a, s) - 1;
        flops += N * (double)rows * c->all + attended(a, first_of(a, s), a->ends[s] - 1, whole(a));
    }
    for (size_t s = 0; a->attended && s < a->segments;
         s++) { // a lower stage's highest row has no forward right before
        size_t end = a->ends[s] - (s + 1 < a->segments);
        flops -= attended(a, first_of(a, s), end, whole(a));
    }
    return flops;
}

static double streambp(const struct asked *a)
{
    double again = a->costs.key_norms ? a->costs.k : 0;
    struct asked by_chunk = *a;
    by_chunk.by_chunk = true;
    return checkpoint(&by_chunk) + tokens(a, whole(a)) * (double)a->f->config.layers * again;
}

// Cells of layers [first, end), without keys and values where these are there.
static double cells(const struct asked *a, size_t first, size_t end, struct span chunk, bool cached)
{
    double of_cell = a->costs.all - (cached ? a->costs.k + a->costs.v : 0);
    return tokens(a, chunk) * (double)(end - first) * of_cell + attended(a, first, end, chunk);
}

// A chunk of a first pass: the top row of a segment has keys and values alone.
static double cached(const struct asked *a, size_t first, size_t end, struct span chunk)
{
    return cells(a, first, end - 1, chunk, false) + tokens(a, chunk) * (a->costs.k + a->costs.v);
}

static bool is_drawn(const struct asked *a, size_t number)
{
    bool drawn = a->drawn.count == 0;
    for (size_t j = 0; j < a->drawn.count; j++)
        drawn |= a->drawn.items[j] == number;
    return drawn;
}

// A chunk of a second pass through a segment, which rebuilds it and takes gradients; `last`: its keys and values
// are not there yet.
static double walked(const struct asked *a, size_t segment, size_t number, bool last)
{
    const struct costs *c = &a->costs;
    const struct fixture *f = a->f;
    struct span chunk = chunk_span(a->chunks, number);
    size_t first = first_of(a, segment), end = a->ends[segment];
    bool top = end == f->config.layers;
    double n = tokens(a, chunk), layers = (double)(end - first), output = c->output;
    double flops = last ? n * layers * (c->k + c->v) : 0;
    if (a->inner) {
        flops +=
            cells(a, first, top ? end : end - 1, chunk, true); // to the input of the highest row, or of the head
        flops += cells(a, first, end, chunk, true) - n * layers * output;
    } else {
        flops += cells(a, first, end, chunk, true) - (top ? 0 : n * output);
    }
    flops += c->key_norms && (!last || a->inner) ? n * layers * c->k : 0;
    flops += n * layers * (c->all + c->gradients) + (top ? n * (2 * c->head + c->head_gradient) : 0);
    flops += attention(f, first, end, chunk, 2, 1) + expansion(a, first, end, chunk);
    for (size_t i = 0; i <= number; i++)
        for (size_t l = first; l < end && (is_drawn(a, i) || i == number); l++)
            flops += products(f, l, chunk, chunk_span(a->chunks, i), 1, 1) +
                     2 * c->expand * tokens(a, chunk_span(a->chunks, i));
    return flops;
}

// seco draws every chunk.
static double chunks(const struct asked *a)
{
    size_t K = a->chunks.count, reached = 0, L = a->f->config.layers;
    double flops = 0;
    for (size_t i = 0; i < K; i++)
        reached = is_drawn(a, i) ? i + 1 : reached;
    size_t needed = a->all_losses ? K : reached;
    for (size_t s = 0; s < a->segments; s++) {
        bool top = a->ends[s] == L;
        size_t seen = top ? needed : reached;
        for (size_t i = 0; i < needed && !top; i++)
            flops += cells(a, first_of(a, s), a->ends[s], chunk_span(a->chunks, i), false);
        for (size_t i = 0; i < seen; i++) {
            struct span chunk = chunk_span(a->chunks, i);
            bool last = is_drawn(a, i) && i + 1 == seen;
            if (a->at_once >> i & 1)
                flops += walked(a, s, i, true);
            else if (top && a->all_losses && !is_drawn(a, i))
                flops += cells(a, first_of(a, s), L, chunk, false) + tokens(a, chunk) * a->costs.head;
            else if (!last)
                flops += cached(a, first_of(a, s), a->ends[s], chunk);
            flops += is_drawn(a, i) ? walked(a, s, i, last) : 0;
        }
    }
    return flops;
}

// The equation of methods/README.md for seco of one segment, that of its walk above it.
static void check_equation_of_seco(const struct asked *a)
{
    const struct costs *c = &a->costs;
    size_t L = a->f->config.layers, K = a->chunks.count;
    struct span before = {0, chunk_span(a->chunks, K - 1).start};
    double n = tokens(a, before), more = 0;
    // If layers differ, as with windows, the highest is the one without cells.
    more += n * (double)(L - 1) * (c->all - c->k - c->v) + attended(a, 0, L - 1, before);
    more += c->key_norms && !a->inner ? n * (double)L * c->k : 0;
    if (a->inner) {
        double of_cell = c->all - c->k - c->v - c->output + (c->key_norms ? c->k : 0);
        more += tokens(a, whole(a)) * (double)L * of_cell + attended(a, 0, L, whole(a));
    }
    assert_true(a->segments > 1 || c->expand > 0 || chunks(a) == full(a) + more);
}

static double seco(const struct asked *a)
{
    check_equation_of_seco(a);
    return chunks(a);
}

// The equation of methods/README.md for deferred.
static double deferred(const struct asked *a)
{
    const struct costs *c = &a->costs;
    size_t L = a->f->config.layers, K = a->chunks.count, ran = a->drawn.count;
    double more = 0;
    for (size_t i = 0; i < K; i++) {
        struct span chunk = chunk_span(a->chunks, i);
        bool later = is_drawn(a, i) && i + 1 < K;
        ran += a->at_once >> i & 1;
        more +=
            later ? tokens(a, chunk) * (double)(L - 1) * (c->all - c->k - c->v) + attended(a, 0, L - 1, chunk) : 0;
        more += later && c->key_norms && !a->inner ? tokens(a, chunk) * (double)L * c->k : 0;
        for (size_t key = 0; key < i && (is_drawn(a, i) || a->at_once >> i & 1); key++) // no gradient of these keys
            for (size_t l = 0; l < L && !is_drawn(a, key); l++)
                more -= products(a->f, l, chunk, chunk_span(a->chunks, key), 1, 1);
    }
    if (a->inner) {
        double of_cell = c->all - c->k - c->v - c->output + (c->key_norms ? c->k : 0);
        more += tokens(a, whole(a)) * (double)L * of_cell + attended(a, 0, L, whole(a));
    }
    assert_true(ran < K || c->expand > 0 || chunks(a) == full(a) + more);
    return chunks(a);
}

static double streamed(const struct asked *a)
{
    struct asked by_chunk = *a;
    by_chunk.by_chunk = true;
    return forward(&by_chunk);
}

static double nothing(const struct asked *a)
{
    (void)a;
    return 0;
}

static const struct closed_form {
    const char *method;
    double (*flops)(const struct asked *asked);
} closed_forms[] = {{"full", full},    {"checkpoint", checkpoint}, {"streambp", streambp}, {"seco", seco},
                    {"spaco", chunks}, {"deferred", deferred},     {"forward", streamed},  {"null", nothing}};

// NULL: none is stated, which tests/check_documents tells.
static const struct closed_form *closed_form_of(const struct method *method)
{
    for (size_t i = 0; i < sizeof closed_forms / sizeof *closed_forms; i++)
        if (strcmp(method->name, closed_forms[i].method) == 0)
            return &closed_forms[i];
    return NULL;
}

static const void *value_of(const struct method *method, const void *options, const char *name)
{
    const struct option *option = option_find(&method->options, name);
    return option ? (const char *)options + option->offset : NULL;
}

static bool contains(const struct index_list *chunks, size_t chunk)
{
    bool found = false;
    for (size_t i = 0; i < chunks->count; i++)
        found |= chunks->items[i] == chunk;
    return found;
}

// The options' values; segments are one layer each, or as listed.
static struct asked read_options(const struct fixture *f, const struct method *method, const void *options)
{
    const struct option_table *table = &method->options;
    struct asked asked = {.f = f, .costs = costs_of(f), .segments = 1};
    const struct index_list *rows = value_of(method, options, "segment_starts"),
                            *drawn = value_of(method, options, "drawn_chunks");
    asked.chunks = chunks_of(f->context, options_count(table, options, "chunk", f->context));
    asked.attended = options_choice(table, options, "attention", 0) == LAYER_ATTENTION_KEPT;
    asked.inner = options_choice(table, options, "inner", 0) == INNER_CHECKPOINT;
    asked.all_losses = drawn && options_choice(table, options, "loss", 0) == 0;
    if (drawn) {
        asked.drawn = *drawn;
        assert_string_equal(option_find(table, "loss")->choices[0], "all");
    }
    const struct index_list *later = value_of(method, options, "later_chunks"),
                            *skipped = value_of(method, options, "skipped_chunks");
    static uint32_t second_pass[64];
    for (size_t i = 0; later && i < asked.chunks.count; i++) {
        bool runs = !contains(skipped, i);
        assert_true(runs || i + 1 < asked.chunks.count); // the last one to run is the last
        bool last = i + 1 == asked.chunks.count;
        if (runs && (contains(later, i) || last))
            second_pass[asked.drawn.count++] = (uint32_t)i;
        else
            asked.at_once |= runs ? 1u << i : 0;
    }
    if (later)
        asked.drawn.items = second_pass;
    if (options_count(table, options, "segments", 1) > 1) {
        asked.segments = f->config.layers;
        assert_int_equal(options_count(table, options, "segments", 1), asked.segments);
    }
    if (rows && rows->count)
        asked.segments = rows->count;
    for (size_t s = 0; s < asked.segments; s++)
        asked.ends[s] = s + 1 == asked.segments ? f->config.layers : rows->count ? rows->items[s + 1] : s + 1;
    return asked;
}

static void check(const struct fixture *f, const struct method *method, const void *options)
{
    struct status status = {0};
    struct step_report report = {0};
    struct model model;
    struct trainer trainer;
    struct batch batch;
    struct device *device = device_open("plan-cpu", f->dtype, 0, &status);
    assert_non_null(device);
    struct trainer_options model_options = fixture_trainer_options(f);
    trainer_open(&trainer, &model, &f->config, &model_options, device);
    batch_open(&batch, device, NULL, NULL, f->context, f->batch_size);
    fixture_set_documents(f, device, &batch, 0);
    device->counters = (struct counters){0};
    fixture_take_step(&trainer, method, &batch, options, 0, &report);
    assert_int_equal(device->status.code, STATUS_OK);
    struct asked asked = read_options(f, method, options);
    const struct closed_form *form = closed_form_of(method);
    double found = device->counters.flops;
    // An exact gradient takes no less than full backprop, which computes nothing twice.
    double expected = form ? form->flops(&asked) : full(&asked);
    if (form ? found != expected : method->exact && found < expected) {
        fail_msg("%s: %.0f FLOPs, by its closed form %.0f (%+.0f)", method->name, found, expected,
                 found - expected);
    }
    // Model FLOPs leave out what a backward has a second time: attention's scores, and the products x A^T of LoRA.
    double twice = attention(f, 0, f->config.layers, whole(&asked), 1, 0) +
                   expansion(&asked, 0, f->config.layers, whole(&asked)) +
                   tokens(&asked, whole(&asked)) * (double)f->config.layers * asked.costs.lora_again;
    assert_true(model_forward_flops(&f->config, &f->lora, &batch) == forward(&asked));
    assert_true(model_flops(&f->config, &f->lora, &batch) == full(&asked) - twice);
    step_report_free(&report);
    batch_close(&batch, device);
    trainer_close(&trainer);
    device_close(device);
}

// Values of an option: all choices; of counts some, and lists.
static const char *value_number(const struct option *option, size_t i)
{
    static const struct {
        const char *option, *values[6];
    } others[] = {{"segments", {"1", "3"}},
                  {"segment_starts", {"0", "0,1", "0,2", "0,1,2"}},
                  {"drawn_chunks", {"3", "1,3", "0,1,2", "2", "0,1,2,3"}},
                  {"later_chunks", {"0", "2", "0,2", "0,1,2"}},
                  {"skipped_chunks", {"0", "2", "0,2"}},
                  {"chunk", {"1", "6", "7", "22", "23", "64"}},
                  {"head_chunk", {"0", "5"}},
                  {"offload", {"none"}}};
    if (option->type == OPTION_CHOICE)
        return option->choices[i];
    for (size_t o = 0; o < sizeof others / sizeof *others; o++)
        if (strcmp(others[o].option, option->name) == 0)
            return i < 6 ? others[o].values[i] : NULL;
    return NULL; // the seed, the factors and the samplers of a draw count nothing
}

// Every value of every option, under what goes with it or not: `with`, as far as a method has such options.
static void check_all(const struct fixture *f, const char *with)
{
    for (const struct method *const *m = methods; *m; m++) {
        const struct option_table *table = &(*m)->options;
        for (const struct option *option = table->rows; option && option->name; option++) {
            for (size_t i = 0; value_number(option, i); i++) {
                struct status status = {0};
                void *options = fixture_options(
                    *m, "chunk=6 sampler=fixed drawn_chunks=1,3 draw=fixed later_chunks=1 %s", with);
                bool sampler = strcmp(option->name, "sampler") == 0 || strcmp(option->name, "behaviour") == 0;
                if (strcmp(option->name, "chunk") == 0 && option_find(table, "drawn_chunks"))
                    assert_true(options_set(table, options, "drawn_chunks", "0"));
                struct index_list *later = (struct index_list *)value_of(*m, options, "later_chunks");
                if (strcmp(option->name, "chunk") == 0 && later)
                    later->count = i % 2; // none of a single chunk
                if (strcmp(option->name, "skipped_chunks") == 0)
                    assert_true(options_set(table, options, "backward_share", "0.75"));
                if (!sampler)
                    assert_true(options_set(table, options, option->name, value_number(option, i)));
                if (!sampler && (!(*m)->check || (*m)->check(options, &f->config, f->context, &status)))
                    check(f, *m, options);
                options_free(table, options);
            }
        }
    }
}

static const char *const together[] = {
    "",         "segment_starts=0,1",          "inner=checkpoint", "inner=checkpoint segment_starts=0,2",
    "loss=all", "loss=all segment_starts=0,1", "attention=kept",   "attention=kept segment_starts=0,2"};

static void check_together(const struct fixture *f)
{
    for (size_t i = 0; i < sizeof together / sizeof *together; i++)
        check_all(f, together[i]);
}

static void test_full_training(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    check_together(&f);
    f.config.tied = f.config.qkv_bias = true;
    f.batch_size = 3;
    check_all(&f, "");
}

static void test_families(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.config.qk_norm = true;
    check_together(&f);
    f = fixture_default();
    for (size_t i = 0; fixture_choose_family(&f, i); i++) {
        // Closed forms are of layers that cost the same: of heads by layer those without a window.
        const struct layer_kind *first = config_kind(&f.config, 0), *second = config_kind(&f.config, 1);
        if (first->head_dim != second->head_dim && first->mixer == second->mixer)
            memset(f.config.kind_of, 1, sizeof f.config.kind_of);
        if (first->mixer == second->mixer)
            check_together(&f);
        f = fixture_default();
    }
}

static void test_lora(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    for (size_t i = 0; i < LORA_PROJECTIONS; i++) {
        f.lora = (struct lora){.rank = 2 + i, .alpha = 4, .targets = 1u << i};
        check_all(&f, "");
    }
    f.lora.targets = LORA_Q | LORA_V | LORA_DOWN;
    f.config.qk_norm = true;
    check_together(&f);
}

static void test_windows_and_documents(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    fixture_set_windows(&f.config, 4, 2);
    check_together(&f);
    f.document = 9;
    check_together(&f);
    f.config.kinds[0].window = 0;
    check_all(&f, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_training),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_lora),
        cmocka_unit_test(test_windows_and_documents),
    };
    return cmocka_run_group_tests_name("flops", tests, NULL, NULL);
}
