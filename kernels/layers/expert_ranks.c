#include "kernels/layers/expert_ranks.h"

static struct row_range *shares_of(const struct comm *ranks, size_t each)
{
    struct row_range *owned = calloc(ranks->size, sizeof *owned);
    CHECK(owned);
    for (size_t r = 0; r < ranks->size; r++)
        owned[r] = (struct row_range){r * each, each};
    return owned;
}

// Words as numbers of their width, which devices can copy.
static struct tensor copyable(struct tensor t)
{
    t.dtype = t.dtype == DTYPE_I32 ? DTYPE_F32 : t.dtype;
    return t;
}

struct tensor expert_ranks_gather(struct model *model, struct tensor own)
{
    const struct comm *ranks = &model->ranks.experts;
    size_t n = own.rows;
    struct row_range *owned = shares_of(ranks, n);
    struct tensor all = tensor_new(model->device, ranks->size * n, own.cols, own.dtype, CATEGORY_WORKSPACE);
    op_copy(model->device, copyable(tensor_rows(all, ranks->rank * n, n)), copyable(own));
    comm_gather_rows(ranks, model->device, all, owned);
    free(owned);
    return all;
}

void expert_ranks_sum(struct model *model, struct tensor own, struct tensor all, bool rounds)
{
    const struct comm *ranks = &model->ranks.experts;
    struct device *device = model->device;
    enum dtype dtype = device->ops->dtype;
    rounds &= own.dtype != dtype;
    struct row_range *owned = shares_of(ranks, own.rows);
    struct tensor sent = rounds ? tensor_new(device, all.rows, all.cols, dtype, CATEGORY_WORKSPACE) : all;
    if (rounds)
        op_copy(device, sent, all);
    comm_sum_rows(ranks, device, sent, owned);
    op_accumulate(device, own, tensor_rows(sent, ranks->rank * own.rows, own.rows));
    if (rounds)
        tensor_free(device, &sent);
    free(owned);
}
