// Attention's own CUDA kernels, run on the CPU by tests/simt, in f64, f32 and bf16, against the CPU device in f64
// on the same rounded inputs, on cards with more and less shared memory. Outputs are poisoned first; key gradients
// start from known values, since they are +=; rows of the cache that no query sees are NaN.
// Growth: a score is a sum over head_dim, a row of P one over keys, a gradient of the scores a difference of two.
#include "tests/simt/array.h"
#include <memory>

namespace
{

const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
struct device *cpu;
enum { UNSEEN_ROWS = 70, MAX_SEGMENTS = 40 };
// What blocks may take of sm_86, 89 and 120; sm_80; sm_90 and 100.
constexpr size_t SMALL_CARD = 99 << 10, CARDS[] = {SMALL_CARD, 163 << 10, 227 << 10};

enum dtype wide(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

struct span {
    size_t start, count;
};

struct attention {
    struct attention_shape s;
    size_t rows, keys, q_cols, k_cols;
    array q, k, v, grad_o, o, logsumexp, grad_q;
    std::vector<std::unique_ptr<array>> grad_k, grad_v; // per segment
    std::vector<span> spans;

    attention(struct attention_shape shape, enum dtype dtype, enum dtype gradient, std::vector<span> segments,
              size_t offset = 0)
        : s(shape), rows(s.queries * s.batch), keys((s.start + s.queries) * s.batch), q_cols(s.heads * s.head_dim),
          k_cols(s.kv_heads * s.head_dim), q(rows, q_cols, dtype, "q", offset),
          k(keys + UNSEEN_ROWS, k_cols, dtype, "k"), v(keys + UNSEEN_ROWS, k_cols, dtype, "v"),
          grad_o(rows, q_cols, dtype, "grad_o"), o(rows, q_cols, dtype, nullptr),
          logsumexp(rows, s.heads, wide(dtype), nullptr), grad_q(rows, q_cols, dtype, nullptr), spans(segments)
    {
        for (array *cache : {&k, &v})
            cache->set([&](size_t i) { return i < keys * k_cols ? cache->expected(i) : NAN; });
        for (span segment : spans) {
            grad_k.push_back(std::make_unique<array>(segment.count * s.batch, k_cols, gradient, "grad_k"));
            grad_v.push_back(std::make_unique<array>(segment.count * s.batch, k_cols, gradient, "grad_v"));
        }
    }

    std::vector<key_segment> segments(bool reference) const
    {
        std::vector<key_segment> list;
        for (size_t i = 0; i < spans.size(); i++)
            list.push_back({spans[i].start, spans[i].count, reference ? grad_k[i]->r : grad_k[i]->t,
                            reference ? grad_v[i]->r : grad_v[i]->t});
        return list;
    }

    void forward(bool reverse)
    {
        run_both_orders({&o, &logsumexp}, [&] {
            assert_true(cuda_attention_forward(o.t, logsumexp.t, q.t, k.t, v.t, s, reverse, simt::card_shared_bytes,
                                               nullptr));
        });
    }

    // Whether this card serves it.
    bool backward(array &out, bool reverse)
    {
        bool served = false;
        std::vector<array *> changed = {&out};
        for (size_t i = 0; i < spans.size(); i++) {
            changed.push_back(grad_k[i].get());
            changed.push_back(grad_v[i].get());
        }
        std::vector<key_segment> list = segments(false);
        run_both_orders(changed, [&] {
            served = cuda_attention_backward(out.t, list.data(), list.size(), grad_o.t, o.t, logsumexp.t, q.t, k.t,
                                             v.t, s, reverse, simt::card_shared_bytes, nullptr);
        });
        return served;
    }

    double growth() const { return 32 + 4 * sqrt((double)s.head_dim) + sqrt((double)(s.start + s.queries)); }

    // in_place: grad_q is grad_o.
    void check(bool in_place, bool reverse)
    {
        forward(reverse);
        op_attention_forward(cpu, s, o.r, logsumexp.r, q.r, k.r, v.r);
        o.check(growth(), "o");
        logsumexp.check(growth(), "logsumexp");
        for (array *saved : {&o, &logsumexp}) // as the device holds them
            saved->set([&](size_t i) { return saved->expected(i); });

        array &out = in_place ? grad_o : grad_q;
        std::vector<unsigned char> before = out.bytes();
        if (!backward(out, reverse)) {
            assert_true(simt::card_shared_bytes == SMALL_CARD && q.t.dtype == DTYPE_F64 && s.head_dim > 128);
            assert_true(out.bytes() == before);
            return;
        }
        std::vector<key_segment> list = segments(true);
        op_attention_backward(cpu, s, out.r, list.data(), list.size(), grad_o.r, o.r, logsumexp.r, q.r, k.r, v.r);
        out.check(8 * growth(), "grad_q");
        for (size_t i = 0; i < spans.size(); i++) {
            grad_k[i]->check(8 * growth(), "grad_k");
            grad_v[i]->check(8 * growth(), "grad_v");
        }
    }
};

span all_keys(struct attention_shape s)
{
    return {0, s.start + s.queries};
}

void test_shapes(void **)
{
    const struct attention_shape shapes[] = {
        // queries, start, batch, heads, kv_heads, head_dim
        {1, 0, 1, 1, 1, 2},     {1, 90, 2, 4, 2, 16},  // one query, alone and against a prefix
        {32, 0, 1, 2, 2, 64},   {64, 0, 1, 2, 1, 64},  // one tile
        {65, 0, 1, 1, 1, 64},   {128, 0, 1, 2, 1, 16}, // and one key more; several
        {70, 61, 2, 6, 2, 32},  {9, 5, 7, 4, 2, 6},    // groups of 3 heads; head_dim that is no multiple of 4
        {50, 40, 1, 2, 1, 128}, {40, 30, 1, 2, 1, 80}, // longer heads, full and padded
        {37, 13, 1, 2, 1, 256}, {20, 0, 1, 1, 1, 130},
    };
    int variant = 0;
    for (enum dtype dtype : dtypes)
        for (struct attention_shape shape : shapes) {
            attention a(shape, dtype, variant % 2 ? dtype : wide(dtype), {all_keys(shape)}, variant % 3 == 0);
            a.check(variant % 4 == 0, variant % 5 == 0);
            variant++;
        }
}

void test_segments(void **)
{
    const struct {
        struct attention_shape shape;
        std::vector<span> spans;
    } cases[] = {
        {{40, 100, 1, 4, 2, 64}, {{100, 40}}}, // no gradient for the prefix
        {{70, 60, 2, 2, 1, 16}, {{0, 17}, {49, 66}}},
        {{30, 133, 1, 4, 4, 80}, {{3, 1}, {63, 2}, {65, 63}, {133, 30}}},
        {{40, 40, 1, 2, 1, 32}, {{10, 0}, {30, 12}}}, // an empty one
        {{40, 40, 1, 2, 1, 32}, {}},                  // none
    };
    for (enum dtype dtype : dtypes)
        for (const auto &c : cases)
            attention(c.shape, dtype, wide(dtype), c.spans).check(false, false);
    // More segments than one launch takes, of one key each.
    std::vector<span> many;
    for (size_t i = 0; i < MAX_SEGMENTS; i++)
        many.push_back({2 * i, 1});
    attention({10, 80, 1, 1, 1, 16}, DTYPE_F32, DTYPE_F32, many).check(false, false);
}

// A key's gradient has the same bits whatever segment it is in.
void test_segments_do_not_change_bits(void **)
{
    for (size_t head_dim : {64, 80})
        for (enum dtype dtype : {DTYPE_F32, DTYPE_BF16}) {
            struct attention_shape shape = {100, 90, 1, 4, 2, head_dim};
            attention one(shape, dtype, DTYPE_F32, {all_keys(shape)}),
                two(shape, dtype, DTYPE_F32, {{10, 33}, {70, 90}});
            for (attention *a : {&one, &two}) {
                a->grad_q.set([](size_t) { return NAN; });
                for (auto *grads : {&a->grad_k, &a->grad_v})
                    for (auto &grad : *grads)
                        grad->set([](size_t) { return 0.25; });
                a->forward(false);
                a->backward(a->grad_q, false);
            }
            assert_true(one.grad_q.bytes() == two.grad_q.bytes());
            for (size_t i = 0; i < 2; i++) {
                size_t skipped = two.spans[i].start * one.k_cols;
                for (size_t j = 0; j < two.spans[i].count * one.k_cols; j++) {
                    assert_true(two.grad_k[i]->found(j) == one.grad_k[0]->found(skipped + j));
                    assert_true(two.grad_v[i]->found(j) == one.grad_v[0]->found(skipped + j));
                }
            }
        }
}

// Scores whose exponential f32 cannot hold, and rows that one key rules.
void test_extreme_scores(void **)
{
    for (enum dtype dtype : dtypes)
        for (bool reverse : {false, true}) {
            struct attention_shape shape = {70, 70, 1, 2, 1, 32};
            attention a(shape, dtype, wide(dtype), {all_keys(shape)});
            a.q.set([&](size_t i) { return 100 * a.q.expected(i); });
            a.forward(reverse);
            op_attention_forward(cpu, shape, a.o.r, a.logsumexp.r, a.q.r, a.k.r, a.v.r);
            a.o.check(100 * a.growth(), "o"); // scores of some hundreds have so many epsilon
            a.logsumexp.check(a.growth(), "logsumexp");
        }
}

// Reversed sums are the same sums with other rounding errors.
void test_reverse_sums(void **)
{
    struct attention_shape shape = {150, 50, 1, 2, 1, 16};
    attention up(shape, DTYPE_F32, DTYPE_F32, {all_keys(shape)}),
        down(shape, DTYPE_F32, DTYPE_F32, {all_keys(shape)});
    up.check(false, false);
    down.check(false, true);
    assert_true(up.grad_q.bytes() != down.grad_q.bytes());
    assert_true(up.grad_k[0]->bytes() != down.grad_k[0]->bytes());
}

} // namespace

int main()
{
    struct status status = {};
    cpu = device_open("cpu", DTYPE_F64, 0, &status);
    CHECK(cpu);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),         cmocka_unit_test(test_segments),
        cmocka_unit_test(test_extreme_scores), cmocka_unit_test(test_segments_do_not_change_bits),
        cmocka_unit_test(test_reverse_sums),
    };
    int failed = 0;
    for (size_t bytes : CARDS) {
        printf("a card whose blocks have %zu KiB of shared memory\n", bytes >> 10);
        simt::card_shared_bytes = bytes;
        failed += cmocka_run_group_tests(tests, nullptr, nullptr);
    }
    device_close(cpu);
    return failed;
}
