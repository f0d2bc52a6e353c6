#!/usr/bin/env python3
"""Writes tests/values/config_keys.json: of each family of models the keys of config.json that transformers reads, which
tests/test_config_keys.c holds the tables of harness/folder/config_keys.c against.

Run by hand, when a family is added or transformers gets newer:  tools/config_keys.py
Needs torch and transformers.

A key counts as read if it is a field of the family's configuration class, or if the source of that class, of the classes
that the family's causal model consists of, or of what these share (masks, caches, RoPE, the choice of a class) takes it
from a configuration. Keys that a model takes while it is built and run are recorded too, and must be among those: else the
sources are read wrongly. Options of generation, which the class drops, are listed apart, and so are all types of models that
transformers knows.
"""
import ast
import dataclasses
import inspect
import json
import os
import re
import textwrap

from needed_modules import need

need("torch", "transformers")
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

FAMILIES = ("llama", "mistral", "ministral", "phi3", "qwen2", "qwen3", "olmo2", "gemma", "gemma2", "gemma3_text", "olmo3", "granite_swa",
            "smollm3", "exaone4", "seed_oss", "ernie4_5", "granite", "glm", "glm4", "cohere", "cohere2", "gemma4_text",
            "qwen3_5_text", "deepseek_v2", "deepseek_v3", "youtu", "glm4_moe_lite", "kimi_linear", "minicpm3", "ministral3", "internlm3",
            "olmo_hybrid",
            "mixtral", "qwen3_moe", "qwen2_moe", "olmoe", "gpt_oss", "glm4_moe", "minimax_m2", "qwen3_next",
            "granitemoe", "ernie4_5_moe", "dots1")
SHARED = ("modeling_rope_utils", "masking_utils", "cache_utils", "utils/generic", "integrations/sdpa_attention",
          "models/auto/configuration_auto", "models/auto/auto_factory")
ROOT = os.path.dirname(transformers.__file__)
OUT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "values", "config_keys.json")
CONFIGS = ("config", "text_config", "decoder_config", "layer_config", "effective_config", "config_dict")
ROPES = ("rope_parameters", "rope_parameters_dict", "rope_params", "rope_scaling")
LISTS = ("possible_text_config_names", "args_with_config_defaults")  # of names that getattr is given in a loop
MADE = ("output_router_logits",)  # names that are made of another name where they are taken
GIVEN = ("__post_init__", "convert_rope_params_to_dict")  # functions of a configuration whose kwargs are its keys
SMALL = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "intermediate_size": 16, "vocab_size": 32, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
WINDOW = {"sliding_window": 3, "use_sliding_window": True, "max_window_layers": 1}
LATENT = {"num_key_value_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 16, "v_head_dim": 4,
          "first_k_dense_replace": 2, "mlp_layer_types": ["dense", "sparse"] * 2, "n_group": 1, "topk_group": 1}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4, "num_experts_per_tok": 2, "moe_k": 2,
           "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "n_shared_experts": 1, "moe_num_shared_experts": 1}
ROPE = ({"rope_type": "linear", "factor": 2.0}, {"rope_type": "dynamic", "factor": 2.0}, {"rope_type": "yarn", "factor": 2.0},
        {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 64})


def owner_of(node):
    """The last name of a chain such as self.config, or of config.rope_parameters[layer_type]."""
    while isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
        node = node.value
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def texts(node):
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def text(node):
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def reads_of(node):
    """Pairs of an owner and a name: owner.name, owner["name"], "name" in owner, getattr(owner, "name"), owner.get("name")."""
    if isinstance(node, ast.Attribute):
        yield owner_of(node.value), node.attr
    elif isinstance(node, ast.Subscript):
        yield from ((owner_of(node.value), key) for key in text(node.slice))
    elif isinstance(node, ast.Compare):
        yield from ((owner_of(node.comparators[0]), key) for key in text(node.left))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
        yield from ((owner_of(node.args[0]), key) for key in text(node.args[1]))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop", "setdefault"):
        yield from ((owner_of(node.func.value), key) for key in text(node.args[0]))
    elif isinstance(node, ast.Assign):
        name = owner_of(node.targets[0]) or ""
        if name in ("required_keys", "optional_keys"):
            yield from ((ROPES[0], key) for key in texts(node.value))
        if name.endswith(LISTS):
            yield from ((CONFIGS[0], key) for key in texts(node.value))


