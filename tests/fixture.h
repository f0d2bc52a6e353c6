// Fixture: small models and batches for tests, and gradients read back as one array of f64.
#pragma once
#include "kernels/trainer/random_weights.h"
#include "methods/training_step.h"

// A decoder that exercises everything at small size; change it before fixture_open.
struct fixture {
    struct config config;
    struct lora lora;
    enum quantisation quantisation;
    bool dequantised;
    enum place weights_place, gradients_place, optimizer_place;
    const struct optimizer *optimizer; // NULL: none
    void *optimizer_options;           // of fixture_set_optimizer, until fixture_close
    enum dtype dtype, rounding;        // rounding: the dtype that the random weights are rounded to first
    bool narrow;                       // bf16: gradients are summed in bf16, not in f32
    size_t context, batch_size;
    size_t latent_block;                // of trainer_options
    struct router_losses router_losses; // likewise
    size_t document; // tokens of a document, but for a sequence's first, which is shorter; 0: each sequence is one
    size_t group, prompt; // of so many sequences, one after another, the first tokens are the same; 0: they are not
    const int32_t *targets;            // NULL: the next token
    const struct objective *objective; // NULL: the default
    char settings[96];                 // what it is asked, as "kind=ipo beta=0.2"; the rest is as it is by default
    uint64_t seed;
    const char *device_name;    // NULL: "cpu"
    const struct ranks *ranks;  // NULL: one has all; of several, gradients are of this one's part
    struct row_range sequences; // of the batch_size of all ranks this one's; count 0: all of them
    // Opened:
    struct device *device;
    struct model model;
    struct trainer trainer; // of the model
    struct batch batch;
    int32_t *ids;
    void *objective_settings;
    // For objectives that read them: of rows weights from 0 to 1 and log-probs, of sequences advantages
    // and whether they are desirable.
    double *weights, *old, *reference, *sampling, *advantages;
    double *token_advantages; // read where settings say "advantages=tokens", which is no option
    int32_t *desirable;
    size_t gradient_count;
};

struct fixture fixture_default(void);
// Gives a uniform config's layers this window, but those whose bit of `full_layers` is set; 0: none.
void fixture_set_windows(struct config *config, size_t window, size_t full_layers);
// Makes the layers whose bit is set ones of Gated DeltaNet.
void fixture_set_delta(struct config *config, unsigned layers);
// The number of a kind of mixer in mixers[], and of MLP in mlps[].
size_t fixture_mixer(const char *name);
size_t fixture_mlp(const char *name);
// Gives layers, a bit each, so many experts, of which a token takes `chosen`.
void fixture_set_experts(struct config *config, unsigned layers, size_t experts, size_t chosen);
// Gives it the mixers, norms, activation, scales and windows of number `index` of the families whose layers are not
// Llama's; the family's name, or NULL: there is no such number.
const char *fixture_choose_family(struct fixture *fixture, size_t index);
// Number of these families.
size_t fixture_families(void);
// Those of the family of this name.
void fixture_choose(struct fixture *fixture, const char *family);
// The dtype in which its gradients are summed.
enum dtype fixture_sums(const struct fixture *fixture);
struct trainer_options fixture_trainer_options(const struct fixture *fixture);
void fixture_open(struct fixture *fixture);
void fixture_close(struct fixture *fixture);
// The defaults of a method with what is given as "chunk=128 keep=all", as far as it has such options. Release with
// options_free.
void *fixture_options(const struct method *method, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The model's optimizer from fixture_open on; options as those of a method.
void fixture_set_optimizer(struct fixture *fixture, const struct optimizer *optimizer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// One step from zero; options NULL: the defaults. The gradients of all parameters in order: fixture->gradient_count
// numbers, to be freed.
double *fixture_step(struct fixture *fixture, const char *method, const void *options, struct step_report *report);
// One step by its protocol (methods/training_step.h): as update number `update`, from 1 on; 0: its gradients alone.
void fixture_take_step(struct trainer *trainer, const struct method *method, const struct batch *batch,
                       const void *options, size_t update, struct step_report *report);
// The settings as a struct, and random values of its rows and sequences; fixture_open and fixture_close do this.
void fixture_open_objective(struct fixture *fixture);
void fixture_close_objective(struct fixture *fixture);
// Chooses number `index` of the objectives, each as it is by default, with every choice of each option, with
// another value of each number, and with some of these together. False: there is no such number.
bool fixture_choose_objective(struct fixture *fixture, size_t index);
// Its objective for a batch made of its sequences from `first` on.
void fixture_set_objective(const struct fixture *fixture, struct device *device, struct batch *batch, size_t first);
// Its documents for such a batch, before the objective.
void fixture_set_documents(const struct fixture *fixture, struct device *device, struct batch *batch, size_t first);
// A batch of some of its sequences, with both; the normaliser is of these alone.
void fixture_open_batch(const struct fixture *fixture, struct device *device, struct batch *batch,
                        struct row_range sequences);
// Leaves those of the batch's tokens that are its rank's.
void fixture_share(const struct fixture *fixture, struct device *device, struct batch *batch);
// The gradients as they are.
double *fixture_gradients(struct fixture *fixture);
// So many zeros, and the elements of a tensor; to be freed.
double *zeros(size_t count);
double *numbers_of(struct device *device, struct tensor t);
// A tensor of this shape in the device's dtype; not set.
struct tensor matrix_like(struct device *device, struct tensor shape);
// ||a - b|| / ||b||, and the largest |a - b|.
double relative_l2(const double *a, const double *b, size_t count);
double largest_difference(const double *a, const double *b, size_t count);
