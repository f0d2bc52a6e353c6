#include "kernels/cuda/workspace.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BF16 2.0 // bytes
#define F32  4.0

_Static_assert((CUDA_ATTENTION_KEYS / CUDA_ATTENTION_TILE & (CUDA_ATTENTION_KEYS / CUDA_ATTENTION_TILE - 1)) == 0 &&
                   CUDA_ATTENTION_QUERIES <= CUDA_ATTENTION_QUERIES_MAX &&
                   CUDA_ATTENTION_QUERIES_MAX + CUDA_ATTENTION_TILE <= CUDA_ATTENTION_KEYS,
               "rectangles are a power of two of tiles, and a causal block is no larger than one");

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}
static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

// cuDNN's tiles extend beyond the last row.
static size_t whole_tiles(size_t rows)
{
    return (rows + CUDA_ATTENTION_TILE - 1) / CUDA_ATTENTION_TILE * CUDA_ATTENTION_TILE;
}

// ---- blocks

static size_t block_keys(const struct cuda_attention_block *b)
{
    return b->deterministic ? CUDA_ATTENTION_QUERIES : CUDA_ATTENTION_KEYS;
}

// Number of a rectangle's keys. If `whole`, `left` rounded down to whole tiles; otherwise a block's maximum halved
// until it is at most `left`, which is at least a tile.
static size_t rectangle_keys(size_t left, bool whole, const struct cuda_attention_block *b)
{
    size_t keys = whole ? left / CUDA_ATTENTION_TILE * CUDA_ATTENTION_TILE : block_keys(b);
    while (keys > left)
        keys /= 2;
    return keys;
}

// Maximum queries of a windowed block: at most half a window, so that all its keys together are at most a quarter
// more than each query sees, however an engine treats the left bound; and few enough that dS, if an engine keeps
// it, is no larger than a rectangle's.
static size_t window_queries(size_t window, bool deterministic)
{
    size_t queries = CUDA_ATTENTION_QUERIES;
    const size_t max = queries * queries;
    while (queries > CUDA_ATTENTION_TILE &&
           (2 * queries > window || (deterministic && queries * (window + queries) > max)))
        queries /= 2;
    return queries;
}

// CUDA_ATTENTION_WHOLE runs at once only without a mask, without dS, and if no tensor has 2^31 elements.
static size_t max_queries(struct attention_shape s, size_t max, bool deterministic)
{
    size_t longest = larger(s.queries, attention_keys(s));
    bool at_once =
        !deterministic && !attention_is_masked(s) && s.batch * longest * s.heads * s.head_dim <= CUDA_ELEMENTS_MAX;
    return deterministic || (max == CUDA_ATTENTION_WHOLE && !at_once) ? smaller(max, CUDA_ATTENTION_QUERIES) : max;
}

// The first key of a query's document.
static size_t document_of(const struct attention_shape *s, size_t query, size_t sequence)
{
    const int32_t *starts = s->mask.documents.starts;
    return starts ? (size_t)starts[query * s->batch + sequence] : 0;
}

// End of the document of a query.
static size_t document_end(const struct attention_shape *s, size_t query, size_t sequence)
{
    size_t document = document_of(s, query, sequence), end = query + 1;
    if (!s->mask.documents.starts)
        return s->queries;
    while (end < s->queries && document_of(s, end, sequence) == document)
        end++;
    return end;
}

// Length of the prefix that a query's document continues.
static size_t prefix_of(const struct attention_shape *s, size_t query, size_t sequence)
{
    const int32_t *prefixes = s->mask.documents.prefixes;
    return prefixes && document_of(s, query, sequence) > 0 ? (size_t)prefixes[sequence] : 0;
}

// Sets the rows for n queries from b->query on, or fewer, in whole tiles: with the following queries, without the
// remainder, or with preceding queries if there are enough. Returns false for the remainder alone, which fills no
// tile.
static bool set_rows(struct attention_shape s, size_t n, size_t before, struct cuda_attention_block *b)
{
    size_t rows = whole_tiles(n);
    b->queries = n, b->row = b->query, b->rows = rows;
    if (b->query + rows <= s.queries)
        return true;
    if (n > CUDA_ATTENTION_TILE) {
        b->queries = b->rows = rows - CUDA_ATTENTION_TILE;
        return true;
    }
    bool padded = before >= rows - n;
    b->row -= padded ? rows - n : 0;
    b->rows = padded ? rows : n;
    return padded;
}

