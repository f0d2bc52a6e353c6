#include "kernels/base/observer.h"

// The table that stands in the place of the device's own.
struct observation {
    const struct device_ops *inner;
    struct device_ops table;
    struct observer *first;
};

const char *work_name(enum work work)
{
    static const char *const names[WORK_COUNT] = {
        [WORK_GEMM] = "GEMM",
        [WORK_ATTENTION_FORWARD] = "attention forward",
        [WORK_ATTENTION_BACKWARD] = "attention backward",
        [WORK_ATTENTION_GLUE] = "attention glue",
        [WORK_NORM] = "norm",
        [WORK_ROPE] = "RoPE",
        [WORK_SWIGLU] = "SwiGLU",
        [WORK_BIAS] = "bias",
        [WORK_EMBEDDING] = "embedding",
        [WORK_HEAD] = "head",
        [WORK_COPY] = "copy",
        [WORK_OPTIMIZER] = "optimizer",
        [WORK_IDLE] = "idle",
    };
    CHECK(work < WORK_COUNT);
    return names[work];
}

void observation_push(struct device *device, const struct range *range)
{
    for (struct observer *o = device->observation->first; o; o = o->next) {
        o->push(o, device, range);
    }
}

void observation_pop(struct device *device)
{
    for (struct observer *o = device->observation->first; o; o = o->next) {
        o->pop(o, device);
    }
}

static const struct device_ops *begin(struct device *device, enum work work, const char *name)
{
    observation_push(device, &(struct range){.level = RANGE_OPERATION, .name = name, .work = work});
    return device->observation->inner;
}

static void end(struct device *device)
{
    observation_pop(device);
}

static void zero(struct device *device, struct tensor t)
{
    begin(device, WORK_COPY, "zero")->zero(device, t);
    end(device);
}

static void copy(struct device *device, struct tensor dst, struct tensor src)
{
    begin(device, WORK_COPY, "copy")->copy(device, dst, src);
    end(device);
}

static void scale(struct device *device, struct tensor t, double factor)
{
    begin(device, WORK_COPY, "scale")->scale(device, t, factor);
    end(device);
}

static void gemm(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a,
                 struct tensor b, enum transpose transpose_b, double alpha, double beta)
{
    observation_push(device, &(struct range){.level = RANGE_OPERATION,
                                             .name = "gemm",
                                             .work = WORK_GEMM,
                                             .m = c.rows,
                                             .n = c.cols,
                                             .k = transpose_a ? a.rows : a.cols});
    device->observation->inner->gemm(device, c, a, transpose_a, b, transpose_b, alpha, beta);
    end(device);
}

static void bias_forward(struct device *device, struct tensor y, struct tensor bias)
{
    begin(device, WORK_BIAS, "bias_forward")->bias_forward(device, y, bias);
    end(device);
}

static void bias_backward(struct device *device, struct tensor grad_bias, struct tensor grad_y)
{
    begin(device, WORK_BIAS, "bias_backward")->bias_backward(device, grad_bias, grad_y);
    end(device);
}

static void rmsnorm_forward(struct device *device, struct tensor y, struct tensor rstd, struct tensor x,
                            struct tensor gain, double epsilon)
{
    begin(device, WORK_NORM, "rmsnorm_forward")->rmsnorm_forward(device, y, rstd, x, gain, epsilon);
    end(device);
}

static void rmsnorm_backward(struct device *device, struct tensor grad_x, bool accumulate, struct tensor grad_gain,
                             struct tensor grad_y, struct tensor x, struct tensor gain, struct tensor rstd)
{
    begin(device, WORK_NORM, "rmsnorm_backward")
        ->rmsnorm_backward(device, grad_x, accumulate, grad_gain, grad_y, x, gain, rstd);
    end(device);
}

static void rope(struct device *device, struct tensor x, struct tensor frequencies, size_t start, size_t batch,
                 int direction)
{
    begin(device, WORK_ROPE, "rope")->rope(device, x, frequencies, start, batch, direction);
    end(device);
}