def read_in(source, configs=CONFIGS):
    """Names that a source takes from a configuration, and from an object of RoPE."""
    reads = [read for node in ast.walk(ast.parse(textwrap.dedent(source))) for read in reads_of(node)]
    return {key for owner, key in reads if owner in configs}, {key for owner, key in reads if owner in ROPES}


def sources_of(config_class, model):
    """Sources of classes and files, with the names that a configuration has there."""
    for path in SHARED:
        with open(f"{ROOT}/{path}.py") as file:
            yield file.read(), CONFIGS
    for c in {c for module in model.modules() for c in type(module).__mro__ if c.__module__.startswith("transformers.")}:
        yield inspect.getsource(c), CONFIGS
    for c in config_class.__mro__:
        if c.__module__.startswith("transformers.") and "Config" in c.__name__:
            yield inspect.getsource(c), CONFIGS + ("self",)
            yield from ((inspect.getsource(vars(c)[name]), ("kwargs",)) for name in GIVEN if name in vars(c))


def is_key(config_class, name):
    """A method or a class's constant is no key; a property is one if it can be set."""
    found = inspect.getattr_static(config_class, name, None)
    if isinstance(found, property):
        return found.fset is not None
    fields = {f.name for f in dataclasses.fields(config_class)}
    return name in fields or not (hasattr(config_class, name) or hasattr(dict, name) or name.startswith("__"))


def run(model_type, **keys):
    """A model that was run once, and what was taken from its configuration on the way."""
    seen, base = set(), transformers.PreTrainedConfig
    plain = base.__getattribute__

    def noted(self, key):
        seen.add(key)
        return plain(self, key)

    base.__getattribute__ = noted
    try:
        config = transformers.AutoConfig.for_model(model_type, **{**SMALL, **keys})
        model = transformers.AutoModelForCausalLM.from_config(config, experts_implementation="eager")
        ids = torch.arange(8)[None]
        model(ids, labels=ids).loss.backward()
    finally:
        base.__getattribute__ = plain
    return model, seen - set(keys)  # validation looks at all that is given


def keys_of(model_type):
    config_class = CONFIG_MAPPING[model_type]
    beside = {"llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 4} if model_type == "ministral3" else {}
    ropes = () if model_type in ("phi3", "kimi_linear", "gemma4_text") else ({"rope_scaling": {**rope, **beside}} for rope in ROPE)
    own = dict(LATENT) if hasattr(config_class, "kv_lora_rank") else {}
    own |= {key: value for key, value in EXPERTS.items() if any(f.name == key for f in dataclasses.fields(config_class))}
    if model_type == "olmoe":
        own["head_dim"] = 4  # its norms are of hidden_size
    if model_type == "kimi_linear":
        own["layer_types"] = ["full_attention", "linear_attention"] * 2
    runs = [run(model_type, **own, **keys) for keys in ({}, WINDOW, *ropes)]
    found = [read_in(*source) for source in sources_of(config_class, runs[0][0])]
    root = {f.name for f in dataclasses.fields(config_class)} | set(config_class.attribute_map)
    root |= set(config_class.attribute_map.values())
    root |= {name for c in config_class.__mro__ for name in vars(c) if isinstance(vars(c)[name], property)}
    root = {name for name in root.union(*(keys for keys, _ in found)) if is_key(config_class, name)}
    root |= {name for _, seen in runs for name in seen if name in MADE}
    wrong = {name for _, seen in runs for name in seen if is_key(config_class, name)} - root
    if wrong:
        raise SystemExit(f"{model_type}: taken by what runs and not found in the sources: {sorted(wrong)}")
    rope = set().union(*(keys for _, keys in found))
    return {"root": sorted(root), "rope": sorted(name for name in rope if not hasattr(dict, name) and name != "setter")}


def main():
    transformers.logging.set_verbosity_error()
    families = {model_type: keys_of(model_type) for model_type in FAMILIES}
    read = set().union(*(keys["root"] for keys in families.values()))
    dropped = set(transformers.GenerationConfig._get_default_generation_params()) - read
    found = {"made_by": "tools/config_keys.py", "transformers": transformers.__version__, "families": families,
             "generation": sorted(dropped), "model_types": sorted(CONFIG_MAPPING)}
    text = json.dumps(found, indent=1)
    with open(OUT, "w") as file:
        file.write(re.sub(r"\[[^]]*\]", lambda keys: " ".join(keys[0].split()), text) + "\n")  # a list is a line


if __name__ == "__main__":
    main()
