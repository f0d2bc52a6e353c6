#!/usr/bin/env python3
"""Holds what `longbp grad` makes of random config.json against transformers: none may be read and computed otherwise.

After `make`:  tools/fuzz_configs.py [--count 2000] [--seed 1] [--keep DIR]
Needs torch, transformers, numpy and safetensors. Exits 1 if a config is read here and
its loss or gradients differ from transformers'.

A config is that of a small model of one of the families, in which keys are left out, set to null or to other values, usual
and odd, among them keys of other families and old names, RoPE in every spelling, and layers of every type. transformers
computes in f64, casts to f32 in its source included. Configs that one side refuses are counted by its reason: refused here
though transformers computes it, or read here though transformers fails.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

from needed_modules import need

need("numpy", "torch", "transformers", "safetensors")
os.environ.update(OMP_NUM_THREADS="1")
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import check_against_pytorch as check

warnings.simplefilter("ignore")
torch.set_num_threads(1)
transformers.logging.set_verbosity(transformers.logging.CRITICAL)
CONTEXT, VOCABULARY = 40, 48
TOLERANCE = 1e-11  # relative L2 of all gradients, and of the loss
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
FULL, SLIDING = "full_attention", "sliding_attention"
FAMILIES = {  # what the family needs to be small
    "llama": {}, "mistral": {"sliding_window": 9}, "ministral": {"sliding_window": 9, "head_dim": 8},
    "phi3": {"bos_token_id": None, "eos_token_id": None}, "qwen2": {}, "qwen3": {"head_dim": 8},
    "olmo2": {}, "olmo3": {"sliding_window": 9, "num_hidden_layers": 4}, "gemma": {"head_dim": 8},
    "gemma3_text": {"head_dim": 8, "sliding_window": 9, "query_pre_attn_scalar": 8, "sliding_window_pattern": 2}}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 24, "vocab_size": VOCABULARY, "pad_token_id": None}
ODD = [None, True, False, 0, 1, 2, -1, 0.5, 1e30, "", "text", [], {}, [1], {"a": 1}, "0.5"]
# Values that files have; of a key of several meanings each. Keys that a family does not have are given to it, too.
VALUES = {
    "hidden_size": [32, 64, 48], "num_hidden_layers": [1, 2, 3, 7], "num_attention_heads": [2, 4, 8],
    "num_key_value_heads": [1, 2, 4, None], "head_dim": [4, 8, 10, 16, None], "intermediate_size": [8, 40],
    "vocab_size": [48, 61], "max_position_embeddings": [16, 32, 64, 4096], "rms_norm_eps": [1e-6, 1e-5, 1e-3, 0.5],
    "hidden_act": ["silu", "gelu", "gelu_pytorch_tanh", "swish", "relu", "gelu_new", "gelu_python_tanh", "gelu_fast"],
    "hidden_activation": ["gelu_pytorch_tanh", "silu", "gelu", None, "gelu_new"],
    "tie_word_embeddings": [True, False], "attention_bias": [True, False], "mlp_bias": [True, False],
    "qkv_bias": [True, False], "attention_dropout": [0.0, 0.5], "resid_pdrop": [0.0, 0.5], "embd_pdrop": [0.0, 0.5],
    "rope_theta": [10000, 100.0, 1e6, 500000], "rope_local_base_freq": [10.0, 1000],
    "partial_rotary_factor": [1.0, 1, 0.5, None], "original_max_position_embeddings": [8, 16, 32, 64, None],
    "sliding_window": [3, 9, 30, 4096, None], "use_sliding_window": [True, False, None],
    "max_window_layers": [0, 1, 2, 28], "sliding_window_pattern": [1, 2, 3, 6], "attention_chunk_size": [4, None],
    "query_pre_attn_scalar": [8, 16, 25], "final_logit_softcapping": [30.0, None], "attn_logit_softcapping": [50.0, None],
    "is_causal": [True, False, None], "use_bidirectional_attention": [True, False, None],
    "is_encoder_decoder": [False, True], "per_layer_config": [None, {}, {"0": {"intermediate_size": 16}}],
    "torch_dtype": ["bfloat16", "float32"], "dtype": ["float16", None], "use_cache": [True, False],
    "initializer_range": [0.02], "pretraining_tp": [1, 2], "bos_token_id": [1], "eos_token_id": [2, [1, 2]], "pad_token_id": [0, 3, 47, -1, None],
    "architectures": [None, ["LlamaForCausalLM"]], "chunk_size_feed_forward": [0, 4], "id2label": [{"0": "a", "1": "b"}],
    "num_labels": [3], "use_qk_norm": [True, False], "kv_sharing_modes": [None], "output_attentions": [True, False],
    "mlp_layer_types": [["dense", "dense"]], "auto_map": [{"AutoModel": "own.Own"}], "gradient_checkpointing": [True],
    "text_config": [None, {}], "num_experts": [0, 8], "temperature": [0.6], "use_mrope": [False], "quantization_config": [None],
    "_name_or_path": ["x/y"], "transformers_version": ["4.40.0"], "rope_interleaved": [False, True], "num_mtp_layers": [1],
}


def rope_object(rng):
    kinds = [{}, {"rope_type": "default"}, {"type": "default"}, {"rope_type": "linear", "factor": 2.0},
             {"type": "linear", "factor": 4}, dict(LLAMA3), {**LLAMA3, "factor": 2},
             {"rope_type": "yarn", "factor": 4.0}, {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 16},
             {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5, "beta_fast": 4, "beta_slow": 0.5},
             {"rope_type": "proportional", "partial_rotary_factor": 0.5}, {"rope_type": "dynamic", "factor": 2.0}, {"type": "su", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4},
             {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}]
    found = dict(rng.choice(kinds))
    numbers = {"rope_theta": [100.0, 10000, 1e6], "factor": [1.0, 2.0, 8, None], "original_max_position_embeddings": [8, 32, 64],
               "beta_fast": [0, 8, None], "beta_slow": [0, 2, None], "attention_factor": [1.3, None, 1.0], "mscale": [0, 0.7, 1],
               "mscale_all_dim": [0, 0.7, 1], "truncate": [True, False, None], "partial_rotary_factor": [1.0, 0.5, None],
               "low_freq_factor": [2.0], "type": ["linear", "default"], "rope_type": ["default", None], "mrope_section": [[1, 1, 2]],
               "rope_local_base_freq": [50.0], "short_factor": [[1.0] * 4]}
    for key in rng.sample(sorted(numbers), rng.choice([0, 0, 1, 1, 2])):
        found[key] = rng.choice(numbers[key])
    if rng.random() < 0.05 and found:
        found.pop(rng.choice(sorted(found)))
    return found


def ropes(rng):
    """rope_scaling or rope_parameters, or both, each of one object or of one by type of layer."""
    def one():
        kind = rng.random()
        if kind < 0.1:
            return rng.choice([None, {}])
        if kind < 0.6:
            return rope_object(rng)
        nested = {name: rng.choice([rope_object(rng), rope_object(rng), None]) for name in (FULL, SLIDING) if rng.random() < 0.8}
        if rng.random() < 0.15:
            nested.update(rng.choice([{"rope_theta": 50.0}, {"truncate": False}, {"rope_type": "linear", "factor": 2.0}]))
        return nested
    which = rng.choice([("rope_scaling",), ("rope_parameters",), ("rope_scaling", "rope_parameters")])
    return {key: one() for key in which}


def layer_types(rng, layers):
    kind = rng.random()
    if kind < 0.05:
        return rng.choice([None, [], "full_attention"])
    names = [FULL, SLIDING] if kind < 0.9 else [FULL, SLIDING, "attention", "linear_attention", "chunked_attention"]
    return [rng.choice(names) for _ in range(layers if kind < 0.95 or not isinstance(layers, int) else layers + 1)] \
        if isinstance(layers, int) else [FULL]


def random_config(rng, recorded):
    family = rng.choice(sorted(FAMILIES))
    config = {"model_type": family, **SMALL, **FAMILIES[family]}
    own = sorted(set(VALUES) & set(recorded["families"][family]["root"]))
    everybody = sorted({key for known in recorded["families"].values() for key in known["root"]} | set(recorded["generation"]))
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4])):
        kind = rng.random()
        if kind < 0.45:
            key = rng.choice(own)
            config[key] = rng.choice(VALUES[key])
        elif kind < 0.6:
            key = rng.choice(sorted(VALUES))
            config[key] = rng.choice(VALUES[key])
        elif kind < 0.68:
            key = rng.choice(everybody)
            config[key] = rng.choice(ODD)
        elif kind < 0.74:
            key = rng.choice(own)
            config[key] = rng.choice(ODD)
        elif kind < 0.8:
            key = rng.choice(sorted(set(config) - {"model_type"}))
            if len(config) > 1 and key not in ("hidden_size", "vocab_size", "intermediate_size"):
                config.pop(key)  # which are large where they are left out
        else:
            config["layer_types"] = layer_types(rng, config.get("num_hidden_layers"))
            if rng.random() < (0.6 if "use_sliding_window" in own else 0.1):
                config.update({"use_sliding_window": True, "sliding_window": rng.choice([3, 9])})
    if rng.random() < 0.5:
        config.update(ropes(rng))
    if config.get("num_hidden_layers", 99) == 99:
        config["num_hidden_layers"] = 2
    keys = sorted(set(config) - {"model_type"})
    rng.shuffle(keys)
    return {"model_type": family, **{key: config[key] for key in keys}}


class InDouble:
    """f32 of transformers' source means f64 within."""

    def __enter__(self):
        self.kept = torch.float32, torch.float, torch.Tensor.float
        torch.float32 = torch.float = torch.float64
        torch.Tensor.float = torch.Tensor.double

    def __exit__(self, *_):
        torch.float32, torch.float, torch.Tensor.float = self.kept


