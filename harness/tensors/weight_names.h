// Weight names: tensors of a language model as LlamaForCausalLM and its like in transformers name them, whatever a
// file puts before or between these names.
#pragma once
#include <stddef.h>

// The name as a causal language model's, to be freed: "model.layers.0.mlp.up_proj.weight" for
// "layers.0.mlp.up_proj.weight" (saved by AutoModel), "model.language_model.layers.0..." (a model of images or
// sound), "module.model.layers.0..." and "_orig_mod.model.layers.0..." (torch.compile, DDP, FSDP, activation
// checkpoints). NULL: a tensor of another part of the model, such as its vision tower. Any other name is as it was.
char *weight_name(const char *name);
// The other way round, into text: "model.language_model.layers.0..." for "model.layers.0..." in the submodule
// "language_model" of a model of images or sound, as transformers 5 names it there. Modules beside `model`, such as
// the head, keep their names; so do all where submodule is NULL.
void weight_name_within(char *text, size_t bytes, const char *submodule, const char *name);