static bool is_windowed(const struct attention_shape *s, const struct cuda_attention_block *b)
{
    size_t seen = s->start + b->query + 1 - document_of(s, b->query, b->sequence);
    return s->mask.window > 0 && seen > s->mask.window;
}

static size_t rest_of_prefix(const struct attention_shape *s, const struct cuda_attention_block *b)
{
    return prefix_of(s, b->query, b->sequence) % CUDA_ATTENTION_TILE;
}

// Selects the next keys of a document's queries, from b->key on.
static void next_own_keys(struct attention_shape s, bool whole, struct cuda_attention_block *b)
{
    size_t end = s.start + b->query + b->queries, before = s.start + b->row - b->key;
    b->last = rest_of_prefix(&s, b) == 0;
    if (b->rows % CUDA_ATTENTION_TILE) {
        b->kind = ATTENTION_UNTILED;
        b->keys = b->taken_keys = end - b->key;
    } else if (is_windowed(&s, b) || whole || before < CUDA_ATTENTION_TILE) {
        b->kind = is_windowed(&s, b) ? ATTENTION_WINDOW : ATTENTION_CAUSAL;
        b->keys = before + b->rows;
        b->taken_keys = end - b->key;
    } else {
        b->kind = ATTENTION_RECTANGLE;
        b->keys = b->taken_keys = rectangle_keys(before, false, b);
        b->last = false;
    }
}

// Selects the next keys, from b->key on, of `keys` that all queries see; own kernels take the remainder of a tile.
static void next_seen_keys(size_t keys, bool whole, struct cuda_attention_block *b)
{
    size_t left = keys - b->key;
    b->kind = left < CUDA_ATTENTION_TILE ? ATTENTION_UNTILED : ATTENTION_RECTANGLE;
    b->keys = b->taken_keys = left < CUDA_ATTENTION_TILE ? left : rectangle_keys(left, whole, b);
    b->last = b->keys == left;
}

// Selects queries from b->query on, of one document, all of which or none of which a window affects.
static void begin_queries(struct attention_shape s, size_t max, struct cuda_attention_block *b)
{
    size_t document = document_of(&s, b->query, b->sequence), at = s.start + b->query - document;
    size_t n = smaller(max, document_end(&s, b->query, b->sequence) - b->query);
    bool causal = attention_is_causal(s), whole = max == CUDA_ATTENTION_WHOLE, windowed = is_windowed(&s, b);
    n = b->base_end > b->query ? smaller(n, b->base_end - b->query) : n;
    if (windowed)
        n = smaller(n, window_queries(s.mask.window, b->deterministic));
    else if (s.mask.window > 0)
        n = smaller(n, s.mask.window - at);
    if (s.mask.documents.starts && !windowed && at % CUDA_ATTENTION_TILE) // continue in whole tiles
        n = smaller(n, CUDA_ATTENTION_TILE - at % CUDA_ATTENTION_TILE);
    set_rows(s, n, causal ? smaller(b->query, at) : b->query, b);
    size_t first = s.start + b->row, window = s.mask.window;
    b->key = windowed && b->rows % CUDA_ATTENTION_TILE == 0 && first + 1 > document + window ? first + 1 - window
                                                                                             : document;
    if (causal)
        next_own_keys(s, whole, b);
    else
        next_seen_keys(attention_keys(s), whole, b);
}

static void begin_block(struct attention_shape s, size_t max, struct cuda_attention_block *b)
{
    size_t prefix = prefix_of(&s, b->query, b->sequence);
    b->summed = b->query < b->base_end;
    if (!b->summed) {
        b->base = b->base_end = b->query;
        b->prefix = prefix >= CUDA_ATTENTION_TILE;
    }
    if (b->prefix) {
        set_rows(s, smaller(max, s.queries - b->query), b->query, b);
        b->base_end = b->query + b->queries;
        b->key = 0;
        next_seen_keys(prefix - prefix % CUDA_ATTENTION_TILE, false, b);
        b->last = false;
    } else {
        begin_queries(s, max, b);
    }
}

