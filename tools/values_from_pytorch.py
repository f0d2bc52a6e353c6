#!/usr/bin/env python3
"""Writes tests/values/gradients.json, rope.json and schedules.json: losses, gradients, RoPE's frequencies and learning-rate
schedules as PyTorch, transformers and peft compute them, which tests/test_values.c holds the program to where none of these
is installed.

Run by hand, when a case is added:  tools/values_from_pytorch.py
Needs torch, numpy, safetensors, transformers and peft.

Weights and factors are made of their names by a formula that the test has, too, so that no file of weights is kept; of a
gradient its norm and its product with a direction that is made alike. Models are transformers' own classes in f64, with
norms and RoPE's angles, which they compute in f32, replaced by f64 twins (check_against_pytorch.py); as they are they
must come within 1e-4, and the decoder of that script within 1e-12.
"""
import json
import math
import os
import re
import sys
import tempfile

from needed_modules import need

need("numpy", "torch", "transformers", "safetensors")
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import check_against_pytorch as check

OUT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "values")
CONTEXT, BATCH, DOCUMENT = 24, 2, 11
SMALL = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
         "intermediate_size": 20, "vocab_size": 29, "hidden_act": "silu", "rms_norm_eps": 1e-3, "pad_token_id": None,
         "bos_token_id": None, "eos_token_id": None, "max_position_embeddings": 64}
LLAMA = {"model_type": "llama"}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
AS_WRITTEN = {"as_written": True}  # config.json has these keys; else those that transformers makes of them
DYNAMIC = {"rope_type": "dynamic", "factor": 6.0}
LEFT_OUT = object()
PHI3 = {"model_type": "phi3", "head_dim": 4, "partial_rotary_factor": 1.0}
LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [3.0, 2.0]}
MINISTRAL3 = {"model_type": "ministral3", "head_dim": 16, "sliding_window": None}
GEMMA4 = {"model_type": "gemma4_text", "head_dim": 4, "global_head_dim": 8, "hidden_size_per_layer_input": 0,
          "sliding_window": 5, "num_hidden_layers": 7, "final_logit_softcapping": 2.0}
OLMO_HYBRID = {"model_type": "olmo_hybrid", "head_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
               "linear_key_head_dim": 5, "linear_value_head_dim": 3, "num_hidden_layers": 2}
QWEN3 = {"model_type": "qwen3", "rope_theta": 1e6, "tie_word_embeddings": True}
LATENT = {"num_key_value_heads": 4, "head_dim": LEFT_OUT, "q_lora_rank": 10, "kv_lora_rank": 10, "qk_nope_head_dim": 6,
          "qk_rope_head_dim": 8, "v_head_dim": 3, "first_k_dense_replace": 3}
DENSE = {"mlp_layer_types": ["dense"] * 3, "first_k_dense_replace": LEFT_OUT}
MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 7, "n_routed_experts": 4, "num_experts": 5, "num_local_experts": 5}
DELTA = {"head_dim": 8, "num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 5,
         "linear_value_head_dim": 3, "shared_expert_intermediate_size": 9}


def mixed(model_type, *keys, **more):
    """A mixture of experts of the family, which has these of MOE's keys."""
    return {"model_type": model_type, **{key: MOE[key] for key in keys}, **more}


