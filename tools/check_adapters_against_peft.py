#!/usr/bin/env python3
"""Holds LoRA against peft in f64: adapters that peft saved, whose loss and gradients `longbp grad` computes by four methods,
and adapters that `longbp train` writes, which peft loads with all keys matched and the same loss.

Run by hand, after `make`:  tools/check_adapters_against_peft.py [--tolerance 1e-12]
Needs torch, numpy, safetensors, transformers and peft. Exits 1 if a difference is too large. transformers' models compute
RoPE and norms in f32; here they are computed by check_against_pytorch.py's, in f64, but for models of images or sound,
over whose language models adapters are held to --rough.
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings

# First: it says how many threads there are.
from check_against_pytorch import COMPOSITES, LONGBP, loader_of, make_composite, relative_l2, rms_norm, rope_angles

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

try:
    import peft
    import transformers
except ImportError:
    peft = None

CONTEXT, VOCABULARY = 24, 64
SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
         "intermediate_size": 48, "vocab_size": VOCABULARY, "max_position_embeddings": 64, "rope_theta": 1e4,
         "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
MODELS = {
    "llama": {"model_type": "llama"},
    "llama, tied": {"model_type": "llama", "tie_word_embeddings": True},
    "gemma3, tied": {"model_type": "gemma3_text", "tie_word_embeddings": True, "query_pre_attn_scalar": 8, "sliding_window": 16},
    "phi3": {"model_type": "phi3"},
}
QV = ["q_proj", "v_proj"]
TABLES = [{"target_modules": [*QV, "lm_head"]}, {"target_modules": [*QV, "embed_tokens"]},
          {"target_modules": ["embed_tokens", "lm_head"], "rank_pattern": {"lm_head": 2}},
          {"target_modules": QV, "modules_to_save": ["lm_head"]}, {"target_modules": QV, "modules_to_save": ["embed_tokens"]},
          {"target_modules": QV, "modules_to_save": ["embed_tokens", "lm_head"]},
          {"target_modules": QV, "modules_to_save": ["lm_head"], "ensure_weight_tying": True}]
SAVED_BY_PEFT = {
    "llama": [
        {"target_modules": QV},
        {"target_modules": [*QV, "down_proj"], "rank_pattern": {"q_proj": 2, "layers.1.self_attn.v_proj": 7},
         "alpha_pattern": {"v_proj": 5}},
        {"target_modules": QV, "rank_pattern": {r"^model\.layers\.[0-1]\..*(q|v)_proj": 2}, "use_rslora": True},
        {"target_modules": QV, "layers_to_transform": [1, 2]},
        {"target_modules": QV, "layers_to_transform": 2, "layers_pattern": "layers"},
        {"target_modules": r"model\.layers\.(?:0|2)\.self_attn\.[qkvo]_proj|.*\.\d\.mlp\.up_proj$"},
        {"target_modules": "all-linear", "exclude_modules": ["down_proj", "model.layers.0.self_attn.q_proj"]},
        {"target_modules": "all-linear", "exclude_modules": r".*layers\.1\..*"},
        {"target_modules": ["lm_head"]}, {"target_modules": ["embed_tokens"], "use_rslora": True},
        {"target_modules": QV, "modules_to_save": ["norm"]},
        {"target_modules": QV, "modules_to_save": ["model.norm"], "layers_to_transform": [2]},
        {"target_modules": [*QV, "up_proj"], "modules_to_save": ["mlp"]}, *TABLES],
    "llama, tied": TABLES,
    "gemma3, tied": TABLES,
    "phi3": [{"target_modules": ["qkv_proj"]}, {"target_modules": "all-linear", "rank_pattern": {"gate_up_proj": 2}},
             {"target_modules": ["gate_up_proj", "o_proj"], "use_rslora": True, "layers_to_transform": [1]}],
}
SAVED_HERE = {
    "llama": ["r=4", "r=4,rslora=true,targets=all-linear", "r=2,targets=q,down,layers_to_transform=1,2",
              "r=3,targets=q,v,rank_pattern=q:2,layers.1.self_attn.v_proj:5,alpha_pattern=q_proj:3",
              r"r=4,targets=.*layers\.1\..*_proj", "r=4,targets=embed,head,q", "r=4,modules_to_save=lm_head,embed_tokens",
              "r=4,targets=all-linear,exclude_modules=down_proj,modules_to_save=norm"],
    "llama, tied": ["r=4,targets=q,embed,head", "r=4,modules_to_save=lm_head", "r=4,modules_to_save=embed_tokens",
                    "r=4,modules_to_save=lm_head,ensure_weight_tying=true"],
    "phi3": ["r=4", "r=4,targets=q,k,v,gate,up,o", "r=4,targets=all-linear", "r=4,targets=qkv", "r=4,targets=q,k,v,rslora=true",
             "r=4,targets=gate,down,rank_pattern=gate_proj:3,alpha_pattern=gate_proj:12"],
}
# Over the language model of a model of images or sound; "text" stands for it in names.
WITHIN = r"model\.text\.layers\.\d+\.(?:self_attn|mlp)\.(?:q|v|down)_proj"
COMPOSITES_SAVED_BY_PEFT = [{"target_modules": WITHIN}, {"target_modules": WITHIN, "rank_pattern": {"text.layers.1.*": 2}},
                            {"target_modules": ["model.text.layers.0.self_attn.q_proj", "text.layers.1.mlp.up_proj", "lm_head"]},
                            {"target_modules": ["embed_tokens"], "modules_to_save": ["lm_head", "text.norm"]},
                            {"target_modules": WITHIN, "modules_to_save": ["embed_tokens"]}]
COMPOSITES_SAVED_HERE = ["r=4", "r=4,rslora=true,targets=all-linear", "r=2,targets=q,down,layers_to_transform=1,2",
                         "r=3,targets=q,v,rank_pattern=q:2,alpha_pattern=q_proj:3", "r=4,targets=embed,head,q",
                         "r=4,modules_to_save=lm_head,embed_tokens,norm", "r=4,modules_to_save=lm_head,ensure_weight_tying=true"]
METHODS = [["full"], ["checkpoint"], ["streambp", "--chunk", "7"], ["seco", "--chunk", "7"]]


def epsilon_of(norm):
    return norm.eps if hasattr(norm, "eps") else norm.variance_epsilon


def load(folder):
    """The base in f64 throughout."""
    model = loader_of(folder).from_pretrained(folder, dtype=torch.float64, attn_implementation="sdpa")
    with open(f"{folder}/config.json") as file:
        config = {**SMALL, **json.load(file)}
    if config["model_type"] in COMPOSITES:
        return model
    gemma, types = config["model_type"].startswith("gemma"), config.get("layer_types") or []

    def angles_of(x, position_ids, layer_type=None):
        layer = types.index(layer_type) if layer_type in types else 0
        return rope_angles(config, torch.arange(x.shape[1])[None], layer)

    model.model.rotary_emb.forward = angles_of
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):  # of the class: peft copies modules
            type(module).forward = lambda self, x, one=int(gemma): rms_norm(x, self.weight + one, epsilon_of(self))
        if type(module).__name__.endswith("ScaledWordEmbedding"):
            module.embed_scale = torch.tensor(math.sqrt(config["hidden_size"]), dtype=torch.float64)
    return model


def loss_of(model, ids):
    return F.cross_entropy(model(input_ids=ids[None], use_cache=False).logits[0, :-1], ids[1:])


def name_here(name):
    """The name under which longbp has peft's parameter."""
    name = re.sub(r"model\.(language_model|text_model)\.", "model.", name)
    if ".modules_to_save" in name:
        return name.replace(".modules_to_save.default", "").removeprefix("base_model.model.")
    return name.replace(".default", "")


