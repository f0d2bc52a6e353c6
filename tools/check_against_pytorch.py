#!/usr/bin/env python3
"""Holds the gradients of `longbp grad` in f64 against PyTorch's autograd: method by method, family by family, and from a
batch file objective by objective.

Run by hand, after `make`:  tools/check_against_pytorch.py [--tolerance 1e-11]
Needs torch, numpy and safetensors; transformers, peft and TRL, if there, are compared too. Exits 1 if a difference is too
large.

The reference is the decoder below, all in f64. transformers' own classes are compared twice: as they are, where
RMSNorm, RoPE's angles, Gemma's embedding scale and eager attention's softmax are computed in f32 whatever the model's
dtype, so that about 1e-6 is all they can show (printed, held against 1e-4); and with those replaced by f64 twins, so
that names, shapes and wiring are theirs.
"""
import argparse
import contextlib
import inspect
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from unittest import mock

os.environ["OMP_NUM_THREADS"] = "1"  # here and of what is started: on tensors so small threads wait for each other

from needed_modules import need

need("numpy", "torch", "safetensors")
import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import objectives_in_pytorch as objectives
import objectives_in_trl

try:
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
except ImportError:
    transformers = None
try:
    import peft
except ImportError:
    peft = None

CONTEXT, BATCH, CHUNK = 100, 2, 32  # the last chunk is shorter
METHODS = [["full"], ["checkpoint"], ["streambp", "--chunk", CHUNK], ["streambp", "--chunk", 7, "--head-chunk", 5],
           ["seco", "--chunk", CHUNK], ["seco", "--chunk", 1], ["seco", "--chunk", CHUNK, "--inner", "checkpoint"],
           ["spaco", "--chunk", CHUNK, "--budget", math.ceil(CONTEXT / CHUNK), "--loss", "all"]]  # all chunks drawn: exact
OBJECTIVE_METHODS = [["streambp", "--chunk", 16, "--head-chunk", 5], ["seco", "--chunk", 16],
                     ["streambp", "--chunk", 7, "--group", 2]]  # the last walks a pair's prompt once
SMALL = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 72, "vocab_size": 256, "hidden_act": "silu", "rms_norm_eps": 1e-5,
         "pad_token_id": 121}  # one of the tokens, whose row of the embedding takes no gradient from it
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
FOLDERS = {  # beside `longbp init`'s own
    "llama, llama3 rope, tied": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "rope_theta": 1e4,
                                 "rope_scaling": LLAMA3, "tie_word_embeddings": True},
    "mistral": {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": None,
                "head_dim": 20},
    "mistral, sliding window": {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 17},
    "phi3": {"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "sliding_window": 17},
    "qwen2": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "rope_theta": 1e6},
    "qwen3, tied": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "rope_theta": 1e6, "head_dim": 16,
                    "tie_word_embeddings": True},
    "qwen3, sliding window above": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 16,
                                    "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
    "qwen2, sliding window between": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"],
                                      "use_sliding_window": True, "sliding_window": 40,
                                      "layer_types": ["full_attention", "sliding_attention", "full_attention"]},
    "olmo2": {"model_type": "olmo2", "architectures": ["Olmo2ForCausalLM"], "rope_theta": 5e5},
    "olmo2, tied": {"model_type": "olmo2", "architectures": ["Olmo2ForCausalLM"], "tie_word_embeddings": True},
    "olmo3, yarn": {"model_type": "olmo3", "architectures": ["Olmo3ForCausalLM"], "sliding_window": 17, "num_hidden_layers": 4,
                    "rope_parameters": {"full_attention": {**YARN, "rope_theta": 1e3},
                                        "sliding_attention": {"rope_type": "default", "rope_theta": 5e2}}},
    "qwen3, yarn": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "rope_theta": 1e3, "head_dim": 16,
                    "rope_scaling": {**YARN, "beta_fast": 8.0, "attention_factor": 1.3}},
    "gemma": {"model_type": "gemma", "architectures": ["GemmaForCausalLM"], "head_dim": 16,
              "hidden_act": "gelu_pytorch_tanh"},
    "gemma2": {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "head_dim": 20, "query_pre_attn_scalar": 13,
               "sliding_window": 17, "num_hidden_layers": 4, "attn_logit_softcapping": 0.02, "final_logit_softcapping": 0.5},
    "gemma2, caps left out": {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "head_dim": 16,
                              "attn_logit_softcapping": None, "final_logit_softcapping": None, "sliding_window": 40},
    "granite_swa": {"model_type": "granite_swa", "architectures": ["GraniteSWAForCausalLM"], "sliding_window": 17,
                    "attention_multiplier": 0.4, "embedding_multiplier": 3.0, "num_hidden_layers": 5},
    "gemma3": {"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "head_dim": 20,
               "query_pre_attn_scalar": 13, "sliding_window": 17, "num_hidden_layers": 6, "rope_theta": 1e6,
               "rope_local_base_freq": 1e2, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "gemma3, not tied": {"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "head_dim": 16,
                         "query_pre_attn_scalar": 16, "sliding_window": 40, "tie_word_embeddings": False,
                         "layer_types": ["full_attention", "sliding_attention", "full_attention"]},
}
COHERE = {"model_type": "cohere", "architectures": ["CohereForCausalLM"], "layer_norm_eps": 1e-3, "logit_scale": 0.4}
FOLDERS["cohere, biases"] = {**COHERE, "attention_bias": True, "use_qk_norm": False}
FOLDERS["cohere2"] = {**COHERE, "model_type": "cohere2", "architectures": ["Cohere2ForCausalLM"], "sliding_window": 17,
                      "num_hidden_layers": 4}
GEMMA4 = {"model_type": "gemma4_text", "architectures": ["Gemma4ForCausalLM"], "head_dim": 12, "global_head_dim": 16,
          "hidden_size_per_layer_input": 0, "sliding_window": 17, "num_hidden_layers": 7, "final_logit_softcapping": 0.5}
FOLDERS["gemma4, keys are values"] = {**GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 1}
FOLDERS["gemma4"] = {**GEMMA4, "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e3},
                                                   "sliding_attention": {"rope_type": "default", "rope_theta": 1e2}}}
FOLDERS["qwen3_5"] = {"model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], "num_hidden_layers": 4,
                      "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 12,
                      "linear_value_head_dim": 10, "attention_bias": True, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4,
                                                                       "partial_rotary_factor": 1.0}}
FOLDERS["olmo_hybrid"] = {"model_type": "olmo_hybrid", "architectures": ["OlmoHybridForCausalLM"], "num_hidden_layers": 4, "head_dim": 16,
                          "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 12,
                          "linear_value_head_dim": 10, "rope_parameters": {"rope_type": "default", "rope_theta": None}}
LATENT = {"num_key_value_heads": 4, "q_lora_rank": 20, "kv_lora_rank": 24, "qk_nope_head_dim": 10, "qk_rope_head_dim": 6,
          "v_head_dim": 7, "first_k_dense_replace": 3}  # layers are dense
FOLDERS["deepseek_v2, biases"] = {"model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], **LATENT, "q_lora_rank": None,
                                  "attention_bias": True, "mlp_bias": True}
FOLDERS["deepseek_v3, yarn"] = {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], **LATENT, "rope_scaling": {
    **YARN, "mscale": 1.0, "mscale_all_dim": 0.7}}
