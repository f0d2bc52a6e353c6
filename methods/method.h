// Method: one way to compute a training step's gradient. A method schedules the cells (layer l, chunk c) of the
// grid of layers and chunks, forward and backward, and decides what each cell keeps. A schedule over one
// micro-batch (struct step) follows this protocol:
//
//   1. embed_forward    writes the lowest layer's input; then for each layer, upwards:
//   2. unit_acquire     makes its weights readable; unit_prefetch announces the next unit (unit.h)
//   3. kv_project       computes keys and values of a chunk, which cells of later chunks read too
//   4. cell_forward     computes the cell's output, the next layer's input, and keeps activations or nothing
//   5. unit_release     ends the use of the layer's weights
//   6. head_backward    adds to the loss, and replaces the last layer's output by its gradient; unit_done for the
//                       head; then for each layer, downwards, between unit_acquire and unit_release:
//   7. 3 and 4 again    recompute cells that kept nothing
//   8. cell_backward    from the last chunk to the first: replaces the gradient of the cell's output by that of its
//                       input; adds to the gradients of the layer's weights, and of keys and values of this chunk
//                       and earlier ones
//   9. unit_done        declares the gradients of the layer's weights complete for this step
//  10. embed_backward   adds to the embedding's gradient; unit_done for the embedding
//
// full.c is the shortest example. methods/README.md has all schedules, their costs, and the symbols;
// training_step.h has the steps around a schedule. To add a method: write methods/NAME.c, which ends in one `const
// struct method`, and name it in methods/methods.c.
#pragma once
#include "kernels/framework/framework.h"
#include "methods/schedule/step.h"

// Receives one outcome of a draw; returns false to stop.
typedef bool draw_visit(void *visitor, const void *options, double probability);

// How ranks may share a step (kernels/model/ranks.h): they divide sequences (as replicas), tokens, or layers (as a
// pipeline).
enum parallel_kind { PARALLEL_DATA = 1, PARALLEL_STAGE = 2, PARALLEL_SEQUENCE = 4 };

struct method {
    const char *name;
    const char *summary; // one line
    const char *source;  // the paper
    struct option_table options;
    bool no_gradient;      // computes none and leaves the gradients unchanged
    bool exact;            // computes the gradient of the full loss
    bool by_layer;         // finishes units one by one, from the head down, rather than all in the last chunk
    unsigned parallel;     // how ranks may share a step: a sum of enum parallel_kind
    const char *estimates; // the exact method that it approximates; NULL: none
    enum framework_walk elsewhere; // what another framework has of it; zeroed: nothing

    // Hooks take the method's own options.
    // Checks the options together with the model and the context; NULL: any. Returns false and sets the status:
    // unsupported if they are too large for the model or the context (more segments than layers, a budget above the
    // number of chunks).
    bool (*check)(const void *options, const struct config *config, size_t context, struct status *status);
    // Checks the options for objectives that need every log-prob before any gradient, which would otherwise be
    // biased; NULL: any. Returns false and sets the status.
    bool (*check_sums)(const void *options, struct status *status);
    // The protocol above: adds the gradient of the batch's mean loss to the parameters' gradients.
    void (*run)(struct step *step);
    // Sets options that sample chunks to draw `index` of a trial, which depends only on the options and the index;
    // draw 0 is the options themselves. Returns false if nothing is sampled. NULL: never.
    bool (*draw)(void *options, size_t index);
    // Sets options that sample chunks to candidate `index` for the draw with the maximum memory, exceeded by one
    // draw in a million. Returns false if there are no more. NULL: nothing is sampled.
    bool (*largest_draw)(void *options, const struct config *config, size_t context, size_t index);
    // Visits every possible draw with its probability, as options that sample nothing. Returns false and a status
    // (unsupported) if there are more than max, or if options cannot express one. NULL: nothing is sampled.
    bool (*each_draw)(const void *options, size_t context, size_t max, draw_visit *visit, void *visitor,
                      struct status *status);
    // Limits options for more chunks than the context has, as in papers, to all chunks. NULL: no such option.
    void (*fit)(void *options, size_t context);
    // The total that a share in an option refers to (schedule/options.h): a number of chunks. NULL: no option takes
    // a share.
    size_t (*whole)(const void *options, size_t context);
    // Sets options for the gradient of the full loss. NULL: it always is, or never.
    void (*make_exact)(void *options, size_t context);
    // A lower bound of the peak's bytes per token of context, derived in methods/README.md.
    double (*lower_bound_bytes_per_token)(const struct model *model, const void *options, size_t context);
};

// All methods with a schedule, ending in NULL.
extern const struct method *const methods[];
// A placeholder without a schedule, for which the harness chooses a method.
extern const struct method method_auto;
const struct method *method_find(const char *name);
// Checks that the method with its options computes the objective's gradient, or an unbiased estimate of it. Returns
// false and sets the status.
bool method_check_objective(const struct method *method, const void *options, const struct objective *objective,
                            const void *settings, struct status *status);
// Option `index` over all methods' options, one of each name, in the methods' order; NULL beyond the last. Options
// of the same name have the same type and meaning.
const struct option *methods_option(size_t index);
// The option of this name in any method, or NULL.
const struct option *methods_option_find(const char *name);
// Runs a timed micro-batch, waits for the device and reads the loss. Adds to existing gradients: training_step.h
// zeroes them. Failures are in the device's status.
void method_step(const struct method *method, struct model *model, const struct batch *batch, const void *options,
                 struct step_report *report);
void step_report_free(struct step_report *report);