// Continues with the same queries or, after a prefix's keys, with the first document among them.
static void continue_block(struct attention_shape s, size_t max, struct cuda_attention_block *b)
{
    size_t prefix = prefix_of(&s, b->query, b->sequence), rest = prefix % CUDA_ATTENTION_TILE;
    b->summed |= b->kind == ATTENTION_RECTANGLE;
    b->key += b->keys;
    if (b->prefix && b->key < prefix - rest) {
        next_seen_keys(prefix - rest, false, b);
        b->last = false;
    } else if (b->prefix) {
        b->prefix = false;
        begin_queries(s, max, b);
    } else if (!attention_is_causal(s)) {
        next_seen_keys(attention_keys(s), max == CUDA_ATTENTION_WHOLE, b);
    } else if (b->kind == ATTENTION_RECTANGLE) {
        next_own_keys(s, max == CUDA_ATTENTION_WHOLE, b);
    } else {
        b->key = prefix - rest;
        next_seen_keys(prefix, false, b);
    }
}

bool cuda_attention_next_block(struct attention_shape s, size_t max, struct cuda_attention_block *b)
{
    const struct cuda_attention_block before = *b;
    bool documents = s.mask.documents.starts;
    max = max_queries(s, max, b->deterministic);
    if (before.queries > 0 && !before.last) {
        continue_block(s, max, b);
    } else {
        b->sequences = documents ? 1 : s.batch;
        b->query += b->queries;
        if (b->query == s.queries) {
            b->query = b->base = b->base_end = 0;
            if (!documents || ++b->sequence == s.batch)
                return false;
        }
        begin_block(s, max, b);
    }
    b->first = !b->summed && (before.queries == 0 || before.last);
    b->prepared = before.queries > 0 && before.kind != ATTENTION_UNTILED && before.sequence == b->sequence &&
                  before.row == b->row && before.rows == b->rows && before.query == b->query &&
                  before.queries == b->queries &&
                  cuda_attention_is_folded(s, &before) == cuda_attention_is_folded(s, b);
    return true;
}

struct attention_shape cuda_attention_block_shape(struct attention_shape s, const struct cuda_attention_block *b)
{
    size_t group = b->kind == ATTENTION_RECTANGLE ? s.heads / s.kv_heads : 1;
    bool own = b->kind == ATTENTION_UNTILED;
    s.heads /= group;
    s.queries = (own ? b->queries : b->rows) * group;
    s.start = s.start + (own ? b->query : b->row) - b->key;
    s.keys = b->keys;
    s.batch = b->sequences;
    s.mask = (struct attention_mask){.window = own && attention_is_causal(s) ? s.mask.window : 0};
    return s;
}

bool cuda_attention_is_folded(struct attention_shape s, const struct cuda_attention_block *b)
{
    return b->kind == ATTENTION_RECTANGLE && (s.heads > s.kv_heads || b->sequences < s.batch);
}

bool cuda_attention_has_every_head(struct attention_shape s, const struct cuda_attention_block *b)
{
    return s.heads > s.kv_heads && !b->unfused && (b->kind == ATTENTION_CAUSAL || b->kind == ATTENTION_WINDOW);
}

size_t cuda_attention_left_bound(struct attention_shape s, const struct cuda_attention_block *b)
{
    return b->key + s.mask.window - (s.start + b->row);
}

double cuda_attention_block_pairs(const struct cuda_attention_block *b)
{
    double rows = (double)(b->kind == ATTENTION_UNTILED ? b->queries : b->rows), keys = (double)b->keys;
    bool triangle = b->kind == ATTENTION_CAUSAL || b->kind == ATTENTION_WINDOW;
    return (double)b->sequences * (rows * keys - (triangle ? rows * (rows - 1) / 2 : 0));
}

struct cuda_key_rows cuda_attention_rows_within(const struct key_segment *segment,
                                                const struct cuda_attention_block *b)
{
    size_t first = larger(segment->start, b->key);
    size_t end = smaller(segment->start + segment->count, b->key + b->taken_keys);
    return (struct cuda_key_rows){first, first < end ? end - first : 0};
}

size_t cuda_attention_block_queries(const struct device *device)
{
    size_t max = device->attention_queries ? smaller(device->attention_queries, CUDA_ATTENTION_QUERIES_MAX)
                                           : CUDA_ATTENTION_QUERIES;
    return device->whole_attention ? CUDA_ATTENTION_WHOLE
                                   : larger(max / CUDA_ATTENTION_TILE, 1) * CUDA_ATTENTION_TILE;
}

struct cuda_attention_block cuda_attention_blocks(const struct device *device)
{
    return (struct cuda_attention_block){.deterministic = device->deterministic, .unfused = device->unfused};
}

