// Weight names: tensors of a language model as LlamaForCausalLM and its like in transformers name them, whatever a
// file puts before or between these names.
#pragma once

// The name as a causal language model's, to be freed: "model.layers.0.mlp.up_proj.weight" for
// "layers.0.mlp.up_proj.weight" (saved by AutoModel), "model.language_model.layers.0..." (a model of images or
// sound), "module.model.layers.0..." and "_orig_mod.model.layers.0..." (torch.compile, DDP, FSDP, activation
// checkpoints). NULL: a tensor of another part of the model, such as its vision tower. Any other name is as it was.
char *weight_name(const char *name);
