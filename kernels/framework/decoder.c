#include "kernels/framework/decoder.h"
#include "kernels/framework/aten.h"
#include "kernels/framework/attention.h"
#include "kernels/framework/mixture.h"
#include "kernels/framework/parameters.h"
#include "kernels/framework/quantised.h"
#include "kernels/framework/shares.h"
#include "kernels/model/block.h"
#include "kernels/model/unit_parameters.h"

// A projection, with peft's factors beside it: result + B(A(x)) * scaling, in the factors' dtype.
static struct value project(struct framework_run *run, const struct projection *projection, struct value x)
{
    struct tape *tape = &run->tape;
    struct autocast *autocast = &run->autocast;
    struct value weight = parameters_weight(run, projection->weight),
                 bias = parameters_weight(run, projection->bias);
    bool quantised = quantised_is(run, (size_t)(projection->weight - run->model->parameters));
    struct value y = quantised ? quantised_linear(run, x, weight, bias)
                               : autocast_linear(autocast, tape, x, weight, bias, CATEGORY_ACTIVATIONS);
    if (!projection->lora_a)
        return y;
    // PEFT copies a quantised layer's result, and leaves its input's casts to autocast, if there is one.
    if (quantised)
        tape_rebind(tape, &y, aten_contiguous(tape, y));
    struct value a = parameters_weight(run, projection->lora_a), b = parameters_weight(run, projection->lora_b),
                 none = {0};
    enum dtype dtype = y.dtype;
    struct value input = aten_to(tape, x, quantised && autocast->depth ? x.dtype : a.dtype, CATEGORY_ACTIVATIONS);
    struct value low = autocast_linear(autocast, tape, input, a, none, CATEGORY_ACTIVATIONS);
    struct value high = autocast_linear(autocast, tape, low, b, none, CATEGORY_ACTIVATIONS);
    tape_drop(tape, &low);
    struct value scaled = aten_mul_scalar(tape, high);
    tape_drop(tape, &high);
    if (quantised && !autocast->depth)
        tape_rebind(tape, &scaled, aten_to(tape, scaled, dtype, CATEGORY_ACTIVATIONS));
    struct value sum = aten_add(tape, y, scaled, CATEGORY_ACTIVATIONS);
    tape_drop(tape, &scaled);
    tape_rebind(tape, &y, sum);
    if (!quantised)
        tape_rebind(tape, &y, aten_to(tape, y, dtype, CATEGORY_ACTIVATIONS));
    tape_drop(tape, &input);
    return y;
}

// x * rsqrt(mean(x^2) + epsilon). *variance: a name that keeps the mean; NULL: none does.
static struct value normalise(struct tape *tape, struct value x, struct value *variance)
{
    struct value square = aten_pow(tape, x), mean = aten_mean(tape, square);
    tape_drop(tape, &square);
    struct value above = aten_add_scalar(tape, mean);
    if (variance)
        *variance = tape_share(mean);
    tape_drop(tape, &mean);
    struct value inverse = aten_rsqrt(tape, above);
    tape_drop(tape, &above);
    struct value y = aten_mul(tape, x, inverse);
    tape_drop(tape, &inverse);
    return y;
}

// weight * normalise(x.float()).to(x.dtype)
static struct value plain_norm(struct framework_run *run, struct value gain, struct value x)
{
    struct tape *tape = &run->tape;
    struct value variance, wide = aten_to(tape, x, DTYPE_F32, CATEGORY_ACTIVATIONS);
    tape_rebind(tape, &wide, normalise(tape, wide, &variance));
    struct value narrow = aten_to(tape, wide, x.dtype, CATEGORY_ACTIVATIONS);
    struct value y = aten_mul(tape, gain, narrow);
    tape_drop(tape, &narrow);
    tape_drop(tape, &wide);
    tape_drop(tape, &variance);
    return y;
}