def longbp(*command):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"failed with {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


def grad(binary, base, adapter, data, method, out):
    said = longbp(binary, "grad", "--model", base, "--lora", adapter, *data, "--context", CONTEXT, "--method", *method,
                  "--out", out)
    return json.loads(said)["loss"], load_file(out)


def check_saved_by_peft(binary, path, base, options, data, ids):
    """The largest difference of loss and gradient."""
    model = peft.get_peft_model(load(base), peft.LoraConfig(task_type="CAUSAL_LM", **{"r": 4, "lora_alpha": 12, **options}),
                                autocast_adapter_dtype=False)
    for name, p in model.named_parameters():
        if p.requires_grad:
            p.data = p.data + torch.randn_like(p) * 0.1
    adapter = tempfile.mkdtemp(dir=path)
    model.save_pretrained(adapter)
    loss = loss_of(model, ids)
    loss.backward()
    expected = {name_here(name): p.grad for name, p in model.named_parameters() if p.requires_grad}
    worst = 0
    for method in METHODS:
        found, gradients = grad(binary, base, adapter, data, method, f"{path}/gradients.safetensors")
        worst = max(worst, abs(found - loss.item()), relative_l2(gradients, expected)[0])
    return worst


def check_saved_here(binary, path, base, lora, data, ids):
    """The largest difference of loss."""
    out = f"{tempfile.mkdtemp(dir=path)}/out"
    longbp(binary, "train", "--model", base, "--lora", lora, *data, "--context", CONTEXT - 1, "--steps", 3, "--method",
           "streambp", "--chunk", 7, "--optimizer", "adamw,rate=1e-2", "--out", out)
    model = peft.PeftModel.from_pretrained(load(base), out, autocast_adapter_dtype=False)
    keys = model.load_adapter(out, "again", autocast_adapter_dtype=False)
    if keys.missing_keys or keys.unexpected_keys:
        sys.exit(f"{lora}: missing {keys.missing_keys}, unexpected {keys.unexpected_keys}")
    loss = loss_of(model, ids).item()
    if abs(loss - loss_of(load(base), ids).item()) < 1e-6:
        sys.exit(f"{lora}: the adapter does nothing")
    return abs(grad(binary, base, out, data, METHODS[0], f"{path}/gradients.safetensors")[0] - loss)