size_t cuda_attention_forward_queries(struct attention_shape s)
{
    size_t sequences = s.mask.documents.starts ? 1 : s.batch, queries = CUDA_ATTENTION_QUERIES;
    size_t token = sequences * s.heads * (s.head_dim * 2 + sizeof(float));
    while (queries > 0 && queries * token > CUDA_WORKSPACE_BYTES - CUDA_ATTENTION_FORWARD_BYTES - ARENA_ALIGNMENT)
        queries = queries > CUDA_ATTENTION_TILE ? queries / 2 : 0;
    return queries;
}

bool cuda_attention_is_merged(const struct cuda_attention_block *b)
{
    return !b->first || b->parts > 1 || (b->row < b->query && b->kind != ATTENTION_UNTILED);
}

// ---- the forward's ranges

#define PARTS_MAX 16

// The share of multiprocessors filled by query tiles, one per head and sequence. In parts a partial last wave
// counts as a whole one.
static double filled(const struct device *device, struct attention_shape s, size_t parts)
{
    double all = (double)device->multiprocessors;
    double tiles = (double)(s.queries * s.heads * s.batch * parts) / CUDA_ATTENTION_TILE;
    if (all == 0 || (parts <= 1 && tiles >= all))
        return 1;
    return parts > 1 ? tiles / (ceil(tiles / all) * all) : tiles / all;
}

// The fewest parts with the best fill for which the repeated queries, O and the logsumexp fit.
static size_t parts_of(const struct device *device, struct attention_shape s)
{
    size_t row = s.heads * (2 * s.head_dim * 2 + sizeof(float)), parts = 1;
    size_t room = CUDA_WORKSPACE_BYTES - CUDA_ATTENTION_FORWARD_BYTES - 2 * ARENA_ALIGNMENT;
    s.queries = whole_tiles(s.queries);
    for (size_t n = 2; n <= PARTS_MAX && n * s.queries * s.batch * row <= room; n *= 2)
        parts = filled(device, s, n) > 1.05 * filled(device, s, parts) ? n : parts;
    return parts;
}

// Queries per block, the shortest range of keys (a power of two), and the maximum number of its parts. shortest 0:
// all queries against all keys at once.
struct key_ranges {
    size_t queries, shortest, parts;
};

// Starts are multiples of a chunk's queries, so their remainders by the shortest range take few values.
static struct key_ranges ranges_of(const struct device *device, struct attention_shape s)
{
    size_t queries = smaller(s.queries, cuda_attention_forward_queries(s)), keys = attention_keys(s);
    size_t parts_from = 32 * CUDA_ATTENTION_TILE, cut_from = larger(64 * s.queries, 2 * parts_from); // keys
    struct key_ranges whole = {.queries = s.queries, .parts = 1};
    if (device->whole_keys || queries == 0 || keys < parts_from)
        return whole;
    size_t parts = queries == s.queries ? parts_of(device, s) : 1;
    return parts == 1 && keys < cut_from
               ? whole
               : (struct key_ranges){queries, larger(8 * (queries & -queries), CUDA_ATTENTION_TILE), parts};
}

// Selects the range of keys that ends at b->key, shortest first, so that each rounding of O weighs no more than its
// keys.
static void next_range(const struct key_ranges *ranges, struct cuda_attention_block *b)
{
    size_t before = b->parts;
    b->kind = ATTENTION_RECTANGLE;
    b->keys = b->key & -b->key;
    b->key -= b->keys;
    b->parts = larger(smaller(ranges->parts, b->keys / (2 * CUDA_ATTENTION_TILE)), 1);
    b->prepared = b->parts == before;
}

bool cuda_attention_next_forward(const struct device *device, struct attention_shape s,
                                 struct cuda_attention_block *b)
{
    if (attention_is_masked(s))
        return cuda_attention_next_block(s, cuda_attention_forward_queries(s), b);
    const struct key_ranges ranges = ranges_of(device, s);
    bool causal = attention_is_causal(s), again = b->queries > 0 && !b->last;
    if (!again && b->query + b->queries == s.queries)
        return false;
    if (!again) {
        size_t query = b->query + b->queries, queries = smaller(ranges.queries, s.queries - query);
        size_t seen = causal ? s.start + query : attention_keys(s);
        size_t rest = ranges.shortest ? seen % ranges.shortest : seen;
        *b = (struct cuda_attention_block){.sequences = s.batch,
                                           .query = query,
                                           .queries = queries,
                                           .row = query,
                                           .rows = queries,
                                           .key = seen - rest,
                                           .keys = rest + (causal ? queries : 0),
                                           .kind = causal ? ATTENTION_CAUSAL : ATTENTION_RECTANGLE};
    }
    b->first = !again;
    if (again || b->keys == 0)
        next_range(&ranges, b);
    b->taken_keys = b->keys;
    b->last = b->key == 0;
    return true;
}

