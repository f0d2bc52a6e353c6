#include "kernels/layers/mlp.h"
#include "kernels/layers/blocks.h"
#include "kernels/layers/cell_memory.h"
#include "kernels/layers/norm.h"
#include "kernels/layers/projection.h"

void mlp_forward(struct model *model, size_t layer, struct tensor x_mid, struct tensor y, struct activations *a,
                 enum keep how)
{
    struct device *device = model->device;
    const struct layer *w = &model->layers[layer];
    const struct config *c = &model->config;
    size_t n = x_mid.rows, max = block_rows(model, n);
    bool keeping = how != KEEP_NOTHING, all = how == KEEP_ALL, output = y.data || (keeping && w->mlp_out_norm);
    struct tensor h = {0}, gate = {0}, up = {0}, act = {0}, normed = {0};
    if (keeping) {
        a->rstd_mlp = w->mlp_norm ? statistic(model, n, 1) : tensor_none();
        a->gate = activation(model, n, c->ffn);
        a->up = activation(model, n, c->ffn);
    } else {
        gate = scratch(model, max, c->ffn);
        up = scratch(model, max, c->ffn);
    }
    if (keeping && w->mlp_out_norm) {
        a->rstd_mlp_out = statistic(model, n, 1);
        a->mlp_out = activation(model, n, c->width);
    }
    if (all && w->mlp_norm)
        a->h_mlp = activation(model, n, c->width);
    else if (w->mlp_norm)
        h = scratch(model, max, c->width);
    if (all)
        a->act = activation(model, n, c->ffn);
    else if (keeping && output)
        act = scratch(model, max, c->ffn);
    if (w->mlp_out_norm)
        normed = scratch(model, max, c->width);
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor x_block = tensor_rows(x_mid, row, rows), y_block = tensor_rows(y, row, rows);
        struct tensor h_block = !w->mlp_norm ? x_block
                                : all        ? tensor_rows(a->h_mlp, row, rows)
                                             : tensor_rows(h, 0, rows);
        struct tensor gate_block = keeping ? tensor_rows(a->gate, row, rows) : tensor_rows(gate, 0, rows);
        struct tensor up_block = keeping ? tensor_rows(a->up, row, rows) : tensor_rows(up, 0, rows);
        // Nothing kept: the product may take the gate's place.
        struct tensor act_block = all       ? tensor_rows(a->act, row, rows)
                                  : keeping ? tensor_rows(act, 0, rows)
                                            : gate_block;
        if (w->mlp_norm)
            norm_forward(model, w->mlp_norm, h_block, tensor_rows(a->rstd_mlp, row, rows), x_block);
        projection_forward(model, &w->gate, gate_block, h_block, false);
        projection_forward(model, &w->up, up_block, h_block, false);
        if (all || output)
            op_swiglu_forward(device, act_block, gate_block, up_block, c->activation);
        bool apart = y.data && y.data != x_mid.data;
        if (w->mlp_out_norm && apart)
            op_copy(device, y_block, x_block);
        if (w->mlp_out_norm && output) {
            struct tensor normed_block = tensor_rows(normed, 0, rows);
            struct tensor out = keeping ? tensor_rows(a->mlp_out, row, rows) : normed_block;
            projection_forward(model, &w->down, out, act_block, false);
            norm_forward(model, w->mlp_out_norm, normed_block, tensor_rows(a->rstd_mlp_out, row, rows), out);
            if (y.data)
                op_accumulate(device, y_block, normed_block);
        } else if (apart) {
            projection_forward_onto(model, &w->down, y_block, x_block, act_block);
        } else if (y.data) {
            projection_forward(model, &w->down, y_block, act_block, true);
        }
    }
    tensor_free(device, &normed);
    tensor_free(device, &act);
    tensor_free(device, &h);
    tensor_free(device, &up);
    tensor_free(device, &gate);
}

void mlp_backward(struct model *model, size_t layer, struct activations *a, struct tensor grad)
{
    struct device *device = model->device;
    const struct layer *w = &model->layers[layer];
    const struct config *c = &model->config;
    size_t n = grad.rows, max = block_rows(model, n);
    bool all = a->act.data;
    struct tensor act = scratch(model, max, c->ffn);
    struct tensor h = all || !w->mlp_norm ? tensor_none() : scratch(model, max, c->width);
    struct tensor grad_out = w->mlp_out_norm ? scratch(model, max, c->width) : tensor_none();
    for (struct blocks b = blocks_of(device, n, max); blocks_next(&b);) {
        size_t row = b.row, rows = b.count;
        struct tensor grad_block = tensor_rows(grad, row, rows), act_block = tensor_rows(act, 0, rows);
        struct tensor gate = tensor_rows(a->gate, row, rows), up = tensor_rows(a->up, row, rows);
        struct tensor x_mid = tensor_rows(a->x_mid, row, rows), grad_down = grad_block;
        struct tensor h_block = !w->mlp_norm ? x_mid
                                : all        ? tensor_rows(a->h_mlp, row, rows)
                                             : tensor_rows(h, 0, rows);
        if (w->mlp_out_norm) {
            grad_down = tensor_rows(grad_out, 0, rows);
            norm_backward(model, w->mlp_out_norm, grad_down, false, grad_block, tensor_rows(a->mlp_out, row, rows),
                          tensor_rows(a->rstd_mlp_out, row, rows));
        }
        struct tensor grad_u_down = {0}, grad_u_gate = {0}, grad_u_up = {0};
        projection_backward_input(model, &w->down, act_block, grad_down, &grad_u_down, false);
        // act_block: the gradient, then the product again
        op_swiglu_backward(device, gate, up, act_block, c->activation);
        projection_backward_weights(model, &w->down, grad_down, &grad_u_down,
                                    all ? tensor_rows(a->act, row, rows) : act_block);
        tensor_free(device, &grad_u_down);
        if (w->mlp_norm && !all)
            norm_forward(model, w->mlp_norm, h_block, tensor_none(), x_mid);
        projection_backward_weights(model, &w->gate, gate, &grad_u_gate, h_block);
        projection_backward_weights(model, &w->up, up, &grad_u_up, h_block);
        // With a norm h is spent: its gradient takes its place.
        struct tensor grad_h = w->mlp_norm ? h_block : grad_block;
        projection_backward_input(model, &w->gate, grad_h, gate, &grad_u_gate, !w->mlp_norm);
        projection_backward_input(model, &w->up, grad_h, up, &grad_u_up, true);
        tensor_free(device, &grad_u_up);
        tensor_free(device, &grad_u_gate);
        if (w->mlp_norm) {
            norm_backward(model, w->mlp_norm, grad_block, true, h_block, x_mid,
                          tensor_rows(a->rstd_mlp, row, rows));
        }
    }
    tensor_free(device, &grad_out);
    tensor_free(device, &h);
    tensor_free(device, &act);
    tensor_free(device, &a->gate);
    tensor_free(device, &a->up);
    tensor_free(device, &a->act);
    tensor_free(device, &a->h_mlp);
    tensor_free(device, &a->mlp_out);
}
