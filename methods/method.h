// Method: one way to compute a training step's gradient: a walk over the grid of layers and chunks, whose cells
// (layer l, chunk c) it runs forward and backward in an order of its own, keeping of each what it chooses. The
// protocol of a walk over one micro-batch (struct step):
//
//   1. embed_forward    the input of the lowest layer; then for each layer, upwards:
//   2. unit_acquire     its weights can be read; unit_prefetch names the next unit (unit.h)
//   3. kv_project       keys and values of a chunk, which cells of later chunks read, too
//   4. cell_forward     the cell's output, which is the next layer's input; the cell keeps activations, or nothing
//   5. unit_release     the layer
//   6. head_backward    adds to the loss, and turns the last layer's output into its gradient; unit_done the head;
//                       then for each layer, downwards, within unit_acquire and unit_release:
//   7. 3 and 4 again    for cells that kept nothing
//   8. cell_backward    from the last chunk to the first: the gradient of the cell's output becomes that of its
//                       input; adds to the gradients of its weights, and of keys and values of its chunk and of
//                       earlier ones
//   9. unit_done        the step adds nothing more to the gradients of the layer's weights
//  10. embed_backward   adds to the embedding's gradient; unit_done the embedding
//
// full.c is the shortest example. methods/README.md has all walks, what they cost, and the letters; training_step.h
// says what comes before a walk and after it. To add a method: write methods/NAME.c that ends in one
// `const struct method`, and name it in methods/methods.c.
#pragma once
#include "methods/schedule/step.h"

// Takes one outcome of a draw; false: no more.
typedef bool draw_visit(void *visitor, const void *options, double probability);

// How ranks may share a step (kernels/model/ranks.h): the sequences, as replicas, their tokens, or the
// layers, as a pipeline.
enum parallel_kind { PARALLEL_DATA = 1, PARALLEL_STAGE = 2, PARALLEL_SEQUENCE = 4 };

struct method {
    const char *name;
    const char *summary; // one line
    const char *source;  // the paper
    struct option_table options;
    bool no_gradient;      // it computes none, and leaves the gradients as they are
    bool exact;            // the gradient is that of the full loss
    bool by_layer;         // units are done one after another, from the head down, not all in the last chunk
    unsigned parallel;     // how ranks may share it: a sum of enum parallel_kind
    const char *estimates; // the exact method whose walk this one shortens; NULL: none

    // Hooks get the method's own struct of options.
    // Checks the options against each other, the model and the context; NULL: any goes. False sets status:
    // unsupported where they are too large for the model or the context (more stages than layers, a budget above
    // the chunks).
    bool (*check)(const void *options, const struct config *config, size_t context, struct status *status);
    // Checks the options against objectives that need every log-prob before any gradient, which would else be
    // biased; NULL: any goes. False sets status.
    bool (*check_sums)(const void *options, struct status *status);
    // The protocol above: adds the gradient of the batch's mean loss to the parameters' gradients.
    void (*run)(struct step *step);
    // Sets options that sample chunks to draw `index` of a trial, by the options and the index alone; draw 0 is
    // what they say as they are. False: nothing is sampled. NULL: never.
    bool (*draw)(void *options, size_t index);
    // Sets options that sample chunks to draw `index` of a few, one of which takes the most memory of all draws,
    // but for one in a million. False: there are no more. NULL: nothing is sampled.
    bool (*largest_draw)(void *options, size_t context, size_t index);
    // Visits every possible draw, with its probability and as options that sample nothing. False and a status
    // (unsupported) if there are more than max, or if options cannot express one. NULL: nothing is sampled.
    bool (*each_draw)(const void *options, size_t context, size_t max, draw_visit *visit, void *visitor,
                      struct status *status);
    // Lowers options that ask for more chunks than a context has, as papers' do, to all of them. NULL: none can.
    void (*fit)(void *options, size_t context);
    // The whole that a share in an option is of (schedule/options.h): a number of chunks. NULL: no option is a
    // share.
    size_t (*whole)(const void *options, size_t context);
    // Sets options so that the gradient is that of the full loss. NULL: it always is, or never.
    void (*make_exact)(void *options, size_t context);
    // A lower bound of the peak's growth per token of context, in bytes, which methods/README.md derives.
    double (*lower_bound_bytes_per_token)(const struct model *model, const void *options, size_t context);
};

// All methods that walk, ending in NULL.
extern const struct method *const methods[];
// A name in place of a method's: it has no walk, and the harness chooses the method.
extern const struct method method_auto;
const struct method *method_find(const char *name);
// Whether the method with its options has the objective's gradient, or an unbiased estimate where it estimates.
// False sets status.
bool method_check_objective(const struct method *method, const void *options, const struct objective *objective,
                            const void *settings, struct status *status);
// Option number `index` of all methods' options, one of each name, in the methods' order; NULL beyond the last.
// Options of the same name are of the same type, and mean the same.
const struct option *methods_option(size_t index);
// The option of this name that some method has, or NULL.
const struct option *methods_option_find(const char *name);
// Walks over a micro-batch, timed, waits for the device and reads the loss. The walk adds to the gradients that it
// finds: training_step.h says who zeroes them. Failures are in the device's status.
void method_step(const struct method *method, struct model *model, const struct batch *batch, const void *options,
                 struct step_report *report);
void step_report_free(struct step_report *report);