DELTA = {key: value for key, value in FOLDERS["qwen3_5"].items() if key not in ("model_type", "architectures")}
BALANCED = {"output_router_logits": True, "router_aux_loss_coef": 0.3}  # with the loss that balances experts
MIXTURES = {  # of experts
    "mixtral": {"model_type": "mixtral", "sliding_window": 17, "num_local_experts": 5, "num_experts_per_tok": 2},
    "mixtral, balanced": {"model_type": "mixtral", "num_local_experts": 5, "num_experts_per_tok": 2, **BALANCED},
    "qwen3_moe, some layers dense, balanced": {
        "model_type": "qwen3_moe", "head_dim": 16, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
        "num_hidden_layers": 4, "mlp_only_layers": [3], "decoder_sparse_step": 2, **BALANCED},
    "qwen3_moe": {"model_type": "qwen3_moe", "head_dim": 16, "num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 20,
                  "norm_topk_prob": True},
    "qwen3_moe, some layers dense, weights not normed": {
        "model_type": "qwen3_moe", "head_dim": 16, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
        "num_hidden_layers": 4, "mlp_only_layers": [3], "decoder_sparse_step": 2, "use_sliding_window": True, "sliding_window": 9},
    "olmoe": {"model_type": "olmoe", "num_experts": 6, "num_experts_per_tok": 6},
    "deepseek_v2_moe, groups": {"model_type": "deepseek_v2", **LATENT, "first_k_dense_replace": 1, "n_routed_experts": 8, "num_experts_per_tok": 3,
                            "moe_intermediate_size": 20, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2,
                            "routed_scaling_factor": 3.0},
    "deepseek_v3_moe, groups": {"model_type": "deepseek_v3", **LATENT, "first_k_dense_replace": 1, "n_routed_experts": 8, "num_experts_per_tok": 3,
                            "moe_intermediate_size": 20, "n_group": 4, "topk_group": 2, "n_shared_experts": 2},
    "glm4_moe_lite": {"model_type": "glm4_moe_lite", **{key: value for key, value in LATENT.items() if key != "first_k_dense_replace"},
                      "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20, "norm_topk_prob": False},
    "kimi_linear_moe": {"model_type": "kimi_linear", **LATENT, "q_lora_rank": None, "mlp_layer_types": ["sparse", "dense", "sparse"],
                        "layer_types": ["full_attention"] * 3, "num_local_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20},
    "glm4_moe": {"model_type": "glm4_moe", "head_dim": 16, "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
                 "use_qk_norm": True, "attention_bias": True, "routed_scaling_factor": 1.5},
    "minimax_m2_moe": {"model_type": "minimax_m2", "head_dim": 16, "rotary_dim": 8, "num_local_experts": 6, "num_experts_per_tok": 2},
    "dots1_moe": {"model_type": "dots1", "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20, "n_shared_experts": 1,
                  "first_k_dense_replace": 1, "sliding_window": 9, "max_window_layers": 2},
    "ernie4_5_moe": {"model_type": "ernie4_5_moe", "moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 20, "moe_num_shared_experts": 1},
    "granitemoe": {"model_type": "granitemoe", "num_local_experts": 6, "num_experts_per_tok": 3, "attention_multiplier": 0.4,
                   "embedding_multiplier": 3.0, "residual_multiplier": 0.22, "logits_scaling": 4.0},
    "qwen3_5_moe": {"model_type": "qwen3_5_moe_text", **DELTA, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
                    "shared_expert_intermediate_size": 28},
    "qwen3_next_moe": {"model_type": "qwen3_next", **DELTA, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
                       "shared_expert_intermediate_size": 28, "mlp_only_layers": [1]},
    "gpt_oss, MXFP4": {"model_type": "gpt_oss", "hidden_size": 64, "intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2},
    "gpt_oss, balanced": {"model_type": "gpt_oss", "head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 2, **BALANCED},
    "gpt_oss": {"model_type": "gpt_oss", "head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 2, "sliding_window": 17,
                "swiglu_limit": 0.02, "rope_parameters": {**YARN, "rope_theta": 1e3, "truncate": False}},
    "qwen2_moe": {"model_type": "qwen2_moe", "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
                  "shared_expert_intermediate_size": 28, "use_sliding_window": True, "sliding_window": 9},
}
FOLDERS |= MIXTURES
CLIP = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 16,
        "patch_size": 8}
TOWER = {"model_type": "clip_vision_model", **CLIP}
SIGLIP = {"model_type": "siglip_vision_model", **CLIP}
QWEN_TOWER = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "patch_size": 4, "out_hidden_size": 48}
M_ROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 2, 2]}
COMPOSITES = {  # models of images or sound, of which the language model is read: what is not SMALL's in its text_config, the rest
    "gemma3": ({"head_dim": 20, "query_pre_attn_scalar": 13, "sliding_window": 17, "num_hidden_layers": 6},
               {"vision_config": SIGLIP, "mm_tokens_per_image": 4}),
    "gemma4": ({**GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 1, "pad_token_id": 0},
               {"vision_config": None, "audio_config": None}),
    "llava": ({"model_type": "llama"}, {"vision_config": TOWER}),
    "llava_next": ({"model_type": "mistral", "sliding_window": 17}, {"vision_config": TOWER}),
    "llava_onevision": ({"model_type": "qwen2", "tie_word_embeddings": True}, {"vision_config": SIGLIP}),
    "vipllava": ({"model_type": "llama"}, {"vision_config": TOWER, "vision_feature_layers": [-1]}),
    "mistral3": ({"model_type": "mistral", "sliding_window": None, "head_dim": 16},
                 {"vision_config": {"model_type": "pixtral", **CLIP}, "tie_word_embeddings": False}),
    "internvl": ({"model_type": "qwen2"}, {"vision_config": {**CLIP, "image_size": [16, 16], "patch_size": [8, 8]},
                                           "tie_word_embeddings": False}),
    "idefics3": ({"model_type": "llama"}, {"vision_config": CLIP, "scale_factor": 2}),
    "smolvlm": ({"model_type": "llama"}, {"vision_config": CLIP, "scale_factor": 2, "tie_word_embeddings": True}),
    "qwen2_audio": ({"model_type": "qwen2"}, {"audio_config": {"d_model": 16, "encoder_layers": 1, "encoder_ffn_dim": 16,
                                                               "encoder_attention_heads": 2, "num_mel_bins": 8}}),
    "qwen2_vl": ({"rope_parameters": M_ROPE}, {"vision_config": {**QWEN_TOWER, "embed_dim": 16, "hidden_size": 48}}),
    "qwen2_5_vl": ({"rope_parameters": M_ROPE}, {"vision_config": QWEN_TOWER}),
    "qwen3_vl": ({"head_dim": 16, "rope_parameters": {**M_ROPE, "mrope_section": [4, 2, 2]}},
                 {"vision_config": {**QWEN_TOWER, "deepstack_visual_indexes": [0], "num_position_embeddings": 16},
                  "tie_word_embeddings": True}),
    "minicpmv4_6": ({key: value for key, value in FOLDERS["qwen3_5"].items() if key != "architectures"},
                    {"vision_config": {**CLIP, "insert_layer_id": 0}, "insert_layer_id": 0, "image_size": 16,
                     "tie_word_embeddings": True}),
}
FOLDERS["phi3, longrope"] = {"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "partial_rotary_factor": 0.5,
                             "original_max_position_embeddings": 64, "max_position_embeddings": 256, "rope_scaling": {
                                 "type": "longrope", "short_factor": [1.0, 1.2, 1.5], "long_factor": [2.0, 3.5, 4.0]}}
FOLDERS["ministral3"] = {"model_type": "ministral3", "architectures": ["Ministral3ForCausalLM"], "head_dim": 16,
                         "sliding_window": 40, "rope_parameters": {**YARN, "rope_theta": 1e3, "mscale": 1.0, "mscale_all_dim": 1.0,
                                                                   "llama_4_scaling_beta": 0.3, "original_max_position_embeddings": 16}}
FOLDERS["internlm3"] = {"model_type": "internlm3", "architectures": ["LlamaForCausalLM"], "head_dim": 16, "qkv_bias": True,
                        "bias": True}
FOLDERS["internlm3, dynamic rope"] = {**FOLDERS["internlm3"], "max_position_embeddings": 40, "rope_scaling": {
    "rope_type": "dynamic", "factor": 6.0}}  # beyond it, but for packed documents
GPT_OSS = "granite_swa, gpt_oss's attention"
FOLDERS[GPT_OSS] = {"model_type": "granite_swa", "architectures": ["GraniteSWAForCausalLM"], "head_dim": 16, "sliding_window": 17,
                    "attention_multiplier": 0.25, "embedding_multiplier": 1.0, "attention_bias": True, "tie_word_embeddings": False,
                    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                    "rope_parameters": {**YARN, "rope_theta": 1e3, "truncate": False}}
MXFP4 = "gpt_oss, MXFP4"  # which transformers trains on a card alone
WRAPPED = "llama, saved compiled and distributed"  # whose names transformers takes for none of the model's
LLAMAS = ("llama", "mistral", "qwen2", "qwen3")  # whose random folders are made without transformers, too
GLM = ("glm", "glm4")
HYBRIDS = ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next")  # of Gated DeltaNet
INTERLEAVED = (*GLM, "ernie4_5", "ernie4_5_moe", "cohere", "cohere2")
LATENTS = ("deepseek_v2", "deepseek_v3", "youtu", "glm4_moe_lite", "kimi_linear", "minicpm3")  # latent attention
DOCUMENT = 37  # tokens
# Adapters of qwen3, as --lora DIR takes them. The first is made without peft, too.
ADAPTERS = {"list": {"target_modules": ["q_proj", "v_proj", "down_proj"]},
            "regular expression, rslora": {"target_modules": r".*\.(k|o|gate)_proj$", "use_rslora": True},
            "all-linear": {"target_modules": "all-linear"}}
LORA = {"r": 4, "lora_alpha": 12}
EXPERT_ADAPTERS = {  # of mixtures, by family; peft's names of what it puts factors on
    "qwen3_moe, some layers dense, weights not normed": {"all-linear": {"target_modules": "all-linear"}, "experts' down_proj": {
        "target_modules": ["q_proj"], "target_parameters": ["mlp.experts.down_proj"]}},
    "mixtral": {"parameters": {"target_modules": [], "target_parameters": ["gate.weight", "experts.gate_up_proj"], "use_rslora": True}},
    "qwen2_moe": {"shared": {"target_modules": ["v_proj", "gate_proj", "up_proj", "down_proj", "shared_expert_gate"],
                             "target_parameters": ["gate_up_proj", "down_proj"]}},
    "glm4_moe": {"shared": {"target_modules": ["v_proj"], "target_parameters": [
        f"shared_experts.{name}_proj.weight" for name in ("gate", "up", "down")]}},
    "gpt_oss": {"parameters": {"target_modules": ["q_proj"], "target_parameters": ["experts.gate_up_proj", "experts.down_proj"]}}}
LONGBP = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "longbp")


