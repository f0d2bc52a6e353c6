// Shares: what the cards of a data-parallel run divide among themselves, as ZeRO's stages and FSDP have it, and
// what one card gathers of it for a while. A plain division: what other cards send is not on the tape.
#pragma once
#include "kernels/framework/framework_run.h"

// A tensor of which each card has a share from this division on, and else the whole; its shape is the whole one's.
struct value shares_new(struct framework_run *run, enum framework_shards from, const char *name, size_t rows,
                        size_t cols, enum dtype dtype, enum category category);
// The whole weights of a unit (kernels/model/unit_parameters.h), if cards share them: from gather to release in
// forward, and in backward from y's gradient on until x's is there. NULL: there is no such value.
void shares_gather(struct framework_run *run, size_t unit, struct value *x);
void shares_release(struct framework_run *run, size_t unit, struct value *y);
// DDP's buckets, which live as long as the run; and ZeRO's, which lives during backward.
void shares_open_buckets(struct framework_run *run);
void shares_open_reduce_bucket(struct framework_run *run);
void shares_close_reduce_bucket(struct framework_run *run);