// Blocks of equal cost, of which attention over a long context has millions: consecutive rectangles of maximum
// length, neither the first nor the last of their queries; and the same again for further blocks of queries that
// see the same keys.
struct equal_blocks {
    struct cuda_attention_block first;
    size_t of_keys, of_queries;
};

static bool next_equal_blocks(struct attention_shape s, size_t max, struct equal_blocks *blocks)
{
    struct cuda_attention_block *b = &blocks->first;
    bool causal = attention_is_causal(s), masked = attention_is_masked(s);
    size_t further = b->last ? (blocks->of_queries - 1) * b->queries : 0;
    b->keys *= blocks->of_keys;
    b->query += further, b->row += further;
    if (!cuda_attention_next_block(s, max, b))
        return false;
    if (b->first) { // excludes blocks that may be shorter
        bool again = !causal && !masked && b->queries < s.queries - b->query &&
                     b->queries == max_queries(s, max, b->deterministic);
        blocks->of_queries = again ? larger((s.queries - b->query - 2) / b->queries, 1) : 1;
    }
    bool alike = !masked && b->kind == ATTENTION_RECTANGLE && !b->first && !b->last && b->keys == block_keys(b);
    size_t before = (causal ? s.start + b->row : attention_keys(s)) - b->key;
    blocks->of_keys = alike ? larger((before - 1) / block_keys(b), 1) : 1; // excludes a possible last one
    return true;
}

// ---- workspace

// Heads of a block's dK and dV.
static size_t gradient_heads(struct attention_shape s, const struct cuda_attention_block *b)
{
    return cuda_attention_has_every_head(s, b) ? s.heads : s.kv_heads;
}

size_t cuda_attention_engine_bytes(struct attention_shape shape, const struct cuda_attention_block *b)
{
    struct attention_shape s = cuda_attention_block_shape(shape, b);
    size_t row = s.batch * s.heads * s.head_dim * sizeof(float);
    size_t kept = b->deterministic ? s.batch * s.heads * whole_tiles(s.queries) * whole_tiles(b->keys) * 2
                                   : row * whole_tiles(s.queries);
    bool sums = s.heads > s.kv_heads && !cuda_attention_has_every_head(shape, b);
    return kept + (sums ? row * whole_tiles(b->keys) : 0) + 4096;
}

static size_t take(size_t *end, size_t bytes)
{
    size_t offset = *end;
    *end += arena_rounded(bytes);
    return offset;
}

static struct cuda_attention_part take_part(size_t *end, size_t key_elements, size_t engine_bytes)
{
    return (struct cuda_attention_part){.grad_k = take(end, key_elements * 2),
                                        .grad_v = take(end, key_elements * 2),
                                        .engine = take(end, engine_bytes),
                                        .engine_bytes = engine_bytes};
}

struct cuda_attention_workspace cuda_attention_layout(const struct device *device, struct attention_shape s)
{
    size_t max = cuda_attention_block_queries(device);
    size_t rows = 0, strided = 0, summed = 0, folded = 0; // rows
    size_t key_elements[ATTENTION_UNTILED + 1] = {0}, engine_bytes[ATTENTION_UNTILED + 1] = {0};
    for (struct equal_blocks blocks = {.first = cuda_attention_blocks(device)};
         next_equal_blocks(s, max, &blocks);) {
        const struct cuda_attention_block *b = &blocks.first;
        bool rectangle = b->kind == ATTENTION_RECTANGLE;
        rows = larger(rows, b->rows * b->sequences);
        strided = larger(strided, b->rows * (rectangle ? b->sequences : s.batch));
        folded = larger(folded, cuda_attention_is_folded(s, b) ? b->rows * b->sequences : 0);
        summed = larger(summed, rectangle ? (b->query + b->queries - b->base) * b->sequences : 0);
        key_elements[b->kind] =
            larger(key_elements[b->kind], b->keys * b->sequences * gradient_heads(s, b) * s.head_dim);
        engine_bytes[b->kind] = larger(engine_bytes[b->kind], cuda_attention_engine_bytes(s, b));
    }
    struct cuda_attention_workspace w = {0};
    size_t q = s.heads * s.head_dim; // per row
    folded *= q * 2;
    w.grad_q_sum = take(&w.bytes, summed * q * sizeof(float));
    w.grad_q = take(&w.bytes, strided * q * 2);
    w.logsumexp = take(&w.bytes, rows * s.heads * sizeof(float));
    w.delta = take(&w.bytes, rows * s.heads * sizeof(float));
    w.accumulator = take(&w.bytes, device->deterministic ? 0 : rows * q * sizeof(float));
    size_t masked_end = w.bytes;
    w.masked = take_part(&masked_end, larger(key_elements[ATTENTION_CAUSAL], key_elements[ATTENTION_WINDOW]),
                         larger(engine_bytes[ATTENTION_CAUSAL], engine_bytes[ATTENTION_WINDOW]));
    w.q = take(&w.bytes, folded);
    w.o = take(&w.bytes, folded);
    w.grad_o = take(&w.bytes, folded);
    w.rectangle = take_part(&w.bytes, key_elements[ATTENTION_RECTANGLE], engine_bytes[ATTENTION_RECTANGLE]);
    w.bytes = larger(w.bytes, masked_end);
    return w;
}