def rope_of(config, layer):
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return rope[config["layer_types"][layer]] if "full_attention" in rope else rope


def partial_of(config):
    """The share of a head that turns."""
    standard = 0.5 if config["model_type"] in (*GLM, "glm4_moe") else 1
    return (config.get("rope_parameters") or {}).get("partial_rotary_factor", config.get("partial_rotary_factor", standard))


def interleaved(config):
    """Whether neighbours turn."""
    return config["model_type"] in (*INTERLEAVED, "deepseek_v2") or config.get("rope_interleave", False)


def has_rope(config, layer):
    if config["model_type"] == "kimi_linear":
        return False
    if config["model_type"] == "olmo_hybrid":
        return rope_of(config, layer)["rope_theta"] is not None
    if config["model_type"] == "smollm3":
        listed = config.get("no_rope_layers")
        return bool(listed[layer]) if listed else (layer + 1) % config.get("no_rope_layer_interval", 4) != 0
    if config["model_type"] == "cohere2":
        return window_of(config, layer) is not None
    return config["model_type"] != "exaone4" or config.get("sliding_window") is None or window_of(config, layer) is not None


def layer_head_dim(config, layer):
    """Of Gemma 4's layers without a window another, which newer files have by layer."""
    if config["model_type"] != "gemma4_text" or window_of(config, layer):
        return config["head_dim"]
    return config["per_layer_config"][str(layer)]["head_dim"] if "per_layer_config" in config else config["global_head_dim"]