def theirs(folder, ids, seed):
    """Loss and gradients by transformers, which also writes the weights."""
    config = transformers.AutoConfig.from_pretrained(folder)
    if max(config.hidden_size, config.intermediate_size, config.vocab_size) > 1000 or config.num_hidden_layers > 16:
        raise ValueError("too large to be tried")
    with InDouble():
        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float64).double()
        mean = 0.0 if config.model_type.startswith("gemma") else 1.0
        for name, p in model.named_parameters():
            p.data.normal_(mean if "norm" in name else 0.0, 0.2)
        parameters = dict(model.named_parameters())
        save_file({name: p.data.contiguous() for name, p in parameters.items()}, f"{folder}/model.safetensors")
        model.eval()
        loss = model(ids, labels=ids, return_dict=True).loss
        loss.backward()
    shape = {key: getattr(config, key) for key in ("num_attention_heads", "num_key_value_heads", "intermediate_size")}
    shape["head_dim"] = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return loss.item(), check.apart({name: p.grad for name, p in parameters.items()}, shape)


def ours(longbp, folder, tokens):
    """Loss and gradients; or the reason."""
    command = [longbp, "grad", "--model", folder, "--tokens", tokens, "--token-dtype", "u16", "--context", str(CONTEXT),
               "--dtype", "f64", "--out", f"{folder}/gradients"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    if done.returncode:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("longbp grad: ")]
        if done.returncode < 0 or not reasons:
            raise SystemExit(f"{' '.join(command)}: {done.returncode}: {done.stderr}")
        return None, reasons[-1]
    return json.loads(done.stdout)["loss"], load_file(f"{folder}/gradients")