// ---- glue

// Bytes to add a block's dK and dV to the segments: their rows read and written, and the block's read. Own kernels
// add directly.
static double segment_bytes(struct attention_shape s, const struct key_segment *segments, size_t segment_count,
                            const struct cuda_attention_block *b)
{
    double bytes = 0, own = BF16 * (double)gradient_heads(s, b);
    for (size_t i = 0; i < segment_count && b->kind != ATTENTION_UNTILED; i++) {
        double rows = (double)cuda_attention_rows_within(&segments[i], b).count;
        bytes += 2 * (own + 2.0 * (double)(dtype_bytes(segments[i].grad_k.dtype) * s.kv_heads)) * rows;
    }
    return bytes * (double)(b->sequences * s.head_dim);
}

// Bytes of a block: its graph's results and the engines' intermediates, written and read once each, and the passes
// around it.
static double block_bytes(struct attention_shape s, const struct cuda_attention_block *b)
{
    double token = (double)(b->sequences * s.heads), dim = (double)s.head_dim;
    double rows = (double)b->rows * token, queries = (double)b->queries * token; // those run, those taken; of heads
    double k = (double)(b->keys * b->sequences * gradient_heads(s, b)) * dim;
    double every_head = (double)(b->keys * b->sequences * s.heads) * dim;
    bool rectangle = b->kind == ATTENTION_RECTANGLE;
    bool sums = !rectangle && s.heads > s.kv_heads && !cuda_attention_has_every_head(s, b);
    double bytes = BF16 * (b->kind == ATTENTION_UNTILED ? queries : rows) * dim; // dQ
    if (b->kind != ATTENTION_UNTILED) {
        bytes += 2 * BF16 * k + 2 * F32 * rows; // dK and dV; delta
        bytes +=
            b->deterministic ? 2 * BF16 * rows * (double)b->keys : 2 * F32 * rows * dim; // dS, or the accumulator
        bytes += sums ? 2 * 2 * BF16 * every_head : 0;      // dK and dV of every query head
        bytes += !b->prepared ? F32 * (queries + rows) : 0; // logsumexp
    }
    if (rectangle) {
        bytes += cuda_attention_is_folded(s, b) && !b->prepared ? 3 * 2 * BF16 * rows * dim
                                                                : 0; // q, o and grad_o are folded
        bytes += (BF16 + (b->first ? 1 : 2) * F32) * queries * dim;  // grad_q_sum
    }
    if (b->last) // the rows of grad_q
        bytes += (BF16 + (rectangle ? 0 : BF16) + (b->summed || rectangle ? F32 : 0)) * queries * dim;
    return bytes;
}

// ---- rules of the device

// The longest heads that cuDNN's engines support: in the forward on every card, in the backward on sm_90 and on
// others.
#define HEAD_DIM          256
#define BACKWARD_HEAD_DIM 128

// Tells whether a window hides keys of a prefix.
static bool window_cuts_prefix(struct attention_shape s)
{
    for (size_t row = 0; s.mask.window > 0 && s.mask.documents.prefixes && row < s.queries * s.batch; row++) {
        size_t query = row / s.batch, sequence = row % s.batch, document = document_of(&s, query, sequence);
        if (s.start + query + 1 - document + prefix_of(&s, query, sequence) > s.mask.window && document > 0)
            return true;
    }
    return false;
}