def rope_frequencies(config, layer, longest):
    """longest: tokens of the longest document."""
    rope = rope_of(config, layer)
    theta = rope.get("rope_theta", config.get("rope_theta", 1e4))
    dim = int(layer_head_dim(config, layer) * partial_of(config))
    if rope.get("rope_type") == "dynamic":
        original = config["max_position_embeddings"]
        theta *= (rope["factor"] * max(int(longest), original) / original - (rope["factor"] - 1)) ** (dim / (dim - 2))
    frequencies = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if rope.get("rope_type") == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        turns = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)
        blend = ((turns - low) / (high - low)).clamp(0, 1)
        frequencies = blend * frequencies + (1 - blend) * frequencies / rope["factor"]
    if rope.get("rope_type") == "yarn":  # a ramp between the two places that turn beta_fast and beta_slow times
        place = lambda turns: dim * math.log(rope["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(theta))
        first, last = place(rope.get("beta_fast") or 32), place(rope.get("beta_slow") or 1)
        if rope.get("truncate", True):
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, dim - 1)
        stretched = ((torch.arange(dim // 2, dtype=torch.float64) - first) / (last - first or 0.001)).clamp(0, 1)
        frequencies = (1 - stretched) * frequencies + stretched * frequencies / rope["factor"]
    if rope.get("rope_type") == "longrope":
        longer = longest > rope["original_max_position_embeddings"]
        return frequencies / torch.tensor(rope["long_factor" if longer else "short_factor"], dtype=torch.float64)
    if rope.get("rope_type") == "proportional":  # pairs of whole heads, of which the first ones turn
        dim = layer_head_dim(config, layer)
        frequencies = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        frequencies[int(rope.get("partial_rotary_factor", 1) * dim // 2):] = 0
    return frequencies / rope.get("factor", 1) if rope.get("rope_type") in ("linear", "proportional") else frequencies


def longrope_gain(config, rope):
    original = rope["original_max_position_embeddings"]
    factor = rope.get("factor") or config["max_position_embeddings"] / original
    return rope.get("attention_factor") or (math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1)


def yarn_gain(rope):
    by = lambda scale: 0.1 * scale * math.log(rope["factor"]) + 1
    both = rope.get("mscale") and rope.get("mscale_all_dim")
    return rope.get("attention_factor") or (by(rope["mscale"]) / by(rope["mscale_all_dim"]) if both else by(1))


def rope_angles(config, positions, layer):
    """positions: [B, T]. Their cosines and sines, times YaRN's or longrope's factor."""
    angles = positions[..., None] * rope_frequencies(config, layer, positions.max() + 1)
    angles, rope = torch.cat([angles, angles], -1), rope_of(config, layer)
    gain = {"yarn": yarn_gain, "longrope": lambda rope: longrope_gain(config, rope)}.get(rope.get("rope_type"), lambda rope: 1)(rope)
    return angles.cos() * gain, angles.sin() * gain


def positions_of(documents):
    """documents: [B, T], the number of each token's; where in it the token stands."""
    tokens = torch.arange(documents.shape[1])
    return tokens - (documents[:, None, :] < documents[:, :, None]).sum(-1)


def position_scale(config, layer, positions):
    """The factors of queries, [B, 1, T, 1]."""
    if config["model_type"] != "ministral3":
        return 1
    rope = rope_of(config, layer)
    steps = torch.floor(positions.double() / rope["original_max_position_embeddings"])
    return (1 + rope["llama_4_scaling_beta"] * torch.log(1 + steps))[:, None, :, None]


def window_of(config, layer):
    """How many keys a query sees; None: all."""
    window, types = config.get("sliding_window"), config.get("layer_types")
    if config["model_type"] in ("mistral", "ministral3", "phi3", "mixtral"):
        return window
    if config["model_type"] in ("dots1", "gpt_oss"):
        return window if types[layer] == "sliding_attention" else None
    if config["model_type"] == "qwen3_moe":
        return window if config.get("use_sliding_window") else None
    if not config.get("use_sliding_window") and config["model_type"] not in ("gemma2", "gemma3_text", "gemma4_text", "olmo3", "ministral", "granite_swa", "exaone4", "cohere2"):
        return None
    if types:
        return window if types[layer] == "sliding_attention" else None
    return window if layer >= config["max_window_layers"] else None


def seen(documents, window):
    """[B, T, T]: whether a query sees a key."""
    t = torch.arange(documents.shape[1])
    causal = (t[None, :] <= t[:, None]) & (t[None, :] > t[:, None] - (window or len(t)))
    return causal & (documents[:, None, :] == documents[:, :, None])


def rms_norm(x, gain, epsilon):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * gain


def delta_rule(q, k, v, g, beta):
    """The gated delta rule, token by token. q, k: [B, T, H, K]; v: [B, T, H, V]; g, beta: [B, T, H]."""
    state, outputs = 0, []
    for t in range(q.shape[1]):
        state = state * g[:, t, :, None, None].exp()
        kept = (state * k[:, t, :, :, None]).sum(-2)
        state = state + k[:, t, :, :, None] * (beta[:, t, :, None] * (v[:, t] - kept))[:, :, None, :]
        outputs.append((state * q[:, t, :, :, None]).sum(-2))
    return torch.stack(outputs, 1)


def delta_net(weights, config, at, h, linear):
    """What Gated DeltaNet adds to x, of h, its norm: [B, T, d]."""
    heads, value_heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    at += "linear_attn."
    split = config["model_type"] == "olmo_hybrid"  # projections apart
    named = lambda name: at + ({"in_proj_z": "g_proj", "in_proj_b": "b_proj", "in_proj_a": "a_proj", "norm": "o_norm", "out_proj": "o_proj"}[name]
                               if split else name)
    qkv = torch.cat([linear(f"{at}{p}_proj", h) for p in "qkv"], -1) if split else linear(at + "in_proj_qkv", h)
    rows = F.pad(qkv, (0, 0, 3, 0))
    taps = weights[at + "conv1d.weight"][:, 0]
    qkv = F.silu(sum(taps[:, j] * rows[:, j:j + h.shape[1]] for j in range(4)))
    keys = heads * config["linear_key_head_dim"]
    q, k, v = qkv.split([keys, keys, value_heads * config["linear_value_head_dim"]], -1)
    q, k = (x.unflatten(-1, (heads, -1)) for x in (q, k))
    q, k = (x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for x in (q, k))
    q, k = (x.repeat_interleave(value_heads // heads, 2) for x in (q / math.sqrt(config["linear_key_head_dim"]), k))
    g = -weights[at + "A_log"].exp() * F.softplus(linear(named("in_proj_a"), h) + weights[at + "dt_bias"])
    beta = linear(named("in_proj_b"), h).sigmoid() * (2 if config.get("linear_allow_neg_eigval") else 1)
    o = delta_rule(q, k, v.unflatten(-1, (value_heads, -1)), g, beta)
    o = rms_norm(o, weights[named("norm") + ".weight"], 1e-5 if split else config["rms_norm_eps"])
    return linear(named("out_proj"), (o * F.silu(linear(named("in_proj_z"), h)).unflatten(-1, (value_heads, -1))).flatten(2))


def mixtures(tensors, config):
    """Tensors of experts as longbp has them: for all experts at once, under the names of Qwen; and all others."""
    found, experts = {}, {}
    for name, w in tensors.items():
        name = name.replace(".block_sparse_moe.", ".mlp.").replace(".mlp.router.layer.", ".mlp.gate.").replace(".mlp.router.", ".mlp.gate.")
        name = name.replace(".mlp.shared_experts.", ".mlp.shared_expert.").replace(".mlp.gate.moe_statics.", ".mlp.gate.")
        name = name.replace(".mlp.moe_statics.", ".mlp.gate.").replace(".mlp.e_score", ".mlp.gate.e_score")
        name = name.replace(".mlp.input_linear.weight", ".mlp.experts.gate_up_proj").replace(".mlp.output_linear.weight", ".mlp.experts.down_proj")
        for short, long in (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")):
            name = re.sub(rf"(mlp\.experts\.\d+)\.{short}\.", rf"\1.{long}.", name)
        one = re.fullmatch(r"(.*\.mlp\.experts)\.(\d+)\.(\w+)_proj\.weight", name)
        if one:
            experts.setdefault(one[1], {})[int(one[2]), one[3]] = w
        elif ".mlp.experts." in name and ".lora_" not in name:
            if config["model_type"] == "gpt_oss":
                w = w.transpose(1, 2) if w.dim() == 3 else w
                w = torch.cat([w[:, ::2], w[:, 1::2]], 1) if "gate_up" in name else w
            found[name] = w.flatten() if name.endswith("_bias") else w.flatten(0, 1)
        else:
            found[name] = w
    for name in [name for name in found if name.endswith(("in_proj_qkvz.weight", "in_proj_ba.weight"))]:
        heads, w, at = config["linear_num_key_heads"], found.pop(name), name[:name.rindex("in_proj_")]
        keys, each = config["linear_key_head_dim"], config["linear_num_value_heads"] // heads
        values, states = each * config["linear_value_head_dim"], name.endswith("qkvz.weight")
        parts = w.unflatten(0, (heads, -1)).split([keys, keys, values, values] if states else [each, each], 1)
        *first, last = (part.flatten(0, 1) for part in parts)
        found |= {f"{at}in_proj_{'qkv' if states else 'b'}.weight": torch.cat(first), f"{at}in_proj_{'z' if states else 'a'}.weight": last}
    for at, own in experts.items():
        count = len(own) // 3
        found[at + ".gate_up_proj"] = torch.cat([own[e, part] for e in range(count) for part in ("gate", "up")])
        found[at + ".down_proj"] = torch.cat([own[e, "down"] for e in range(count)])
    return found


def routing(config, z, bias):
    """Which experts each row takes, and with what weight: [n, k] each. z: logits; bias: of the choice, or None."""
    config = {**config, **{name: config[other] for name, other in (("num_experts_per_tok", "moe_k"), ("n_group", "num_expert_group"),
              ("num_experts_per_tok", "num_experts_per_token"), ("norm_topk_prob", "moe_renormalize")) if other in config}}
    family, k = config["model_type"], config["num_experts_per_tok"]
    sigmoid = family in ("deepseek_v3", "glm4_moe", "glm4_moe_lite", "kimi_linear", "dots1", "minimax_m2")
    scores = z.sigmoid() if sigmoid else z.softmax(-1)
    choice = scores if bias is None else scores + bias.flatten()
    groups = config.get("n_group") or 1
    if groups > 1 and config.get("topk_method") != "greedy":
        best = choice.unflatten(-1, (groups, -1)).topk(2 if sigmoid else 1, -1)[0].sum(-1)
        top = torch.zeros_like(best, dtype=torch.bool).scatter(-1, best.topk(config["topk_group"], -1)[1], True)
        choice = choice.masked_fill(~top.repeat_interleave(z.shape[-1] // groups, -1), -math.inf)
    taken = choice.topk(k, -1)[1]
    w = scores.gather(-1, taken)
    normed = family in ("mixtral", "gpt_oss", "granitemoe", "minimax_m2", "ernie4_5_moe", "qwen3_5_moe_text") or \
        (family != "deepseek_v2" and config.get("norm_topk_prob"))
    return taken, (w / w.sum(-1, keepdim=True) if normed else w) * config.get("routed_scaling_factor", 1)


ROUTED = []  # logits and choices of the decoder's layers with experts


def balancing(config):
    """The loss that transformers adds to that of tokens, of the decoder's last run; 0: none."""
    if not config.get("output_router_logits") or not ROUTED:
        return 0
    z, taken = (torch.cat(part) for part in zip(*ROUTED))
    f = torch.bincount(taken.flatten(), minlength=z.shape[-1]).double() / len(z)
    return config["router_aux_loss_coef"] * z.shape[-1] * (f * z.softmax(-1).mean(0)).sum()


def mixture(weights, config, at, h, act, linear):
    """The MLP of a layer with experts, of h: [B, T, d]."""
    rows, at = h.flatten(0, 1), at + "mlp."
    z = F.linear(rows, weights[at + "gate.weight"], weights.get(at + "gate.bias"))
    taken, w = routing(config, z, weights.get(at + "gate.e_score_correction_bias"))
    ROUTED.append((z, taken))
    up, down = (weights[at + f"experts.{p}_proj"].unflatten(0, (z.shape[-1], -1)) for p in ("gate_up", "down"))
    y = torch.zeros_like(rows)
    for e in range(z.shape[-1]):
        at_token, place = torch.where(taken == e)
        biases = [b if b is None else b.unflatten(0, (z.shape[-1], -1))[e] for b in
                  (weights.get(at + f"experts.{p}_proj_bias") for p in ("gate_up", "down"))]
        g, u = F.linear(rows[at_token], up[e], biases[0]).chunk(2, -1)
        if config["model_type"] == "gpt_oss":
            g, u = g.clamp(max=config["swiglu_limit"]), u.clamp(-config["swiglu_limit"], config["swiglu_limit"])
            m = (u + 1) * g * torch.sigmoid(config["swiglu_alpha"] * g)
        else:
            m = act(g) * u
        y = y.index_add(0, at_token, F.linear(m, down[e], biases[1]) * w[at_token, place, None])
    if at + "shared_expert.up_proj.weight" in weights:
        shared = linear(at + "shared_expert.down_proj", act(linear(at + "shared_expert.gate_proj", rows)) *
                        linear(at + "shared_expert.up_proj", rows))
        y = y + (shared * linear(at + "shared_expert_gate", rows).sigmoid() if at + "shared_expert_gate.weight" in weights else shared)
    return y.view_as(h)


def latent_keys(weights, config, at, h, linear):
    """Queries, keys and values of all heads, before the rotation of their last qk_rope_head_dim numbers: [B, H, T, D]."""
    latent_norm = lambda name, x: rms_norm(x, weights[f"{at}{name}.weight"], 1e-6)  # whatever the model's
    heads = lambda x: x.unflatten(-1, (config["num_attention_heads"], -1)).transpose(1, 2)
    by_latent = config.get("q_lora_rank") is not None
    q = linear(at + "q_b_proj", latent_norm("q_a_layernorm", linear(at + "q_a_proj", h))) if by_latent else linear(at + "q_proj", h)
    c, shared = linear(at + "kv_a_proj_with_mqa", h).split([config["kv_lora_rank"], config["qk_rope_head_dim"]], -1)
    own, v = heads(linear(at + "kv_b_proj", latent_norm("kv_a_layernorm", c))).split(
        [config["qk_nope_head_dim"], config["v_head_dim"]], -1)
    shared = shared[:, None].expand(-1, own.shape[1], -1, -1)
    return heads(q), torch.cat([own, shared], -1), v


def latent_scale(config):
    """Of scores, before YaRN's square."""
    rope = rope_of(config, 0)
    scaled = rope.get("rope_type", "default") != "default" and rope["factor"] > 1
    gain = 0.1 * rope.get("mscale_all_dim", 0) * math.log(rope["factor"]) + 1 if scaled else 1
    return gain ** 2 / math.sqrt(config["qk_nope_head_dim"] + config["qk_rope_head_dim"])


def decoder(weights, config, ids, documents, scale=None):
    """Logits [B, T, V], as kernels/README.md writes it down; LoRA factors in weights are applied,
    their product times scale."""
    batch, context = ids.shape
    heads, kv_heads, dim = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    gemma, olmo = config["model_type"].startswith("gemma"), config["model_type"].startswith("olmo")
    gemma3, hybrid = config["model_type"] == "gemma3_text", config["model_type"] in HYBRIDS
    gemma4, cohere = config["model_type"] == "gemma4_text", config["model_type"].startswith("cohere")
    around = gemma3 or gemma4 or config["model_type"] in ("gemma2", "glm4")  # norms before and after
    after = config["model_type"].startswith(("olmo2", "olmo3", "olmo_hybrid", "exaone"))
    mixed, mlp_in, mlp_out = ("post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm") \
        if config["model_type"] == "glm4" else ("post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
    residual, latent, depth = config.get("residual_multiplier", 1), config["model_type"] in LATENTS, config["num_hidden_layers"]
    if config["model_type"] == "minicpm3":
        residual = config["scale_depth"] / math.sqrt(depth)
    attention_scale = config.get("attention_multiplier") or 1 / math.sqrt(config["query_pre_attn_scalar"] if gemma3 or config["model_type"] == "gemma2" else dim)
    attention_scale = 1 if gemma4 else attention_scale
    attention_scale = latent_scale(config) if latent else attention_scale
    embedding_scale = math.sqrt(config["hidden_size"]) if gemma else config.get("embedding_multiplier", config.get("scale_emb", 1))
    act = (lambda x: F.gelu(x, approximate="tanh")) if gemma else F.silu

    def norm(name, x):
        if cohere:
            x = x - x.mean(-1, keepdim=True)
        return rms_norm(x, weights[name + ".weight"] + (gemma and not gemma4 or hybrid), config["layer_norm_eps" if cohere else "rms_norm_eps"])

    def linear(name, x):
        y = F.linear(x, weights[name + ".weight"], weights.get(name + ".bias"))
        a = weights.get(f"base_model.model.{name}.lora_A.weight")
        if a is not None:
            y = y + scale * x @ a.T @ weights[f"base_model.model.{name}.lora_B.weight"].T
        return y

    def capped(x, cap):
        return torch.tanh(x / cap) * cap if cap else x

    def rotate(x, angles):
        turning = angles[0].shape[-1]
        x, rest = x[..., :turning], x[..., turning:]
        if interleaved(config):
            cosine, sine = (a[..., :turning // 2].repeat_interleave(2, -1) for a in angles)
            turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
        else:
            (cosine, sine), turned = angles, torch.cat([-x[..., turning // 2:], x[..., :turning // 2]], -1)
        return torch.cat([x * cosine + turned * sine, rest], -1)

    x = F.embedding(ids, weights["model.embed_tokens.weight"], config.get("pad_token_id")) * embedding_scale
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        delta = (hybrid or config["model_type"] == "olmo_hybrid") and config["layer_types"][layer] == "linear_attention"
        h = x if after and not delta else norm(at + "input_layernorm", x)
        mlp = lambda h: (mixture(weights, config, at, h, act, linear) if at + "mlp.gate.weight" in weights else
                         linear(at + "mlp.down_proj", act(linear(at + "mlp.gate_proj", h)) * linear(at + "mlp.up_proj", h)))
        if delta:
            x = x + delta_net(weights, config, at, h, linear)
            x = x + mlp(norm(at + "post_attention_layernorm", x))
            continue
        if latent:
            q, k, v = latent_keys(weights, config, at + "self_attn.", h, linear)
        else:
            dim = layer_head_dim(config, layer)
            q, k, v = (linear(f"{at}self_attn.{p}_proj", h) for p in ("qkv" if f"{at}self_attn.v_proj.weight" in weights else "qkk"))
        if hybrid:
            q, gate = (x.flatten(2) for x in q.unflatten(-1, (heads, 2, dim)).unbind(3))
        if olmo or config["model_type"] == "minimax_m2":
            q, k = norm(at + "self_attn.q_norm", q), norm(at + "self_attn.k_norm", k)
        if not latent:
            q, k, v = (x.view(batch, context, -1, dim).transpose(1, 2) for x in (q, k, v))
        if gemma4:
            v = rms_norm(v, 1, config["rms_norm_eps"])
        if config["model_type"] in ("qwen3", "exaone4", "qwen3_moe", "dots1") or config.get("use_qk_norm") or gemma3 or gemma4 or hybrid:
            q, k = norm(at + "self_attn.q_norm", q), norm(at + "self_attn.k_norm", k)
        if has_rope(config, layer):
            first = config["qk_nope_head_dim"] if latent else 0
            angles = [x[:, None] for x in rope_angles(config, positions_of(documents), layer)]
            q, k = (torch.cat([x[..., :first], rotate(x[..., first:], angles)], -1) for x in (q, k))
        q = q * position_scale(config, layer, positions_of(documents))
        k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in (k, v))
        scores = capped(q @ k.transpose(2, 3) * attention_scale, config.get("attn_logit_softcapping"))
        scores = scores.masked_fill(~seen(documents, window_of(config, layer))[:, None], -math.inf)
        sinks = weights.get(at + "self_attn.sinks")
        if sinks is not None:  # a key without a value
            scores = torch.cat([scores, sinks.view(1, -1, 1, 1).expand(batch, -1, context, 1)], -1)
        o = (scores.softmax(-1)[..., :context] @ v).transpose(1, 2).reshape(batch, context, -1)
        o = linear(at + "self_attn.o_proj", o * gate.sigmoid() if hybrid else o)
        x = x + (norm(at + mixed, o) if after or around else residual * o)
        if not cohere:  # whose MLP reads what attention reads
            h = x if after else norm(at + (mlp_in if around else "post_attention_layernorm"), x)
        y = mlp(h)
        x = x + (norm(at + mlp_out, y) if after or around else residual * y)
        x = x * weights.get(at + "layer_scalar", 1)
    x = norm("model.norm", x)
    logits = F.linear(x, weights.get("lm_head.weight", weights["model.embed_tokens.weight"]))
    logits_scaling = config["hidden_size"] / config["dim_model_base"] if config["model_type"] == "minicpm3" else config.get("logits_scaling", 1)
    return capped(logits / logits_scaling * config.get("logit_scale", 1), config.get("final_logit_softcapping"))


def loss_of(logits, labels):
    """labels: [B, T], what each position should predict; the mean over those that are not -100."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def scale_of(adapter):
    with open(f"{adapter}/adapter_config.json") as file:
        config = json.load(file)
    return config["lora_alpha"] / (math.sqrt(config["r"]) if config.get("use_rslora") else config["r"])


def apart(tensors, config):
    """Splits the tensors that Phi-3 fuses into their projections."""
    dim = config["head_dim"]
    heads, kv_heads, ffn = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim, config["intermediate_size"]
    parts = {"qkv_proj": {"q_proj": heads, "k_proj": kv_heads, "v_proj": kv_heads},
             "gate_up_proj": {"gate_proj": ffn, "up_proj": ffn}}
    found = {}
    for name, tensor in tensors.items():
        whole = name.split(".")[-2] if "." in name else name
        if whole in parts:
            found.update(zip((name.replace(whole, part) for part in parts[whole]), tensor.split(list(parts[whole].values()))))
        else:
            found[name] = tensor
    return found


def joined(tensors):
    """Those of OLMo Hybrid's files by the names that they have in its model."""
    found = {}
    for name, tensor in tensors.items():
        if name.endswith("q_conv1d.weight"):
            found[name.replace("q_conv1d", "conv1d")] = torch.cat([tensors[name.replace("q_conv1d", f"{p}_conv1d")] for p in "qkv"])
        elif not name.endswith(("k_conv1d.weight", "v_conv1d.weight")):
            name = name.replace("feedforward_layer_norm", "post_attention_layernorm")
            found[name.replace("attention_layer_norm", "input_layernorm")] = tensor
    return found


def language_model(tensors):
    """Those of a causal language model, by its names, whatever lies around or beside it."""
    found = {}
    for name, tensor in joined(tensors).items():
        name = re.sub(r"(^|(?<=\.))(module|_orig_mod)\.", "", name)
        name = re.sub(r"^((model|language_model|text_model)\.)+(?=lm_head|embed_tokens|layers|norm)", "", name)
        if name.startswith(("embed_tokens.", "layers.", "norm.")):
            found["model." + name] = tensor
        elif name.startswith("lm_head."):
            found[name] = tensor
    return found


def head_dim_of(config):
    """What RoPE takes for the length of a head."""
    return config.get("qk_rope_head_dim") or config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def config_of(folder):
    """config.json, of a model of images or sound that of its language model, with what is left out."""
    with open(f"{folder}/config.json") as file:
        config = json.load(file)
    if config["model_type"] in COMPOSITES:
        whole = transformers.AutoConfig.from_pretrained(folder)
        config = whole.get_text_config().to_dict()
        config["tie_word_embeddings"] = getattr(whole, "tie_word_embeddings", False)
        config["model_type"] = re.sub("_(5_)?vl_text$", "", config["model_type"])
    config["head_dim"] = head_dim_of(config)
    config.setdefault("tie_word_embeddings", config["model_type"].startswith(("gemma", "granite", "cohere", "youtu", "minicpm3")))
    return config


def add_factors_of_experts(weights, scale, config):
    """Adds to routers' and experts' weights the products of their factors, which no `linear` is asked for."""
    for at in [name.removesuffix("gate.weight") for name in weights if name.endswith(".mlp.gate.weight")]:
        factors = lambda module: [weights.get(f"base_model.model.{at}{module}.lora_{x}.weight") for x in "AB"]
        (a, b), down, experts = factors("gate"), factors("experts"), len(weights[at + "gate.weight"])
        inner = factors("experts.base_layer")
        if a is not None:
            weights[at + "gate.weight"] = weights[at + "gate.weight"] + scale * b @ a
        gate_up = weights[at + "experts.gate_up_proj"]
        if inner[0] is None and down[0] is not None and down[1].shape[0] == gate_up.shape[0] // experts:
            inner, down = down, inner
        for name, (a, b) in (("gate_up", inner), ("down", down)):
            if a is not None:
                w = at + f"experts.{name}_proj"
                product = torch.einsum("ore,eri->eoi", b.unflatten(1, (-1, experts)), a.unflatten(0, (experts, -1)))
                if config["model_type"] == "gpt_oss" and name == "gate_up":
                    product = torch.cat([product[:, ::2], product[:, 1::2]], 1)
                weights[w] = weights[w] + scale * product.flatten(0, 1)


def reference(folder, config, ids, documents, loss_of_logits, adapter=None):
    weights = language_model({name: w.double() for name, w in expanded(load_file(f"{folder}/model.safetensors")).items()})
    weights = {name: w.clone() for name, w in mixtures(apart(weights, config), config).items()}
    embedding, head = "model.embed_tokens.weight", "lm_head.weight"
    if config["tie_word_embeddings"] and head in weights and torch.equal(weights[head], weights.get(embedding, weights[head])):
        weights[embedding] = weights.pop(head)  # another head is not tied
    trained, scale = {name: w for name, w in weights.items() if not name.endswith(("layer_scalar", "e_score_correction_bias"))}, None
    if adapter:
        trained = {name.replace(".mlp.shared_experts.", ".mlp.shared_expert."): w.double()
                   for name, w in load_file(f"{adapter}/adapter_model.safetensors").items()}
        weights, scale = {**weights, **trained}, scale_of(adapter)
    for w in trained.values():
        w.requires_grad_()
    add_factors_of_experts(weights, scale, config)
    ROUTED.clear()
    logits = decoder(weights, config, ids, documents, scale)
    loss = loss_of_logits(logits) + balancing(config)
    loss.backward()
    return loss.item(), {name: w.grad for name, w in trained.items()}


def loader_of(folder):
    """The class of transformers that loads the whole model."""
    model_type = transformers.AutoConfig.from_pretrained(folder).model_type
    return (transformers.AutoModelForCausalLM if model_type not in COMPOSITES else
            transformers.Qwen2AudioForConditionalGeneration if model_type == "qwen2_audio" else
            transformers.AutoModelForImageTextToText)


def in_f64(module):
    """Its functions that compute in f32 whatever the model's dtype: eager attention's softmax, some families' RoPE, the
    gated delta rule. Tensor.float is patched beside it."""
    found = {}
    for name in ("eager_attention_forward", "apply_rotary_pos_emb"):
        if hasattr(module, name):
            source = inspect.getsource(getattr(module, name))
            exec(source.replace("torch.float32", "torch.float64"), module.__dict__, found)
    if hasattr(module, "get_llama_4_attn_scale"):
        found["get_llama_4_attn_scale"] = lambda positions, beta, length: (
            1 + beta * torch.log(1 + torch.floor(positions.double() / length)))[:, None, :, None]
    if hasattr(module, "torch_chunk_gated_delta_rule"):
        found["torch_chunk_gated_delta_rule"] = gated_delta_rule
    return found


def gated_delta_rule(q, k, v, g, beta, **_):
    """What transformers calls in chunks, which it computes in f32: of q and k that are not normed yet."""
    q, k = (x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for x in (q, k))
    q, k = (x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q / math.sqrt(q.shape[-1]), k))
    return delta_rule(q, k, v, g, beta), None


def gpt_oss(folder, config):
    """GptOssForCausalLM with the weights of a granite_swa, and its MLP in place of experts: the same model, if that has
    no multipliers of its own."""
    from transformers.models.gpt_oss import modeling_gpt_oss
    from transformers.models.llama.modeling_llama import LlamaMLP

    class Dense(LlamaMLP):
        def forward(self, x):
            return super().forward(x), None

    keys = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
            "vocab_size", "rms_norm_eps", "sliding_window", "layer_types", "rope_parameters", "attention_bias",
            "tie_word_embeddings", "max_position_embeddings", "pad_token_id")
    own = transformers.AutoConfig.for_model("gpt_oss", num_local_experts=1, num_experts_per_tok=1, **{key: config[key] for key in keys})
    own._attn_implementation, own.mlp_bias = "eager", config["mlp_bias"]
    model = modeling_gpt_oss.GptOssForCausalLM(own).double()
    for layer in model.model.layers:
        layer.mlp = Dense(own).double()
    model.load_state_dict({name: w.double() for name, w in load_file(f"{folder}/model.safetensors").items()})
    return model


def in_full(model, folder, config):
    """Parameters and buffers that transformers holds in f32 whatever the model's dtype, as the file has them."""
    weights = mixtures(language_model({name: w.double() for name, w in load_file(f"{folder}/model.safetensors").items()}), config)
    for name, p in [*model.named_parameters(), *model.named_buffers()]:
        if p.dtype != torch.float32:
            continue
        own, = mixtures({name: p}, config)
        if own in weights:
            p.data = weights[own].view_as(p).clone()


def transformers_gradients(folder, adapter, config, ids, documents, labels, twins, as_gpt_oss=False):
    """adapter: a folder with LoRA factors for peft to load over the model's, or None. Packed documents need a mask that
    is given, which then is every layer's."""
    packed = {}
    if documents.any():
        mask = torch.zeros(seen(documents, None).shape, dtype=torch.float64)
        mask = mask.masked_fill(~seen(documents, window_of(config, 0)), -math.inf)[:, None]
        packed = {"attention_mask": mask, "position_ids": positions_of(documents)}
    # The latter has no caps and no sinks.
    attention = "eager" if config["model_type"] in ("gemma2", "granite_swa", "gpt_oss") else "sdpa"
    model = gpt_oss(folder, config) if as_gpt_oss else \
        loader_of(folder).from_pretrained(folder, dtype=torch.float64, attn_implementation=attention, experts_implementation="eager")
    if twins and not as_gpt_oss:
        in_full(model, folder, config)
    if twins:
        gemma, types = config["model_type"].startswith(("gemma", "qwen3_5", "qwen3_next")), config.get("layer_types") or []
        gemma = gemma and config["model_type"] != "gemma4_text"

        def angles_of(x, position_ids, layer_type=None):
            layer = types.index(layer_type) if layer_type in types else 0
            angles = rope_angles(config, positions_of(documents), layer)
            if as_gpt_oss or config["model_type"] == "gpt_oss":
                return [a[..., :a.shape[-1] // 2] for a in angles]
            if config["model_type"].startswith("cohere"):
                return tuple(a[..., :a.shape[-1] // 2].repeat_interleave(2, -1) for a in angles)
            return torch.complex(*(x[..., :x.shape[-1] // 2] for x in angles)) if config["model_type"] == "deepseek_v2" else angles

        for rotary in (module for module in model.modules() if type(module).__name__.endswith("RotaryEmbedding")):
            rotary.forward = angles_of
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):
                epsilon = getattr(module, "variance_epsilon", config.get("rms_norm_eps"))  # norms of latents have their own
                module.forward = lambda x, m=module, e=epsilon: rms_norm(x, getattr(m, "weight", 1) + gemma, e)
            if type(module).__name__.startswith("Cohere") and type(module).__name__.endswith("LayerNorm"):
                module.forward = lambda x, m=module: rms_norm(x - x.mean(-1, keepdim=True), m.weight, config["layer_norm_eps"])
            if type(module).__name__.endswith("RMSNormGated"):
                module.forward = lambda x, gate, m=module: rms_norm(x, m.weight, m.variance_epsilon) * F.silu(gate)
            if type(module).__name__.endswith("ScaledWordEmbedding"):
                module.embed_scale = torch.tensor(config.get("scale_emb", math.sqrt(config["hidden_size"])), dtype=torch.float64)
    module = inspect.getmodule(type(model))
    if adapter:
        model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True)
    wide = contextlib.ExitStack()
    if twins:  # routers name the dtype in which they compute
        for where, name, other in ((torch.Tensor, "float", torch.Tensor.double), (torch, "float", torch.float64), (torch, "float32", torch.float64)):
            wide.enter_context(mock.patch.object(where, name, other))
    with mock.patch.dict(module.__dict__, in_f64(module) if twins else {}), wide:
        found = model(ids, use_cache=False, **packed)
        loss = loss_of(found.logits, labels)
        if config.get("output_router_logits"):
            loss = loss + config["router_aux_loss_coef"] * found.aux_loss
    loss.backward()
    # Routers that transformers holds in f32 have such gradients, too.
    gradients = {name.replace(".default.", "."): p.grad.double() for name, p in model.named_parameters() if p.grad is not None}
    return loss.item(), mixtures(apart(gradients if adapter else language_model(gradients), config), config)


def longbp(binary, folder, data, flags, method, out):
    command = [binary, "grad", "--model", folder, *data, "--dtype", "f64", "--out", out, *flags, "--method", *method]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"failed with {done.returncode}: {' '.join(map(str, command))}\n{done.stderr}")
    found = json.loads(done.stdout)
    if "aux_loss" in found:
        found["loss"] += config_of(folder)["router_aux_loss_coef"] * found["aux_loss"]
    return found["loss"], load_file(out)


def make_batch(path, rng, pairs=2):
    """Pairs, each with one prompt, and padding; and log-probs about those of a random model; saved, and as tensors."""
    context = 40
    shape = (2 * pairs, context)
    ids = rng.integers(0, 256, shape)
    ids[1::2, :6] = ids[0::2, :6]
    labels = np.roll(ids, -1, 1)
    lengths = np.resize([context, context - 9, context - 3, context], 2 * pairs)
    for b, length in enumerate(lengths):
        labels[b, :5 + 3 * (b % 4)] = labels[b, length - 1:] = -100
    usual = lambda deviation: -math.log(256) + deviation * rng.standard_normal(shape)
    batch = {name: torch.from_numpy(values) for name, values in
             {"ids": ids, "labels": labels, "lengths": lengths, "weights": rng.random(shape), "old_logprobs": usual(0.6),
              "reference_logprobs": usual(0.6), "sampling_logprobs": usual(0.6), "advantages": np.resize([0.7, -1.2, 0.4, -0.3], 2 * pairs),
              "desirable": np.resize([1, 0, 0, 1], 2 * pairs)}.items()}
    save_file(batch, path)
    return batch


def objective_of(source, name, options, logits, batch):
    mask = (batch["labels"] >= 0).double()
    log_probs = logits.log_softmax(-1).gather(2, batch["labels"].clamp(min=0)[:, :, None])[:, :, 0]
    return source.loss(name, options, log_probs, mask, {**batch, "logits": logits})


def relative_l2(found, expected):
    if found.keys() != expected.keys():
        sys.exit(f"the names differ: {sorted(found.keys() ^ expected.keys())}")
    square = lambda tensors: sum(t.square().sum().item() for t in tensors)
    for name in expected:
        if found[name].shape != expected[name].shape or found[name].dtype != torch.float64:
            sys.exit(f"{name}: expected f64 of {list(expected[name].shape)}, found {found[name].dtype} of "
                     f"{list(found[name].shape)}")
    difference = {name: found[name] - expected[name] for name in expected}
    worst = max(difference, key=lambda name: difference[name].norm() / (expected[name].norm() + 1e-300))
    of_worst = (difference[worst].norm() / expected[worst].norm()).item()
    return math.sqrt(square(difference.values()) / square(expected.values())), of_worst, worst


def make_folder(folder, changes, seed):
    """A small random model, saved by transformers itself if it is there."""
    torch.manual_seed(seed)
    config = {**SMALL, **changes}
    if transformers:
        config = transformers.AutoConfig.for_model(**config)
        model = transformers.AutoModelForCausalLM.from_config(config).double()
        # Norms' weights about what means 1; no gain is 1 and no bias 0; and states that last.
        mean = 0.0 if config.model_type.startswith(("gemma", "qwen3_5", "qwen3_next")) and config.model_type != "gemma4_text" else 1.0
        for name, p in model.named_parameters():
            own = 1.0 if "linear_attn.norm" in name else mean if "norm" in name else -5.0 if "A_log" in name else 0.0
            p.data.normal_(own, 0.1)
        for name, b in model.named_buffers():
            if name.endswith(("layer_scalar", "e_score_correction_bias")):
                b.normal_(1.0, 0.1)
        model.save_pretrained(folder)
        return
    os.makedirs(folder)
    width, ffn, dim = config["hidden_size"], config["intermediate_size"], config.get("head_dim", 12)
    q, kv = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    shapes = {"model.embed_tokens.weight": (256, width), "model.norm.weight": (width,)}
    if not config.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = (256, width)
    for at in (f"model.layers.{layer}." for layer in range(config["num_hidden_layers"])):
        shapes |= {at + "input_layernorm.weight": (width,), at + "post_attention_layernorm.weight": (width,),
                   at + "self_attn.q_proj.weight": (q, width), at + "self_attn.k_proj.weight": (kv, width),
                   at + "self_attn.v_proj.weight": (kv, width), at + "self_attn.o_proj.weight": (width, q),
                   at + "mlp.gate_proj.weight": (ffn, width), at + "mlp.up_proj.weight": (ffn, width),
                   at + "mlp.down_proj.weight": (width, ffn)}
        if config["model_type"] == "qwen2":
            shapes |= {f"{at}self_attn.{p}_proj.bias": (n,) for p, n in (("q", q), ("k", kv), ("v", kv))}
        if config["model_type"] == "qwen3":
            shapes |= {f"{at}self_attn.{p}_norm.weight": (dim,) for p in "qk"}
    weights = {name: torch.randn(shape, dtype=torch.float64) * 0.1 + ("norm" in name)
               for name, shape in shapes.items()}
    save_file(weights, f"{folder}/model.safetensors")
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file)


def make_mxfp4(folder):
    """Experts' matrices of the folder become random blocks of MXFP4, without a transposition."""
    path, tensors = f"{folder}/model.safetensors", {}
    for name, w in load_file(f"{folder}/model.safetensors").items():
        if name.endswith(("gate_up_proj", "down_proj")):
            blocks = (w.shape[0], w.shape[2], w.shape[1] // 32)
            tensors |= {name + "_blocks": torch.randint(256, (*blocks, 16), dtype=torch.uint8),
                        name + "_scales": torch.randint(118, 124, blocks, dtype=torch.uint8)}
        else:
            tensors[name] = w
    save_file(tensors, path, {"format": "pt"})
    with open(f"{folder}/config.json") as file:
        config = json.load(file)
    with open(f"{folder}/config.json", "w") as file:
        json.dump({**config, "quantization_config": {"quant_method": "mxfp4"}}, file)


def expanded(tensors):
    """Those of a file, blocks of MXFP4 as transformers expands them."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    whole = lambda name: convert_moe_packed_tensors(tensors[name + "_blocks"], tensors[name + "_scales"])
    names = [name.removesuffix("_blocks") for name in tensors if name.endswith("_blocks")]
    return {name: w for name, w in tensors.items() if w.dtype != torch.uint8} | {name: whole(name) for name in names}


def make_composite(folder, model_type, seed):
    """A small random model of images or sound."""
    text, rest = COMPOSITES[model_type]
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(model_type, text_config={**SMALL, **text}, **rest)
    model = (transformers.Qwen2AudioForConditionalGeneration(config) if model_type == "qwen2_audio" else
             transformers.AutoModelForImageTextToText.from_config(config)).double()
    for name, p in model.named_parameters():
        p.data.normal_(1.0 if "norm" in name and model_type not in ("gemma3", "minicpmv4_6") else 0.0, 0.1)
    for name, b in model.named_buffers():
        if name.endswith("layer_scalar"):
            b.normal_(1.0, 0.1)
    model.save_pretrained(folder)


def rename(folder, other, names):
    """A folder of the same weights under other names: those that names(name) returns. They are returned."""
    shutil.copytree(folder, other)
    weights = load_file(f"{folder}/model.safetensors")
    renamed = {names(name): w for name, w in weights.items()}
    save_file(renamed, f"{other}/model.safetensors", {"format": "pt"})
    return renamed


def make_renamed(path, folders):
    """Folders of weights whose names are not a causal language model's, or whose head is not what config.json says."""
    made = {title: f"{path}/renamed{i}" for i, title in enumerate((
        WRAPPED, "llama, tied, its head alone", "llama, said to be tied, another head",
        "qwen3, tied, saved by AutoModel"))}
    wrapped, alone, other, base = made.values()
    rename(folders["llama, from longbp init"], wrapped, lambda name: "_orig_mod.module." + name.replace("self_attn", "_orig_mod.self_attn"))
    tied = folders["llama, llama3 rope, tied"]
    rename(tied, alone, lambda name: "lm_head.weight" if "embed_tokens" in name else name)
    weights = rename(tied, other, lambda name: name)
    save_file({**weights, "lm_head.weight": torch.randn_like(weights["model.embed_tokens.weight"]) * 0.1},
              f"{other}/model.safetensors", {"format": "pt"})
    if transformers:
        transformers.AutoModel.from_pretrained(folders["qwen3, tied"], dtype=torch.float64).save_pretrained(base)
    else:
        rename(folders["qwen3, tied"], base, lambda name: name.removeprefix("model."))
    return made


def make_adapter(model, folder, options):
    """folder: LoRA factors for the model's, none of them 0, saved by peft itself if it is there; whether there are."""
    if transformers and peft:
        base = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float64)
        adapted = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **LORA, **options),
                                      autocast_adapter_dtype=False)
        for name, p in adapted.named_parameters():
            if p.requires_grad:
                p.data.normal_(0, 0.1)
        adapted.save_pretrained(folder)
        return True
    if not isinstance(options["target_modules"], list):
        return False
    os.makedirs(folder)
    weights, adapter = load_file(f"{model}/model.safetensors"), {}
    for target in options["target_modules"]:
        for name, w in weights.items():
            if name.endswith(f".{target}.weight"):
                at = f"base_model.model.{name.removesuffix('.weight')}"
                adapter[at + ".lora_A.weight"] = torch.randn(LORA["r"], w.shape[1], dtype=torch.float64) * 0.1
                adapter[at + ".lora_B.weight"] = torch.randn(w.shape[0], LORA["r"], dtype=torch.float64) * 0.1
    save_file(adapter, f"{folder}/adapter_model.safetensors")
    with open(f"{folder}/adapter_config.json", "w") as file:
        json.dump({**LORA, **options, "peft_type": "LORA", "task_type": "CAUSAL_LM"}, file)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longbp", default=LONGBP, help="the program (%(default)s)")
    parser.add_argument("--tolerance", type=float, default=1e-11, help="relative L2 of all gradients together (1e-11)")
    parser.add_argument("--only", metavar="TEXT", help="only the families' models whose titles have this, and nothing else")
    arguments = parser.parse_args()
    if not shutil.which(arguments.longbp):
        parser.error(f"{arguments.longbp} is no program; `make` builds it, --longbp names another")
    scratch = tempfile.TemporaryDirectory(prefix="longbp-pytorch-")
    path = scratch.name
    failures = 0

    def report(title, loss, gradients, expected_loss, expected, tolerance):
        nonlocal failures
        overall, of_worst, worst = relative_l2(gradients, expected)
        of_loss = abs(loss - expected_loss) / abs(expected_loss)
        good = overall <= tolerance and of_loss <= tolerance  # false for NaN
        failures += not good
        print(f"  {title:58} {overall:9.2e} (loss {of_loss:7.1e}, worst {of_worst:7.1e} {worst})"
              f"{'' if good else '  TOO LARGE'}", flush=True)

    rng = np.random.default_rng(1)
    tokens = rng.integers(0, 256, (BATCH, CONTEXT)).astype(np.uint8)
    tokens.tofile(f"{path}/tokens.bin")
    ids = torch.from_numpy(tokens.astype(np.int64))
    shifted = F.pad(ids[:, 1:], (0, 1), value=-100)
    masked = torch.where(torch.from_numpy(rng.random((BATCH, CONTEXT)) < 0.5), shifted, -100)
    masked[:, CHUNK:2 * CHUNK] = -100  # a chunk without a single target
    masked.numpy().astype("<i4").tofile(f"{path}/labels.bin")

    subprocess.run([arguments.longbp, "init", "--model", "tiny", "--dtype", "f64", "--out", f"{path}/init"],
                   check=True)
    folders = {"llama, from longbp init": f"{path}/init"}
    for i, (title, changes) in enumerate(FOLDERS.items()):
        if arguments.only and arguments.only not in title:
            continue
        if not transformers and changes["model_type"] not in LLAMAS:
            continue
        folders[title] = f"{path}/{i}"
        make_folder(folders[title], changes, i)
        if title == MXFP4:
            make_mxfp4(folders[title])
    one = torch.zeros(BATCH, CONTEXT, dtype=torch.int64)
    cases = [(title, folder, [], one, shifted, None) for title, folder in folders.items() if not arguments.only or arguments.only in title]
    for title in EXPERT_ADAPTERS.keys() & folders.keys() if peft else ():
        for i, (name, options) in enumerate(EXPERT_ADAPTERS[title].items()):
            adapter = f"{folders[title]}, adapter {i}"
            make_adapter(folders[title], adapter, options)
            cases.append((f"{title}, LoRA of {name}", folders[title], ["--lora", adapter], one, shifted, adapter))
    others = {}  # for two methods each, and transformers as it is
    if not arguments.only:
        cases.append(("llama, masked labels", f"{path}/init", ["--labels", f"{path}/labels.bin"], one, masked, None))
        packed = (torch.arange(CONTEXT) // DOCUMENT).expand(BATCH, CONTEXT)
        ended = torch.where(F.pad(packed[:, 1:], (0, 1), value=-1) == packed, shifted, -100)
        for title in ("llama, llama3 rope, tied", "mistral, sliding window", "qwen3, tied", "phi3, longrope", "internlm3, dynamic rope", "ministral3"):
            cases.append((f"{title}, packed", folders[title], ["--documents", DOCUMENT], packed, ended, None))
        cases.append(("mistral, gradient of padding", folders["mistral"], ["--pad-gradient"], one, shifted, None))
        for i, (title, options) in enumerate(ADAPTERS.items()):
            adapter = f"{path}/adapter{i}"
            if make_adapter(folders["qwen3, tied"], adapter, options):
                cases.append((f"qwen3, LoRA by {title}", folders["qwen3, tied"], ["--lora", adapter], one, shifted, adapter))

        others |= make_renamed(path, folders)
        for i, model_type in enumerate(COMPOSITES if transformers else ()):
            others[f"{model_type}, its language model"] = f"{path}/composite{i}"
            make_composite(f"{path}/composite{i}", model_type, i)
        cases += [(title, folder, [], one, shifted, None) for title, folder in others.items()]

    data = ["--tokens", f"{path}/tokens.bin", "--token-dtype", "bytes", "--context", CONTEXT, "--batch", BATCH]
    for title, folder, flags, documents, labels, adapter in cases:
        config = config_of(folder)
        if "--pad-gradient" in flags:
            config["pad_token_id"] = None
        expected_loss, expected = reference(folder, config, ids, documents, lambda logits: loss_of(logits, labels),
                                            adapter)
        print(f"{title}: relative L2 against PyTorch in f64, loss {expected_loss:.6f}")
        for method in METHODS[::4] if title in others else METHODS:
            loss, gradients = longbp(arguments.longbp, folder, data, flags, method, f"{path}/g")
            report(" ".join(map(str, method)), loss, gradients, expected_loss, expected, arguments.tolerance)
        if transformers and (peft or not adapter) and title not in (WRAPPED, MXFP4) and "--pad-gradient" not in flags:
            name = f"transformers {transformers.__version__}" + (f", peft {peft.__version__}" if adapter else "")
            for twins, suffix, tolerance in ((True, ", norms and angles in f64", arguments.tolerance),
                                             (False, ", as it is", 1e-4)):
                if twins and title in others:
                    continue
                loss, theirs = transformers_gradients(folder, adapter, config, ids, documents, labels, twins, title == GPT_OSS)
                report(name + (", GptOssForCausalLM of dense MLPs" if title == GPT_OSS else "") + suffix, loss, theirs, expected_loss, expected, tolerance)

    if not arguments.only:
        check_objectives(arguments, path, rng, report)
    print("all within tolerance" if not failures else f"{failures} TOO LARGE")
    return 1 if failures else 0


def check_objectives(arguments, path, rng, report):
    folder, batch = f"{path}/init", make_batch(f"{path}/batch", rng)
    with open(f"{folder}/config.json") as file:
        config = json.load(file)
    print("every objective, from a batch file: relative L2 against PyTorch in f64, and against the losses of TRL itself and transformers"
          + (f" ({objectives_in_trl.trl.__version__})" if objectives_in_trl.trl else ", which are not there"))
    for name, options in objectives.OBJECTIVES:
        flags = ["--batch", f"{path}/batch", "--objective", objectives.flag(name, options)]
        expect = lambda source: reference(folder, config, batch["ids"], torch.zeros_like(batch["ids"]),
                                          lambda logits: objective_of(source, name, options, logits, batch))
        expected_loss, expected = expect(objectives)
        for method in OBJECTIVE_METHODS:
            loss, gradients = longbp(arguments.longbp, folder, [], flags, method, f"{path}/g")
            report(f"{objectives.flag(name, options)}, {' '.join(map(str, method))}", loss, gradients, expected_loss, expected,
                   arguments.tolerance)
        why = objectives_in_trl.left_out(name, options)
        if why is None:
            report(f"{objectives.flag(name, options)}, against {objectives_in_trl.owner(name)}", loss, gradients, *expect(objectives_in_trl), arguments.tolerance)
        elif objectives_in_trl.trl:
            print(f"  {objectives.flag(name, options)}: {why}")


if __name__ == "__main__":
    sys.exit(main())