// Gemma's: (normalise(x.float()) * (1.0 + weight.float())).type_as(x)
static struct value offset_norm(struct framework_run *run, struct value gain, struct value x)
{
    struct tape *tape = &run->tape;
    struct value wide = aten_to(tape, x, DTYPE_F32, CATEGORY_ACTIVATIONS);
    tape_rebind(tape, &wide, normalise(tape, wide, NULL));
    struct value of_gain = aten_to(tape, gain, DTYPE_F32, CATEGORY_ACTIVATIONS);
    tape_rebind(tape, &of_gain, aten_add_scalar(tape, of_gain));
    struct value scaled = aten_mul(tape, wide, of_gain);
    tape_drop(tape, &of_gain);
    tape_rebind(tape, &wide, scaled);
    struct value y = aten_to(tape, wide, x.dtype, CATEGORY_ACTIVATIONS);
    tape_drop(tape, &wide);
    return y;
}

static struct value norm(struct framework_run *run, const struct parameter *gain, struct value x)
{
    return (run->model->config.unit_offset ? offset_norm : plain_norm)(run, parameters_weight(run, gain), x);
}

static struct value by_name(struct framework_run *run, size_t l, const char *name, struct value x)
{
    return project(run, parameters_of_layer(run, l, name), x);
}

// A projection's output by heads, normed if the family does; norm_name NULL: it does not.
static struct value heads_of(struct framework_run *run, size_t l, const char *name, const char *norm_name,
                             struct value x)
{
    struct tape *tape = &run->tape;
    const struct config *config = &run->model->config;
    const struct projection *gain = norm_name ? parameters_of_layer(run, l, norm_name) : NULL;
    struct value whole = by_name(run, l, name, x);
    if (gain && config->whole_qk_norm)
        tape_rebind(tape, &whole, norm(run, gain->weight, whole));
    struct value heads = aten_heads(tape, whole, config_kind(config, l)->head_dim);
    tape_drop(tape, &whole);
    if (gain && !config->whole_qk_norm)
        tape_rebind(tape, &heads, norm(run, gain->weight, heads));
    return heads;
}

static struct value attend(struct framework_run *run, size_t l, struct value x, struct value *weights)
{
    struct tape *tape = &run->tape;
    struct value q = heads_of(run, l, "self_attn.q_proj", "self_attn.q_norm", x);
    struct value k = heads_of(run, l, "self_attn.k_proj", "self_attn.k_norm", x);
    struct value v = attention_is_eager(run) ? heads_of(run, l, "self_attn.v_proj", NULL, x)
                                             : by_name(run, l, "self_attn.v_proj", x);
    struct value out = attention_forward(run, l, &q, &k, &v, weights);
    tape_rebind(tape, &out, by_name(run, l, "self_attn.o_proj", out));
    tape_drop(tape, &q);
    tape_drop(tape, &k);
    tape_drop(tape, &v);
    return out;
}

// down(act(gate(x)) * up(x))
static struct value feed_forward(struct framework_run *run, size_t l, struct value x)
{
    struct tape *tape = &run->tape;
    struct value gate = by_name(run, l, "mlp.gate_proj", x);
    tape_rebind(tape, &gate, aten_activation(tape, gate));
    struct value up = by_name(run, l, "mlp.up_proj", x), product = aten_mul(tape, gate, up);
    tape_drop(tape, &gate);
    tape_drop(tape, &up);
    struct value y = by_name(run, l, "mlp.down_proj", product);
    tape_drop(tape, &product);
    return y;
}

// x + y scale
static struct value add_block(struct framework_run *run, struct value x, struct value y, enum category category)
{
    struct tape *tape = &run->tape;
    struct value scaled = run->model->config.residual_scale > 0 ? aten_mul_scalar(tape, y) : tape_share(y);
    struct value sum = aten_add(tape, x, scaled, category);
    tape_drop(tape, &scaled);
    return sum;
}

// The norm of a block's input or output, if it has one.
static void norm_if(struct framework_run *run, const struct parameter *gain, struct value *x)
{
    if (gain)
        tape_rebind(&run->tape, x, norm(run, gain, *x));
}

