#include "harness/step/ranks.h"
#include "harness/process/child.h"
#include "harness/process/launch.h"
#include "harness/step/ranks_possible.h"
#include "kernels/trainer/bucket.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

void ranks_device(char device[RANK_DEVICE_BYTES], const struct trial *trial, const struct world *world)
{
    bool cards = world->comm.size > 1 && strcmp(trial->device, "cuda") == 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    bool given = visible && *visible && !strchr(visible, ','); // by a launcher that gives each rank its own
    if (cards && !given)
        snprintf(device, RANK_DEVICE_BYTES, "%s:%zu", trial->device, world->local_rank);
    else
        snprintf(device, RANK_DEVICE_BYTES, "%s", trial->device);
}

// Elements [first, first + count) of a parameter's gradient on a rank.
struct piece {
    size_t first, count;
};

// Tells whether a rank provides the parameter's gradient, or its share: the first of those that have the same.
static bool gives(const struct model *model, const struct parameter *parameter, struct split split, size_t context,
                  const struct comm *all, size_t rank)
{
    struct model other = *model;
    struct comm comm = *all;
    comm.rank = rank;
    other.ranks = ranks_of(&comm, split, &model->config, context);
    bool lowest = ranks_lowest(&other.ranks); // tied embeddings count at the first stage
    return model_has(&other, parameter) && (lowest || parameter != model->embedding) &&
           (split.zero != ZERO_NOTHING ||
            (parameter_is_part(parameter) ? &other.ranks.copies : &other.ranks.replicas)->rank == 0);
}

// The bytes of this rank's piece, to be freed.
static void *download(const struct model *model, const struct parameter *parameter, struct piece *piece)
{
    struct parameter share = bucket_share(parameter);
    size_t bytes = tensor_bytes(share.grad);
    void *values = malloc(bytes + 1);
    *piece = (struct piece){share.first, tensor_count(share.grad)};
    op_download(model->device, values, share.grad);
    return values;
}

// Collects a parameter's bytes on rank 0, which alone has room.
static void gather_parameter(char *all, const struct model *model, const struct parameter *parameter,
                             struct split split, size_t context, const struct world *world)
{
    size_t own = world->comm.rank, size = dtype_bytes(model->gradient_dtype);
    for (size_t rank = 0; rank < world->comm.size; rank++) {
        struct piece piece;
        if ((own != 0 && own != rank) || !gives(model, parameter, split, context, &world->comm, rank))
            continue;
        void *values = own == rank ? download(model, parameter, &piece) : NULL;
        if (own == rank && rank > 0) {
            world->ops->send(world, 0, &piece, sizeof piece);
            world->ops->send(world, 0, values, piece.count * size);
        } else if (own == rank) {
            memcpy(all + piece.first * size, values, piece.count * size);
        } else {
            world->ops->receive(world, rank, &piece, sizeof piece);
            world->ops->receive(world, rank, all + piece.first * size, piece.count * size);
        }
        free(values);
    }
}

void ranks_gradients(struct gradient_set *set, const struct model *model, struct split split, size_t context,
                     const struct world *world)
{
    if (world->comm.size == 1) {
        gradient_set_take(set, model);
        return;
    }
    *set = (struct gradient_set){.tensors = calloc(model->parameter_count + 1, sizeof *set->tensors)};
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *parameter = &model->parameters[i];
        bool here = model_has(model, parameter);
        if (here ? !parameter->trains : !model_can_train(model, parameter))
            continue;
        char *bytes = calloc(parameter->size + 1, dtype_bytes(model->gradient_dtype));
        gather_parameter(bytes, model, parameter, split, context, world);
        if (world->comm.rank == 0)
            gradient_set_add(set, parameter, model->gradient_dtype, bytes);
        free(bytes);
    }
    gradient_set_hash(set);
}

const char *const ranks_of_trial[] = {"trial", TRIAL_OF_RANKS, NULL};

bool ranks_launch_open(struct launch *launch, const struct trial *trial, const char *program,
                       const char *const *arguments, const char *words, struct status *status)
{
    char self[4096] = "";
    size_t count = 0;
    if (!program && readlink("/proc/self/exe", self, sizeof self - 1) < 0) // mpirun would resolve it to itself
        return status_set(status, STATUS_IO, "cannot find this program: /proc/self/exe");
    while (arguments[count])
        count++;
    const char **command = calloc(count + 2, sizeof *command);
    command[0] = program ? program : self;
    memcpy(command + 1, arguments, count * sizeof *command);
    bool opened = ranks_possible(trial, status) && world_has_mpi(status) &&
                  launch_open(launch, words, trial_ranks(trial), command, status);
    free(command);
    return opened;
}