def short(reason):
    """A reason without what is of this config alone: paths, places and values."""
    reason = re.sub(r"/\S*?config\.json(:\d+:\d+)?: ", "", str(reason).strip().removeprefix("longbp grad: command line: "))
    return re.sub(r"found .*|got .*|\b\d[\d.e+-]*|\[.*\]|\{.*\}", "…", reason.split("\n")[0])[:110]


def distance(found, expected):
    if found.keys() != expected.keys():
        return float("inf")
    if any(found[name].shape != expected[name].shape for name in expected):
        return float("inf")
    return check.relative_l2(found, expected)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="of configs (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first config, which the next ones count up (%(default)s)")
    parser.add_argument("--keep", help="a folder for configs that differ")
    parser.add_argument("--longbp", default=check.LONGBP, help="the program (%(default)s)")
    arguments = parser.parse_args()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "values", "config_keys.json")) as file:
        recorded = json.load(file)
    scratch = tempfile.TemporaryDirectory(prefix="longbp-configs-")
    tokens, folder = f"{scratch.name}/tokens", f"{scratch.name}/model"
    ids = np.random.default_rng(1).integers(0, VOCABULARY, CONTEXT).astype("<u2")
    ids.tofile(tokens)
    ids = torch.from_numpy(ids.astype(np.int64))[None]
    counts, reasons, different, families = collections.Counter(), collections.defaultdict(collections.Counter), [], collections.Counter()
    largest = 0.0
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        config = random_config(random.Random(seed), recorded)
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        with open(f"{folder}/config.json", "w") as file:
            json.dump(config, file)
        try:
            their_loss, their_gradients = theirs(folder, ids, seed)
            failed = None
        except Exception as error:  # whatever transformers makes of it
            failed = f"{type(error).__name__}: {error}"
            if not os.path.exists(f"{folder}/model.safetensors"):
                shutil.rmtree(folder)
                os.mkdir(folder)
                with open(f"{folder}/config.json", "w") as file:
                    json.dump(config, file)
        loss, gradients = ours(arguments.longbp, folder, tokens)
        only_weights = loss is None and "config.json" not in gradients
        if failed:
            kind = "refused by both" if loss is None and not only_weights else "read here though transformers fails"
            reasons[kind][short(failed)] += 1
        elif loss is None:
            kind = "refused here though transformers computes it"
            reasons[kind][short(gradients)] += 1
        else:
            apart = max(distance(gradients, their_gradients), abs(loss - their_loss) / abs(their_loss))
            kind = "the same" if apart <= TOLERANCE else "DIFFERENT"
            families[config["model_type"]] += 1
            largest = max(largest, apart) if apart <= TOLERANCE else largest
            if apart > TOLERANCE:
                different.append(seed)
                print(f"seed {seed}: relative L2 {apart:.2e}, loss {loss!r}, transformers {their_loss!r}: {json.dumps(config)}", flush=True)
                if arguments.keep:
                    shutil.copytree(folder, os.path.join(arguments.keep, str(seed)), dirs_exist_ok=True)
        counts[kind] += 1
    for kind, number in counts.most_common():
        print(f"{number:6} {kind}")
        for reason, times in reasons[kind].most_common():
            if kind != "refused by both":
                print(f"         {times:5} {reason}")
    print(f"computed by both, by family: {dict(sorted(families.items()))}; the largest relative L2 {largest:.1e}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