static struct value layer_forward(void *context, size_t l, struct value x)
{
    struct framework_run *run = context;
    struct tape *tape = &run->tape;
    const struct layer *layer = &run->model->layers[l];
    bool kept = run->walk == WALK_CHECKPOINT;
    autocast_enter(&run->autocast);
    struct value hidden = tape_share(x), weights;
    norm_if(run, layer->mixer.norm, &hidden);
    tape_rebind(tape, &hidden, attend(run, l, hidden, &weights));
    norm_if(run, layer->mixer.out_norm, &hidden);
    tape_rebind(tape, &hidden, add_block(run, x, hidden, CATEGORY_ACTIVATIONS));
    struct value residual = tape_share(hidden);
    norm_if(run, layer->mlp.norm, &hidden);
    bool experts = config_kind(&run->model->config, l)->mlp == MLP_EXPERTS;
    tape_rebind(tape, &hidden, (experts ? mixture_forward : feed_forward)(run, l, hidden));
    norm_if(run, layer->mlp.out_norm, &hidden);
    struct value y = add_block(run, residual, hidden, kept ? CATEGORY_HIDDEN_CHECKPOINTS : CATEGORY_ACTIVATIONS);
    tape_drop(tape, &hidden);
    tape_drop(tape, &residual);
    tape_drop(tape, &weights);
    autocast_exit(&run->autocast, tape);
    return y;
}

// The layer, under its checkpoint if there is one.
static struct value call_layer(struct framework_run *run, size_t l, struct value x)
{
    const struct config *config = &run->model->config;
    const struct framework_tables *tables = &run->tables[config_kind(config, l) - config->kinds];
    struct checkpoint_call call = {layer_forward, run, l, {tables->cos, tables->sin, run->positions, tables->mask}};
    if (run->walk == WALK_FULL)
        return layer_forward(run, l, x);
    run->tape.offloads = run->framework.offload == FRAMEWORK_OFFLOAD_INPUTS;
    struct value y = run->framework.reentrant == REENTRANT_YES ? tape_checkpoint_reentrant(&run->tape, call, x)
                                                               : tape_checkpoint(&run->tape, call, x);
    run->tape.offloads = false;
    return y;
}

static struct value run_layer(struct framework_run *run, size_t l, struct value x)
{
    shares_gather(run, unit_of_layer(l), &x);
    struct value y = call_layer(run, l, x);
    shares_release(run, unit_of_layer(l), &y);
    return y;
}

struct value decoder_forward(struct framework_run *run)
{
    struct tape *tape = &run->tape;
    bool kept = run->walk == WALK_CHECKPOINT;
    shares_gather(run, UNIT_EMBEDDING, NULL);
    struct value embeddings = aten_embedding(tape, parameters_weight(run, run->model->embedding), run->ids,
                                             kept ? CATEGORY_HIDDEN_CHECKPOINTS : CATEGORY_ACTIVATIONS);
    shares_release(run, UNIT_EMBEDDING, &embeddings);
    if (run->embedding_scale.storage)
        tape_rebind(tape, &embeddings, aten_mul(tape, embeddings, run->embedding_scale));
    // Checkpoints of a frozen embedding have transformers ask for its gradient.
    run->input = (struct value){0};
    if (kept && !embeddings.node) {
        tape_leaf(&embeddings);
        run->input = tape_share(embeddings);
    }
    if (run->model->config.embedding_scale > 0 && !run->embedding_scale.storage)
        tape_rebind(tape, &embeddings, aten_mul_scalar(tape, embeddings));
    attention_make_tables(run);
    struct value hidden = tape_share(embeddings);
    for (size_t l = 0; l < run->model->config.layers; l++)
        tape_rebind(tape, &hidden, run_layer(run, l, hidden));
    shares_gather(run, unit_of_head(run->model), &hidden);
    tape_rebind(tape, &hidden, norm(run, run->model->final_norm, hidden));
    tape_drop(tape, &embeddings);
    return hidden;
}