def check_all(binary, path, base, title, saved_by_peft, saved_here, data, ids, tolerance):
    """Whether a difference is too large."""
    largest = 0
    for kind, check, cases in (("peft's", check_saved_by_peft, saved_by_peft), ("ours", check_saved_here, saved_here)):
        for case in cases:
            worst = check(binary, path, base, case, data, ids)
            largest = max(largest, worst)
            print(f"{title}, {kind}, {case}: {worst:.1e}, allowed {tolerance:.0e}", flush=True)
    return largest > tolerance


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longbp", default=LONGBP)
    parser.add_argument("--tolerance", type=float, default=1e-12)
    parser.add_argument("--rough", type=float, default=1e-5)
    arguments = parser.parse_args()
    if not peft:
        print("adapters: transformers and peft are not there")
        return
    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    failed = False
    with tempfile.TemporaryDirectory() as path:
        ids = np.random.default_rng(1).integers(0, VOCABULARY, CONTEXT).astype("uint16")
        ids.tofile(f"{path}/tokens.bin")
        data = ["--tokens", f"{path}/tokens.bin", "--token-dtype", "u16", "--dtype", "f64"]
        ids = torch.from_numpy(ids.astype("int64"))
        for i, (title, changes) in enumerate(MODELS.items()):
            config = {"tie_word_embeddings": False, **SMALL, **changes}
            model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config)).double()
            for p in model.parameters():
                p.data += torch.randn_like(p) * 0.05
            base = f"{path}/model{i}"
            model.save_pretrained(base)
            failed |= check_all(arguments.longbp, path, base, title, SAVED_BY_PEFT.get(title, []), SAVED_HERE.get(title, []), data,
                                ids, arguments.tolerance)
        for i, model_type in enumerate(COMPOSITES):
            base = f"{path}/composite{i}"
            make_composite(base, model_type, i)
            part = "text_model" if model_type in ("idefics3", "smolvlm") else "language_model"
            saved = json.loads(re.sub(r"\btext\b", part, json.dumps(COMPOSITES_SAVED_BY_PEFT)))
            failed |= check_all(arguments.longbp, path, base, model_type, saved, COMPOSITES_SAVED_HERE, data, ids, arguments.rough)
    print(f"peft {peft.__version__}: {'too large a difference' if failed else 'equal'}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
