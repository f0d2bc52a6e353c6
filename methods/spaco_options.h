// SpaCO's options, also used by its sampler and the enumeration of draws.
#pragma once
#include "methods/schedule/chunk_work.h"

enum sampler { SAMPLER_UNIFORM, SAMPLER_BERNOULLI, SAMPLER_SEQUENTIAL, SAMPLER_FIXED };
enum compensation { COMPENSATION_NONE, COMPENSATION_PAPER, COMPENSATION_CAPPED, COMPENSATION_SEQUENTIAL };
enum loss_scope { LOSS_ALL, LOSS_SAMPLED };

#define DRAWN_CHUNKS_MAX 4096 // maximum number of chunks to draw from

struct spaco_options {
    struct chunk_options common;
    size_t budget;
    enum sampler sampler;
    enum compensation compensation;
    double cap;     // for `capped`
    double minimum; // minimum probability of `sequential`; 0: half of budget / chunks
    enum state_passage state;
    enum loss_scope loss;
    size_t sampler_seed;
    struct index_list drawn_chunks; // for `fixed`
};