bool cuda_masks_by_own_kernels(const struct device *device)
{
    const char *masked = getenv("LONGBP_MASKED_ATTENTION");
    return device->own_masked_attention || (masked && strcmp(masked, "own") == 0);
}

// Tensor cores support masks of causal attention; see cuda_attention_forward_by_cudnn.
static bool mask_by_cudnn(const struct device *device, struct attention_shape s)
{
    size_t window = s.mask.window < s.start + s.queries ? s.mask.window : 0;
    return attention_is_causal(s) && s.queries >= CUDA_ATTENTION_TILE &&
           window + window_queries(window, false) <= 2 * CUDA_ATTENTION_KEYS &&
           cuda_attention_forward_queries(s) > 0 && !window_cuts_prefix(s) && !cuda_masks_by_own_kernels(device);
}

bool cuda_attention_forward_by_cudnn(const struct device *device, struct attention_shape shape)
{
    return device->ops->dtype == DTYPE_BF16 && shape.head_dim % 8 == 0 && shape.head_dim <= HEAD_DIM &&
           attention_value_dim(shape) == shape.head_dim && shape.queries > 1 && !device->reverse_sums &&
           (!attention_is_masked(shape) || mask_by_cudnn(device, shape));
}

bool cuda_attention_backward_by_cudnn(const struct device *device, struct attention_shape shape)
{
    size_t longest = device->compute_capability / 10 == 9 ? HEAD_DIM : BACKWARD_HEAD_DIM;
    bool ordered = device->compute_capability / 10 == 9 && !device->no_deterministic_attention;
    bool tile = shape.queries >= CUDA_ATTENTION_TILE && attention_keys(shape) >= CUDA_ATTENTION_TILE;
    return cuda_attention_forward_by_cudnn(device, shape) && shape.head_dim <= longest && tile &&
           (ordered || !device->deterministic);
}

// The share of pairs that own kernels compute besides cuDNN's blocks.
static double own_share(struct attention_shape shape, size_t max)
{
    double own = 0, all = 0;
    for (struct cuda_attention_block b = {0}; cuda_attention_next_block(shape, max, &b);) {
        double pairs = cuda_attention_block_pairs(&b);
        all += pairs;
        own += b.kind == ATTENTION_UNTILED ? pairs : 0;
    }
    return own / all;
}

static double attention_f32_share(const struct device *device, struct attention_shape shape, bool backward)
{
    size_t keys = attention_keys(shape);
    bool by_cudnn =
        backward ? cuda_attention_backward_by_cudnn(device, shape) : cuda_attention_forward_by_cudnn(device, shape);
    if (device->ops->dtype != DTYPE_BF16)
        return 0;
    if (by_cudnn && attention_is_masked(shape)) {
        return own_share(shape,
                         backward ? cuda_attention_block_queries(device) : cuda_attention_forward_queries(shape));
    }
    bool rest = backward && !attention_is_causal(shape);
    return !by_cudnn ? 1 : rest ? (double)(keys % CUDA_ATTENTION_TILE) / (double)keys : 0;
}

static struct attention_run attention_forward_run(const struct device *device, struct attention_shape s)
{
    struct attention_run run = {.fill = filled(device, s, 1)};
    double pairs = 0, all = 0; // all: divided by the fill meanwhile
    if (!cuda_attention_forward_by_cudnn(device, s) || attention_is_masked(s))
        return run;
    for (struct cuda_attention_block b = {0}; cuda_attention_next_forward(device, s, &b);) {
        struct attention_shape part = cuda_attention_block_shape(s, &b);
        size_t parts = larger(b.parts, 1), kernels = 1;
        double rows = (double)(b.queries * s.batch), q = BF16 * (double)(s.heads * s.head_dim);
        double o = q + F32 * (double)s.heads; // and the logsumexp
        if (b.parts > 1 && !b.prepared) {
            run.glue_bytes += (double)(1 + parts) * rows * q;
            kernels++;
        }
        if (cuda_attention_is_merged(&b)) {
            run.glue_bytes += (double)(2 * parts + (b.first ? 0 : 2)) * rows * o; // a result is written once
            kernels++;
        }
        run.further_launches += (double)kernels;
        pairs += cuda_attention_block_pairs(&b);
        all += cuda_attention_block_pairs(&b) / filled(device, part, parts);
    }
    run.fill = pairs / all;
    run.further_launches--;
    return run;
}