CASES = [  # title, what differs from SMALL, and of the case: labels that are masked, documents, LoRA
    ("llama", LLAMA, {}),
    ("llama, masked labels", LLAMA, {"masked": True}),
    ("llama, documents", LLAMA, {"documents": DOCUMENT}),
    ("llama, llama3 rope, tied, as many heads of keys", {**LLAMA, "rope_theta": 1e4, "rope_scaling": LLAMA3,
                                                        "tie_word_embeddings": True, "num_key_value_heads": 4}, {}),
    ("llama, linear rope", {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}, {}),
    ("mistral, sliding window, documents", {"model_type": "mistral", "sliding_window": 5}, {"documents": DOCUMENT}),
    ("qwen2, biases", {"model_type": "qwen2", "rope_theta": 1e6, "head_dim": 4}, {}),
    ("qwen2, window between", {"model_type": "qwen2", "head_dim": 4, "use_sliding_window": True, "sliding_window": 7,
                               "layer_types": ["full_attention", "sliding_attention", "full_attention"]}, {}),
    ("qwen3, tied, window above", {**QWEN3, "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}, {}),
    ("olmo2", {"model_type": "olmo2", "rope_theta": 5e5, "head_dim": 4}, {}),
    ("gemma", {"model_type": "gemma", "hidden_act": "gelu_pytorch_tanh"}, {}),
    ("gemma3", {"model_type": "gemma3_text", "query_pre_attn_scalar": 13, "sliding_window": 5, "num_hidden_layers": 6,
                "rope_theta": 1e6, "rope_local_base_freq": 1e2, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}, {}),
    ("llama, LoRA, alpha above r", LLAMA, {"lora": {"r": 4, "lora_alpha": 12, "target_modules": ["q_proj", "v_proj"]}}),
    ("qwen3, LoRA on all", QWEN3, {"lora": {"r": 2, "lora_alpha": 1, "target_modules": [
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}}),
    ("llama, rslora, masked labels", LLAMA, {"masked": True, "lora": {
        "r": 4, "lora_alpha": 12, "use_rslora": True, "target_modules": ["o_proj", "down_proj"]}}),
    ("phi3, sliding window", {"model_type": "phi3", "sliding_window": 5, "head_dim": 4}, {}),
    ("qwen3, yarn", {**QWEN3, "head_dim": 16, "rope_theta": 1e2, "rope_scaling": YARN}, {}),
    ("llama, yarn, other turns and factor", {**LLAMA, "head_dim": 16, "rope_theta": 1e2, "rope_scaling": {
        **YARN, "beta_fast": 4.0, "beta_slow": 0.5, "attention_factor": 1.4}}, {}),
    ("llama, yarn, mscale", {**LLAMA, "head_dim": 16, "rope_theta": 1e2, "rope_scaling": {
        **YARN, "mscale": 1.0, "mscale_all_dim": 0.5}}, {}),
    ("olmo3, yarn in layers without a window", {"model_type": "olmo3", "head_dim": 4, "sliding_window": 5, "num_hidden_layers": 4,
                                                "rope_parameters": {
        "full_attention": {**YARN, "rope_theta": 1e2}, "sliding_attention": {"rope_type": "default", "rope_theta": 5e1}}}, {}),
    ("mistral, layers listed", {"model_type": "mistral", "sliding_window": 5, "layer_types": [
        "sliding_attention", "full_attention", "sliding_attention"]}, AS_WRITTEN),
    ("gemma, gelu", {"model_type": "gemma", "hidden_act": "gelu"}, AS_WRITTEN),
    ("llama, yarn, original context at the root", {**LLAMA, "head_dim": 16, "rope_theta": 1e2, "rope_scaling": YARN,
                                                   "original_max_position_embeddings": 16}, AS_WRITTEN),
    ("llama, llama3 rope, original context at the root", {**LLAMA, "head_dim": 16, "rope_scaling": LLAMA3,
                                                          "original_max_position_embeddings": 8}, AS_WRITTEN),
    ("qwen3, empty rope_scaling", {**QWEN3, "rope_theta": LEFT_OUT, "rope_scaling": {}, "rope_parameters": {
        "rope_type": "linear", "factor": 4.0, "rope_theta": 1e2}}, AS_WRITTEN),
    ("olmo3, pattern that is not read", {"model_type": "olmo3", "head_dim": 4, "sliding_window": 5, "num_hidden_layers": 4,
                                         "sliding_window_pattern": 2, "rope_theta": 1e2}, AS_WRITTEN),
    ("phi3, heads of keys left out", {"model_type": "phi3", "head_dim": LEFT_OUT, "num_key_value_heads": LEFT_OUT}, AS_WRITTEN),
    ("gemma2", {"model_type": "gemma2", "query_pre_attn_scalar": 13, "sliding_window": 5, "attn_logit_softcapping": 0.5,
                "final_logit_softcapping": 2.0}, {}),
    ("smollm3", {"model_type": "smollm3", "no_rope_layer_interval": 2, "head_dim": 4}, {}),
    ("smollm3, layers listed, biases, documents", {"model_type": "smollm3", "no_rope_layers": [1, 0, 1], "mlp_bias": True,
                                                   "head_dim": 4}, {"documents": DOCUMENT}),
    ("exaone4", {"model_type": "exaone4", "sliding_window": 5, "head_dim": 4, "num_hidden_layers": 4}, {}),
    ("exaone4, no window", {"model_type": "exaone4", "sliding_window": None, "head_dim": 4,
                            "layer_types": ["full_attention"] * 3}, {}),
    ("seed_oss, biases", {"model_type": "seed_oss", "attention_out_bias": True, "mlp_bias": True, "attention_dropout": 0.0,
                          "residual_dropout": 0.0, "head_dim": 8}, {}),
    ("ernie4_5, biases", {"model_type": "ernie4_5", "use_bias": True, "head_dim": 8}, {}),
    ("granite", {"model_type": "granite", "attention_multiplier": 0.4, "embedding_multiplier": 3.0, "residual_multiplier": 0.22,
                 "logits_scaling": 4.0, "head_dim": 4}, {}),
    ("granite, LoRA, biases", {"model_type": "granite", "attention_multiplier": 0.4, "residual_multiplier": 0.22,
                               "logits_scaling": 4.0, "head_dim": 4, "attention_bias": True, "mlp_bias": True},
     {"lora": {"r": 4, "lora_alpha": 12, "target_modules": ["q_proj", "o_proj", "down_proj"]}}),
    ("glm", {"model_type": "glm", "head_dim": 8}, {}),
    ("glm4, yarn", {"model_type": "glm4", "head_dim": 16, "rope_theta": 1e2, "rope_scaling": YARN}, {}),
    ("phi3, part of a head", {"model_type": "phi3", "head_dim": 16, "partial_rotary_factor": 0.75}, {}),
    ("llama, biases", {**LLAMA, "attention_bias": True, "mlp_bias": True}, {}),
    ("granite_swa, sinks", {"model_type": "granite_swa", "sliding_window": 5, "attention_multiplier": 0.6, "head_dim": 4,
                            "embedding_multiplier": 3.0}, {}),
    ("llama, proportional rope", {**LLAMA, "head_dim": 16, "rope_scaling": {
        "rope_type": "proportional", "partial_rotary_factor": 0.4, "factor": 2.0}}, {}),
    ("deepseek_v3, yarn, mscale", {"model_type": "deepseek_v3", **LATENT, "rope_theta": 1e2, "rope_scaling": {
        **YARN, "mscale": 1.0, "mscale_all_dim": 0.7}}, {}),
    ("deepseek_v3, halves, biases, documents", {"model_type": "deepseek_v3", **LATENT, "rope_interleave": False,
                                                "attention_bias": True}, {"documents": DOCUMENT}),
    ("deepseek_v3, LoRA on latents", {"model_type": "deepseek_v3", **LATENT}, {"lora": {"r": 2, "lora_alpha": 3, "target_modules": [
        "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]}}),  # PEFT takes an MLP's for experts here
    ("deepseek_v2, queries without a latent, biases", {"model_type": "deepseek_v2", **LATENT, "q_lora_rank": None, "mlp_bias": True}, {}),
    ("deepseek_v2, yarn, LoRA", {"model_type": "deepseek_v2", **LATENT, "rope_theta": 1e2, "rope_scaling": {
        **YARN, "mscale": 0.707, "mscale_all_dim": 0.707}}, {"lora": {"r": 2, "lora_alpha": 3, "target_modules": [
            "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]}}),
    ("youtu", {"model_type": "youtu", **LATENT, "first_k_dense_replace": LEFT_OUT}, {}),
    ("glm4_moe_lite", {"model_type": "glm4_moe_lite", **LATENT, **DENSE}, {}),
    ("kimi_linear, no layer of its linear attention", {"model_type": "kimi_linear", **LATENT, **DENSE, "q_lora_rank": None,
                                                       "layer_types": ["full_attention"] * 3}, {}),
    ("minicpm3, factors", {"model_type": "minicpm3", **LATENT, "first_k_dense_replace": LEFT_OUT, "scale_emb": 3, "scale_depth": 1.1,
                           "dim_model_base": 5}, {}),
    ("phi3, longrope, long", {**PHI3, "original_max_position_embeddings": 16, "rope_scaling": LONGROPE}, {}),
    ("phi3, longrope, short documents", {**PHI3, "original_max_position_embeddings": 16, "rope_scaling": LONGROPE},
     {"documents": DOCUMENT}),
    ("phi3, su, original context at the root", {**PHI3, "original_max_position_embeddings": 8, "rope_scaling": {
        **LONGROPE, "type": "su", "original_max_position_embeddings": 32}}, AS_WRITTEN),
    ("phi3, yarn that is longrope, documents", {**PHI3, "original_max_position_embeddings": 8, "rope_scaling": {
        **LONGROPE, "type": "yarn", "attention_factor": 1.3}}, {**AS_WRITTEN, "documents": DOCUMENT}),
    ("ministral3, documents", {**MINISTRAL3, "sliding_window": 9, "rope_parameters": {
        **YARN, "original_max_position_embeddings": 4, "mscale": 1.0, "mscale_all_dim": 0.5, "rope_theta": 1e2,
        "llama_4_scaling_beta": 0.3}}, {"documents": DOCUMENT}),
    ("ministral3, default rope", {**MINISTRAL3, "rope_parameters": {
        "rope_type": "default", "llama_4_scaling_beta": 0.2, "original_max_position_embeddings": 5}}, AS_WRITTEN),
    ("ministral, layers listed", {"model_type": "ministral", "sliding_window": 5, "layer_types": [
        "full_attention", "sliding_attention", "full_attention"]}, {}),
    ("internlm3, biases", {"model_type": "internlm3", "qkv_bias": True, "bias": True}, AS_WRITTEN),
    ("granite_swa, gpt_oss's attention", {"model_type": "granite_swa", "head_dim": 16, "sliding_window": 5, "attention_multiplier": 0.25,
                                          "embedding_multiplier": 1.0, "attention_bias": True, "tie_word_embeddings": False,
                                          "rope_parameters": {**YARN, "rope_theta": 1e2, "truncate": False}},
     {"as_gpt_oss": True}),
    ("cohere, biases", {"model_type": "cohere", "layer_norm_eps": 1e-3, "logit_scale": 4.0, "attention_bias": True,
                        "head_dim": 4}, {}),
    ("cohere2", {"model_type": "cohere2", "head_dim": 4, "logit_scale": 4.0, "sliding_window": 5, "num_hidden_layers": 4}, {}),
    ("cohere2, LoRA", {"model_type": "cohere2", "head_dim": 4, "sliding_window": 5, "layer_types": [
        "sliding_attention", "full_attention", "sliding_attention"]},
     {"lora": {"r": 4, "lora_alpha": 12, "target_modules": ["q_proj", "o_proj", "up_proj", "down_proj"]}}),
    ("gemma4, keys are values", {**GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 1}, AS_WRITTEN),
    ("gemma4, heads by layer", {**GEMMA4, "final_logit_softcapping": None, "num_hidden_layers": 3, "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 1e3},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e2}}}, {}),
    ("gemma4, LoRA", {**GEMMA4, "attention_k_eq_v": True},
     {"lora": {"r": 4, "lora_alpha": 12, "target_modules": ["k_proj", "o_proj", "down_proj"]}}),
    ("olmo_hybrid, no positions", {**OLMO_HYBRID, "rope_parameters": {"rope_type": "default", "rope_theta": None}}, {}),
    ("olmo_hybrid, yarn, biases, no negative eigenvalues", {**OLMO_HYBRID, "head_dim": 16, "attention_bias": True,
                                                            "linear_allow_neg_eigval": False, "rope_parameters": {**YARN, "rope_theta": 1e2}}, {}),
    ("olmo_hybrid, LoRA", {**OLMO_HYBRID, "layer_types": ["full_attention", "linear_attention"]}, {"lora": {
        "r": 2, "lora_alpha": 3, "target_modules": ["q_proj", "v_proj", "g_proj", "b_proj", "a_proj", "o_proj"]}}),
    ("internlm3, dynamic rope", {"model_type": "internlm3", "max_position_embeddings": 16, "rope_scaling": DYNAMIC}, AS_WRITTEN),
    ("internlm3, dynamic rope, documents of less than its original context", {
        "model_type": "internlm3", "max_position_embeddings": 16, "rope_scaling": DYNAMIC}, {**AS_WRITTEN, "documents": DOCUMENT}),
    ("glm, dynamic rope of parts of heads, documents", {"model_type": "glm", "head_dim": 16, "max_position_embeddings": 7,
                                                        "rope_scaling": DYNAMIC}, {"documents": DOCUMENT}),
    ("deepseek_v3, dynamic rope, mscale_all_dim", {"model_type": "deepseek_v3", **LATENT, "max_position_embeddings": 8, "rope_scaling": {
        **DYNAMIC, "mscale_all_dim": 0.7}}, {}),
    ("olmo_hybrid, sizes left out, rope_theta null", {"model_type": "olmo_hybrid", "head_dim": LEFT_OUT, "rope_theta": None},
     AS_WRITTEN),
    ("mixtral, documents", mixed("mixtral", "num_local_experts", "num_experts_per_tok", sliding_window=5), {"documents": DOCUMENT}),
    ("qwen3_moe, dense between, window", mixed("qwen3_moe", "num_experts", "num_experts_per_tok", "moe_intermediate_size", norm_topk_prob=True,
                                               mlp_only_layers=[1], use_sliding_window=True, sliding_window=7), {}),
    ("qwen3_moe, by steps, masked labels", mixed("qwen3_moe", "num_experts", "num_experts_per_tok", "moe_intermediate_size",
                                                 decoder_sparse_step=2, num_hidden_layers=4), {"masked": True}),
    ("qwen2_moe, windows", mixed("qwen2_moe", "num_experts", "num_experts_per_tok", "moe_intermediate_size", shared_expert_intermediate_size=9,
                                 use_sliding_window=True, sliding_window=7, max_window_layers=2), AS_WRITTEN),
    ("olmoe, all experts", mixed("olmoe", num_experts=3, num_experts_per_tok=3, head_dim=4), {}),
    ("deepseek_v2, greedy", mixed("deepseek_v2", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
                                  **{**LATENT, "first_k_dense_replace": 1}, routed_scaling_factor=3.0), {}),
    ("deepseek_v2, groups", mixed("deepseek_v2", "num_experts_per_tok", "moe_intermediate_size", **{**LATENT, "first_k_dense_replace": 0},
                                  n_routed_experts=6, topk_method="group_limited_greedy", n_group=3, topk_group=2), {}),
    ("deepseek_v3, groups", mixed("deepseek_v3", "num_experts_per_tok", "moe_intermediate_size", **{**LATENT, "first_k_dense_replace": 1},
                                  n_routed_experts=8, n_group=4, topk_group=2, n_shared_experts=2), {}),
    ("glm4_moe_lite, experts", mixed("glm4_moe_lite", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
                                     **{**LATENT, "first_k_dense_replace": LEFT_OUT}, norm_topk_prob=False), {}),
    ("kimi_linear, experts", mixed("kimi_linear", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size",
                                   **{**LATENT, "first_k_dense_replace": 1, "q_lora_rank": None}, layer_types=["full_attention"] * 3), {}),
    ("glm4_moe, norms", mixed("glm4_moe", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", head_dim=8, use_qk_norm=True,
                              attention_bias=True, routed_scaling_factor=1.5), {}),
    ("minimax_m2", mixed("minimax_m2", "num_local_experts", "num_experts_per_tok", head_dim=8, rotary_dim=4), AS_WRITTEN),
    ("dots1", mixed("dots1", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", n_shared_experts=1, first_k_dense_replace=1,
                    sliding_window=5, max_window_layers=2), AS_WRITTEN),
    ("ernie4_5_moe", mixed("ernie4_5_moe", "moe_intermediate_size", moe_num_experts=5, moe_k=2, moe_num_shared_experts=1, head_dim=8), {}),
    ("gpt_oss, bounds", mixed("gpt_oss", "num_local_experts", "num_experts_per_tok", head_dim=8, sliding_window=5, swiglu_alpha=1.3,
                              swiglu_limit=0.3), AS_WRITTEN),
    ("granitemoe", mixed("granitemoe", "num_local_experts", "num_experts_per_tok", attention_multiplier=0.4, embedding_multiplier=3.0,
                         residual_multiplier=0.22, logits_scaling=4.0, head_dim=4), {}),
    ("qwen3_5_moe", mixed("qwen3_5_moe_text", "num_experts", "num_experts_per_tok", "moe_intermediate_size", **DELTA), {}),
    ("qwen3_next, one layer dense", mixed("qwen3_next", "num_experts", "num_experts_per_tok", "moe_intermediate_size", **DELTA,
                                          mlp_only_layers=[1]), {}),
]
# Those whose frequencies presets are said to have.
ROPE = [
    ("llama-3-8b", {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5}),
    ("llama-3.2-1b", {"model_type": "llama", "head_dim": 64, "rope_theta": 5e5, "rope_scaling": {
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192}}),
    ("mistral-7b", {"model_type": "mistral", "head_dim": 128, "rope_theta": 1e4}),
    ("qwen3-8b", {"model_type": "qwen3", "head_dim": 128, "rope_theta": 1e6}),
    ("qwen3-8b", {"model_type": "qwen3", "head_dim": 128, "rope_theta": 1e6, "rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}),
]

SCHEDULES = [  # keys of a training run
    {"steps": 21, "schedule": "cosine", "min_lr_ratio": 0.1},
    {"steps": 23, "schedule": "wsd", "warmup": 5, "decay_steps": 7},
    {"steps": 22, "schedule": "wsd", "warmup": 5, "stable_steps": 4, "decay_steps": 7, "min_lr_ratio": 0.1},
    {"steps": 20, "schedule": "wsd", "warmup": 7, "decay_steps": 9, "warmup_type": "cosine", "decay_type": "linear", "min_lr_ratio": 0.3},
    {"steps": 20, "schedule": "wsd", "warmup": 6, "decay_steps": 11, "warmup_type": "1-sqrt", "decay_type": "1-sqrt",
     "min_lr_ratio": 0.07},
    {"steps": 24, "schedule": "wsd", "decay_steps": 19, "cycles": 1.7, "min_lr_ratio": 0.2},
]


def numbers(name, count):
    """From -0.5 to 0.5, by the name and the place in it: what `number` of tests/test_values.c makes."""
    seed = 2166136261
    for byte in name.encode():  # FNV-1a
        seed = (seed ^ byte) * 16777619 % 2**32
    x = (seed + np.arange(count, dtype=np.uint64) * 2654435761) % 2**32
    for _ in range(2):
        x = (x ^ (x >> np.uint64(16))) * np.uint64(0x45D9F3B) % 2**32
    x ^= x >> np.uint64(16)
    return torch.from_numpy(x.astype(np.float64) / 2**32 - 0.5)


def weight(name, shape, gemma):
    """A norm's gain is about 1, which in Gemma is said by 0, and so is a layer's scalar."""
    mean = 1.0 if ("norm.weight" in name and not gemma) or name.endswith(("layer_scalar", "e_score_correction_bias")) else 0.0
    return (0.8 * numbers(name, math.prod(shape)) + mean).view(shape)


def known(config):
    return {**config, "head_dim": check.head_dim_of(config)}


def filled(tensors, config, gemma):
    """Tensors of a file whose values are made by the names that longbp has for them, whatever tensors hold them."""
    sizes = [w.numel() for w in tensors.values()]
    places = torch.arange(sum(sizes)).split(sizes)
    known_by = check.mixtures(check.apart({name: place.view_as(w) for (name, w), place in zip(tensors.items(), places)}, config), config)
    values = torch.empty(sum(sizes), dtype=torch.float64)
    for name, place in known_by.items():
        values[place] = weight(name, place.shape, gemma)
    return {name: own.view_as(w).clone() for (name, w), own in zip(tensors.items(), values.split(sizes))}


def written(changes):
    return {key: value for key, value in {**SMALL, **changes}.items() if value is not LEFT_OUT}


def make_model(folder, changes):
    os.makedirs(folder)
    with open(f"{folder}/config.json", "w") as file:
        json.dump(written(changes), file)
    config = transformers.AutoConfig.from_pretrained(folder)
    transformers.AutoModelForCausalLM.from_config(config).double().save_pretrained(folder)
    path = f"{folder}/model.safetensors"
    gemma = config.model_type.startswith(("gemma", "qwen3_5", "qwen3_next")) and config.model_type != "gemma4_text"
    with open(f"{folder}/config.json") as file:
        found = json.load(file)
    # transformers saves a dense MLP of Kimi Linear under the name of its experts' block, which published files do not.
    dense = r"block_sparse_moe(?=\.(gate|up|down)_proj)"
    # Names of OLMo Hybrid are those within its model, under which longbp writes it.
    weights = {re.sub(dense, "mlp", name): w for name, w in check.joined(load_file(path)).items()}
    save_file(filled(weights, known(found), gemma), path, {"format": "pt"})
    return found


def make_adapter(model, folder, lora):
    base = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float64)
    check.peft.get_peft_model(base, check.peft.LoraConfig(task_type="CAUSAL_LM", **lora),
                              autocast_adapter_dtype=False).save_pretrained(folder)
    path = f"{folder}/adapter_model.safetensors"
    save_file({name: weight(name, w.shape, False) for name, w in load_file(path).items()}, path, {"format": "pt"})


def difference(found, expected):
    (loss, gradients), (expected_loss, expected_gradients) = found, expected
    return max(check.relative_l2(gradients, expected_gradients)[0], abs(loss / expected_loss - 1))


def case_of(title, changes, asked, path, rng):
    folder, adapter = f"{path}/model", None
    config = make_model(folder, changes)
    whole = known(config)
    whole.setdefault("tie_word_embeddings", config["model_type"].startswith(("gemma", "cohere", "youtu", "minicpm3", "ernie4_5")))
    if asked.get("lora"):
        adapter = f"{path}/adapter"
        make_adapter(folder, adapter, asked["lora"])
    ids = rng.integers(0, SMALL["vocab_size"], (BATCH, CONTEXT))
    labels = np.pad(ids[:, 1:], ((0, 0), (0, 1)), constant_values=-100)
    if asked.get("masked"):
        labels[rng.random(labels.shape) < 0.5] = -100
        labels[1, :] = -100  # sequences are not alike
        labels[1, 3:6] = ids[1, 4:7]
    ids, given = torch.from_numpy(ids), labels.tolist()
    tokens = torch.arange(CONTEXT).expand(BATCH, CONTEXT)
    documents = tokens // asked["documents"] if "documents" in asked else torch.zeros_like(tokens)
    ends = torch.nn.functional.pad(documents[:, 1:], (0, 1), value=-1) != documents
    labels = torch.from_numpy(labels).masked_fill(ends, -100)
    arguments = folder, adapter, whole, ids, documents, labels
    expected = check.transformers_gradients(*arguments, True, asked.get("as_gpt_oss", False))
    ours = check.reference(folder, whole, ids, documents, lambda logits: check.loss_of(logits, labels), adapter)
    as_it_is = check.transformers_gradients(*arguments, False, asked.get("as_gpt_oss", False))
    print(f"{title}: loss {expected[0]:.6f}; the decoder is off by {difference(ours, expected):.1e}, transformers as it is by "
          f"{difference(as_it_is, expected):.1e}")
    if not (difference(ours, expected) <= 1e-12 and difference(as_it_is, expected) <= 1e-4):
        sys.exit(f"{title}: TOO LARGE")
    loss, gradients = expected
    config = written(changes) if asked.get("as_written") else config
    return {"title": title, "config": config, **asked, "ids": ids.tolist(), **({"labels": given} if "masked" in asked else {}),
            "loss": loss, "gradients": {name: [g.norm().item(), (g.flatten() @ numbers(f"direction of {name}", g.numel())).item()]
                                        for name, g in gradients.items()}}


def frequencies_of(preset, changes):
    config = transformers.AutoConfig.for_model(**{**SMALL, **changes})
    rotary = transformers.AutoModel.from_config(config).rotary_emb
    inverse, scaling = rotary.inv_freq, changes.get("rope_scaling", {})  # f32
    yarn = scaling.get("rope_type") == "yarn" and {
        "yarn": [scaling["factor"], scaling["original_max_position_embeddings"]], "gain": rotary.attention_scaling}
    return {"preset": preset, **(yarn or {}), "frequencies": [float(f"{x:.8g}") for x in inverse.tolist()]}


def rates_of(train):
    """The share of the rate that each step of a training run with these keys has, and of three steps more."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    names = {"warmup": "num_warmup_steps", "steps": "num_training_steps", "stable_steps": "num_stable_steps",
             "decay_steps": "num_decay_steps", "min_lr_ratio": "min_lr_ratio", "cycles": "num_cycles"}
    keys = {names.get(key, key): value for key, value in train.items() if key != "schedule"}
    keys.setdefault("num_warmup_steps", 0)
    if "stable_steps" in train:
        del keys["num_training_steps"]
    if train["schedule"] == "wsd":
        schedule = transformers.get_wsd_schedule(optimizer, **keys)
    else:
        keys["min_lr_rate"] = keys.pop("min_lr_ratio")
        schedule = transformers.get_cosine_with_min_lr_schedule_with_warmup(optimizer, **keys)
    return {"train": train, "factors": [schedule.lr_lambdas[0](step) for step in range(train["steps"] + 3)]}


def write(name, made_with, items):
    with open(f"{OUT}/{name}.json", "w") as file:
        lines = ",\n".join("  " + json.dumps(item) for item in items)
        file.write(f'{{"made_with": {json.dumps(made_with)}, "cases": [\n{lines}\n]}}\n')


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    made_with = (f"tools/values_from_pytorch.py, torch {torch.__version__.split('+')[0]}, "
                 f"transformers {transformers.__version__}, peft {check.peft.__version__}")
    cases = []
    for title, changes, asked in CASES:
        with tempfile.TemporaryDirectory(prefix="longbp-values-") as path:
            cases.append(case_of(title, changes, asked, path, rng))
    write("gradients", made_with, cases)
    write("rope", made_with, [frequencies_of(*case) for case in ROPE])
    write("schedules", made_with, [rates_of(train) for train in SCHEDULES])


if __name__ == "__main__":
    main()