static void attention_forward(struct device *device, struct attention_shape shape, struct tensor o,
                              struct tensor logsumexp, struct tensor q, struct tensor k, struct tensor v)
{
    begin(device, WORK_ATTENTION_FORWARD, "attention_forward")
        ->attention_forward(device, shape, o, logsumexp, q, k, v);
    end(device);
}

static void attention_backward(struct device *device, struct attention_shape shape, struct tensor grad_q,
                               const struct key_segment *segments, size_t segment_count, struct tensor grad_o,
                               struct tensor o, struct tensor logsumexp, struct tensor q, struct tensor k,
                               struct tensor v, struct tensor workspace)
{
    begin(device, WORK_ATTENTION_BACKWARD, "attention_backward")
        ->attention_backward(device, shape, grad_q, segments, segment_count, grad_o, o, logsumexp, q, k, v,
                             workspace);
    end(device);
}

static void swiglu_forward(struct device *device, struct tensor y, struct tensor gate, struct tensor up)
{
    begin(device, WORK_SWIGLU, "swiglu_forward")->swiglu_forward(device, y, gate, up);
    end(device);
}

static void swiglu_backward(struct device *device, struct tensor gate, struct tensor up, struct tensor grad_y)
{
    begin(device, WORK_SWIGLU, "swiglu_backward")->swiglu_backward(device, gate, up, grad_y);
    end(device);
}

static void embedding_forward(struct device *device, struct tensor y, struct tensor table, struct tensor ids)
{
    begin(device, WORK_EMBEDDING, "embedding_forward")->embedding_forward(device, y, table, ids);
    end(device);
}

static void embedding_backward(struct device *device, struct tensor grad_table, struct tensor grad_y,
                               struct tensor ids)
{
    begin(device, WORK_EMBEDDING, "embedding_backward")->embedding_backward(device, grad_table, grad_y, ids);
    end(device);
}

static void cross_entropy(struct device *device, struct tensor logits, struct tensor targets, struct tensor loss,
                          double loss_weight, double grad_weight)
{
    begin(device, WORK_HEAD, "cross_entropy")
        ->cross_entropy(device, logits, targets, loss, loss_weight, grad_weight);
    end(device);
}

static void adamw(struct device *device, struct tensor w, struct tensor g, struct tensor m, struct tensor v,
                  double rate, double beta1, double beta2, double epsilon, double decay, size_t t)
{
    begin(device, WORK_OPTIMIZER, "adamw")->adamw(device, w, g, m, v, rate, beta1, beta2, epsilon, decay, t);
    end(device);
}

static void observe(struct device *device)
{
    struct observation *observation = calloc(1, sizeof *observation);
    CHECK(observation);
    observation->inner = device->ops;
    struct device_ops *table = &observation->table;
    *table = *device->ops;
    table->zero = zero;
    table->copy = copy;
    table->scale = scale;
    table->gemm = gemm;
    table->bias_forward = bias_forward;
    table->bias_backward = bias_backward;
    table->rmsnorm_forward = rmsnorm_forward;
    table->rmsnorm_backward = rmsnorm_backward;
    table->rope = rope;
    table->attention_forward = attention_forward;
    table->attention_backward = attention_backward;
    table->swiglu_forward = swiglu_forward;
    table->swiglu_backward = swiglu_backward;
    table->embedding_forward = embedding_forward;
    table->embedding_backward = embedding_backward;
    table->cross_entropy = cross_entropy;
    table->adamw = adamw;
    device->observation = observation;
    device->ops = table;
}

void observer_attach(struct observer *observer, struct device *device)
{
    if (!device->observation) {
        observe(device);
    }
    observer->next = device->observation->first;
    device->observation->first = observer;
}

void observer_detach(struct observer *observer, struct device *device)
{
    struct observation *observation = device->observation;
    struct observer **at = &observation->first;
    while (*at != observer) {
        CHECK(*at);
        at = &(*at)->next;
    }
    *at = observer->next;
    if (!observation->first) {
        device->ops = observation->inner;
        device->observation = NULL;
        free(observation);
    }
}