static size_t attention_backward_workspace(const struct device *device, struct attention_shape shape,
                                           const struct key_segment *segments, size_t segment_count)
{
    (void)segments, (void)segment_count;
    return cuda_attention_backward_by_cudnn(device, shape) ? cuda_attention_layout(device, shape).bytes : 0;
}

static double attention_backward_glue(const struct device *device, struct attention_shape shape,
                                      const struct key_segment *segments, size_t segment_count)
{
    double bytes = 0;
    if (!cuda_attention_backward_by_cudnn(device, shape))
        return 0;
    size_t max = cuda_attention_block_queries(device);
    for (struct equal_blocks blocks = {.first = cuda_attention_blocks(device)};
         next_equal_blocks(shape, max, &blocks);) {
        struct cuda_attention_block all = blocks.first; // their keys together
        all.taken_keys *= blocks.of_keys;
        bytes += (double)blocks.of_queries * ((double)blocks.of_keys * block_bytes(shape, &blocks.first) +
                                              segment_bytes(shape, segments, segment_count, &all));
    }
    return bytes;
}

// cuBLASLt's tile for large bf16 products.
#define GEMM_TILE_ROWS 128
#define GEMM_TILE_COLS 256

// The idle share of the waves of a product of `rows` rows.
static double idle(size_t multiprocessors, size_t rows, size_t cols)
{
    size_t tiles = rows / GEMM_TILE_ROWS * ((cols + GEMM_TILE_COLS - 1) / GEMM_TILE_COLS);
    size_t waves = (tiles + multiprocessors - 1) / multiprocessors;
    return 1 - (double)tiles / (double)(waves * multiprocessors);
}

// 1,024, or 2,048 if 1,024 leaves more than a tenth of the multiprocessors idle in the last wave of tiles and 2,048
// leaves fewer. A device with 0 multiprocessors is no particular card.
static size_t block_rows(const struct device *device, size_t cols)
{
    const size_t rows = 1024, multiprocessors = device->multiprocessors;
    bool longer = multiprocessors > 0 && idle(multiprocessors, rows, cols) > 0.1 &&
                  idle(multiprocessors, 2 * rows, cols) < idle(multiprocessors, rows, cols);
    return longer ? 2 * rows : rows;
}

// bf16 multiplies on tensor cores unless the variable says simt.
static bool takes_tensor_cores(const struct device *device, const char *variable)
{
    const char *units = getenv(variable);
    return device->ops->dtype == DTYPE_BF16 && !(units && strcmp(units, "simt") == 0);
}
bool cuda_delta_takes_tensor_cores(const struct device *device)
{
    return takes_tensor_cores(device, "LONGBP_DELTA");
}
bool cuda_grouped_takes_tensor_cores(const struct device *device)
{
    return takes_tensor_cores(device, "LONGBP_GROUPED");
}

// The delta rule's: as kernels/cuda/kernels/delta_tile.cuh lays it out.
static size_t delta_backward_workspace(const struct device *device, struct delta_shape shape)
{
    size_t heads = shape.run.batch * shape.heads, tokens = shape.run.tokens;
    size_t states = heads * (2 * delta_states(&shape) + 1) * shape.key_dim * shape.value_dim;
    size_t keys = 2 * shape.run.batch * tokens * shape.key_heads * shape.key_dim;
    return (states + 2 * heads * tokens * shape.value_dim + keys) *
           dtype_bytes(dtype_statistic(device->ops->dtype));
}

// bf16 only, for which there are tensor cores, if a gradient's partial sums fit.
static bool takes_low_rank(const struct device *device, size_t cols, size_t rank)
{
    return device->ops->dtype == DTYPE_BF16 && !device->unfused && !device->reverse_sums && cols > 0 && rank > 0 &&
           rank <= CUDA_LOW_RANK_MAX && cols * rank * sizeof(float) <= CUDA_WORKSPACE_BYTES / 2;
}

const struct device_rules cuda_rules = {.workspace_bytes = CUDA_WORKSPACE_BYTES,
                                        .elements_max = CUDA_ELEMENTS_MAX,
                                        .head_max = CUDA_HEAD_MAX,
                                        .attention_forward_run = attention_forward_run,
                                        .attention_backward_workspace = attention_backward_workspace,
                                        .attention_backward_glue = attention_backward_glue,
                                        .attention_f32_share = attention_f32_share,
                                        .delta_backward_workspace = delta_backward_workspace,
                                        .block_rows = block_rows,
                                        .expert_rows = 16384,
                                        .takes_low_rank = takes_low_rank};
