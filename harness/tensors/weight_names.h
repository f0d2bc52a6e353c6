// Weight names: maps the tensor names in a file to those of LlamaForCausalLM and similar models in transformers.
#pragma once
#include <stddef.h>

// The causal language model's name, to be freed: "model.layers.0.mlp.up_proj.weight" for
// "layers.0.mlp.up_proj.weight" (saved by AutoModel), "model.language_model.layers.0..." (a model of images or
// sound), "module.model.layers.0..." and "_orig_mod.model.layers.0..." (torch.compile, DDP, FSDP, activation
// checkpoints). NULL: a tensor of another part, such as the vision tower. Other names stay as they are.
char *weight_name(const char *name);
// The inverse: "model.language_model.layers.0..." for "model.layers.0..." in the submodule "language_model" of a
// model of images or sound, as transformers 5 names it. Modules beside `model`, such as the head, keep their names,
// and all do if submodule is NULL.
void weight_name_within(char *text, size_t bytes, const char *submodule, const char *name);
