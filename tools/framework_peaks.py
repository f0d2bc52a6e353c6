#!/usr/bin/env python3
"""Peaks of training steps on a card, beside those that `longbp plan --like transformers` gives: what no run without a card can
tell. Needs torch there; without it, or with --plan, the planned peaks alone are printed.

The decoder below is Llama's as transformers 5 runs it, operation by operation, so that a machine without transformers will do.
`--meta` shows without a card that it is: its storages on meta tensors (tools/framework_steps.py, which needs transformers and
peft) have the planned peaks, to the byte.

Rows whose peak is in the MLP or the head say whether the plan of a loss in chunks is right. Rows of a narrow model have their peak
in attention's backward: what is measured beyond the plan, by flash or by cuDNN, is its workspace. With bitsandbytes,
transformers and peft two steps of QLoRA are measured; nothing plans them yet where no planned peak is printed.
"""
import argparse
import contextlib
import gc
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LAYERS = 4
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": LAYERS, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
         "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "rope_theta": 500000.0}
NARROW = LLAMA | {"hidden_size": 1024, "intermediate_size": 1024, "vocab_size": 8192}
ROWS = 2048  # of a loss in chunks


def cases():
    """Name of the model, its config, method, loss, LoRA's rank, tokens, and attention's kernel."""
    for method in ("checkpoint", "full"):
        for loss in ("whole", "chunked"):
            for rank in (0, 8):
                for context in (8192, 16384):
                    yield "llama", LLAMA, method, loss, rank, context, "flash"
    for kernel in ("flash", "cudnn"):
        for rank in (0, 8):
            for context in (8192, 16384):
                yield "narrow", NARROW, "checkpoint", "chunked", rank, context, kernel


def has(*modules):
    return all(importlib.util.find_spec(name) for name in modules)


# ---- planned

def planned(longbp, folder, case, more=()):
    """Peak bytes, the moment and the operation; or None and why."""
    name, config, method, loss, rank, context, _ = case
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    words = [longbp, "plan", "--like", "transformers", "--model", path, "--dtype", "bf16", "--method", method, "--context", str(context),
             "--framework", f"loss={loss},loss_rows={ROWS}", "--json", *(["--lora", f"r={rank},alpha=16,targets=q,v"] if rank else []), *more]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    if run.returncode:
        return None, run.stderr.strip()
    record = json.loads(run.stdout)
    return record["peak_bytes"], f"{record['framework']['peak_moment']}, {record['framework']['peak_operation']}"


# ---- the decoder, named as in transformers' modeling_llama.py

def decoder_of(config, rank, device):
    import torch
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint
    width, ffn, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = (config[key] * dim for key in ("num_attention_heads", "num_key_value_heads"))

    def weight(rows, cols, dtype=torch.bfloat16, trains=not rank):
        return torch.nn.Parameter(torch.empty(rows, cols, dtype=dtype, device=device).normal_(0, 0.02), requires_grad=trains)

    def gain():
        return torch.nn.Parameter(torch.ones(width, dtype=torch.bfloat16, device=device), requires_grad=not rank)

    def linear(rows, cols, adapted=False):
        factors = (weight(rank, cols, torch.float32, True), weight(rows, rank, torch.float32, True)) if adapted and rank else None
        return weight(rows, cols), factors

    def project(x, layer):
        matrix, factors = layer
        result = F.linear(x, matrix)
        if not factors:
            return result
        dtype = result.dtype
        x = x.to(factors[0].dtype)
        result = result + F.linear(F.linear(x, factors[0]), factors[1]) * 2.0
        return result.to(dtype)

    def norm(x, scale):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + 1e-5)
        return scale * x.to(dtype)

    def rotate_half(x):
        return torch.cat((-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]), dim=-1)

    def rotate(q, k, cos, sin):
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)

    def attend(q, k, v):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return out.transpose(1, 2).contiguous()

    def attention(x, layer, positions):
        shape = (*x.shape[:-1], -1, dim)
        q, k, v = (project(x, layer[name]).view(shape).transpose(1, 2) for name in "qkv")
        q, k = rotate(q, k, *positions)
        out = attend(q, k, v)
        out = out.reshape(*x.shape[:-1], -1).contiguous()
        return project(out, layer["o"])

    def mlp(x, layer):
        return project(F.silu(project(x, layer["gate"])) * project(x, layer["up"]), layer["down"])

    def layer_forward(x, layer, positions, place):  # the last, which it does not read, is kept by checkpoints
        residual = x
        x = norm(x, layer["norm"])
        x = attention(x, layer, positions)
        x = residual + x
        residual = x
        x = norm(x, layer["mlp_norm"])
        x = mlp(x, layer)
        return residual + x

    class Decoder:
        def __init__(self):
            self.embedding, self.norm, self.head = weight(config["vocab_size"], width), gain(), weight(config["vocab_size"], width)
            self.layers = [{"norm": gain(), "q": linear(heads, width, True), "k": linear(kv_heads, width), "v": linear(kv_heads, width, True),
                            "o": linear(width, heads), "mlp_norm": gain(), "gate": linear(ffn, width), "up": linear(ffn, width),
                            "down": linear(width, ffn)} for _ in range(LAYERS)]
            self.frequencies = [torch.ones(dim // 2, device=device) for _ in range(2)]  # transformers keeps two

        def weights(self):
            flat = [part for layer in self.layers for value in layer.values() for part in (value if isinstance(value, tuple) else (value,))]
            factors = [factor for part in flat if isinstance(part, tuple) for factor in part]
            return [self.embedding, self.norm, self.head, *(part for part in flat if isinstance(part, torch.Tensor)), *factors]

        def hidden(self, ids, checkpoints):
            embeddings = F.embedding(ids, self.embedding)
            if checkpoints and rank:
                embeddings.requires_grad_(True)
            place = torch.arange(ids.shape[1], device=device)[None]
            angles = (self.frequencies[0][None, :, None].float() @ place[:, None, :].float()).transpose(1, 2)
            angles = torch.cat((angles, angles), dim=-1)
            positions = tuple(turn(angles).to(torch.bfloat16) for turn in (torch.cos, torch.sin))
            del angles
            x = embeddings
            for layer in self.layers:
                reads = (x, layer, positions, place)
                x = checkpoint(layer_forward, *reads, use_reentrant=False) if checkpoints else layer_forward(*reads)
                del reads
            return norm(x, self.norm)

        def loss(self, hidden, labels, loss):
            if loss == "whole":
                logits = F.linear(hidden, self.head).float()
                labels = F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
                return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))
            hidden, labels = hidden.flatten(0, 1), labels.flatten()

            def part(hidden, head, labels):
                return F.cross_entropy(F.linear(hidden, head).float(), labels, reduction="sum")
            return sum(checkpoint(part, h, self.head, y, use_reentrant=False) for h, y in zip(hidden.split(ROWS), labels.split(ROWS)))

        def step(self, ids, labels, method, loss):
            self.loss(self.hidden(ids, method == "checkpoint"), labels, loss).backward()
            for part in self.weights():
                part.grad = None

    return Decoder()


def on_meta(case):
    import torch
    import torch.nn.functional as F
    import framework_steps
    _, config, method, loss, rank, context, _ = case
    F.scaled_dot_product_attention = framework_steps.attention("flash")
    seen = framework_steps.Storages(False)
    with seen, torch.device("meta"):
        decoder = decoder_of(config, rank, "meta")
        libraries = [torch.empty(framework_steps.CUBLAS, dtype=torch.uint8) for _ in range(2)]
        ids, labels = (torch.zeros(1, context, dtype=torch.int64) for _ in range(2))
        seen.moment = "step"
        decoder.step(ids, labels, method, loss)
        del libraries
    return seen.peak().live


def on_card(case):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    _, config, method, loss, rank, context, kernel = case
    backend = SDPBackend.FLASH_ATTENTION if kernel == "flash" else SDPBackend.CUDNN_ATTENTION
    decoder = decoder_of(config, rank, "cuda")
    ids, labels = (torch.zeros(1, context, dtype=torch.int64, device="cuda") for _ in range(2))
    with sdpa_kernel(backend):
        for _ in range(2):  # the first makes the libraries' workspaces
            torch.cuda.reset_peak_memory_stats()
            decoder.step(ids, labels, method, loss)
            torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


# ---- QLoRA

def qlora_on_card(context, loss):
    import torch
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig
    quantised = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                   bnb_4bit_compute_dtype=torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:  # bitsandbytes quantises what is loaded
        config = {key: value for key, value in LLAMA.items() if key not in ("model_type", "architectures")}
        AutoModelForCausalLM.from_config(LlamaConfig(**config), dtype=torch.bfloat16).save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, quantization_config=quantised, dtype=torch.bfloat16, device_map={"": 0})
    model = prepare_model_for_kbit_training(model, gradient_checkpointing_kwargs={"use_reentrant": False})
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"]))
    model.train()
    ids = torch.zeros(1, context, dtype=torch.int64, device="cuda")
    for _ in range(2):
        torch.cuda.reset_peak_memory_stats()
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        model.zero_grad()
        torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def show_qlora(longbp, folder):
    for context in (8192, 16384):
        case = ("llama", LLAMA, "checkpoint", "whole", 8, context, "flash")
        plan, what = planned(longbp, folder, case, ("--weights", "nf4"))
        show(case, plan, what, qlora_on_card(context, "whole"), "QLoRA, ")


# ---- rows

def size(count):
    return f"{count:>14}" if count is not None else f"{'-':>14}"


def show(case, plan, what, seen, how=""):
    name, _, method, loss, rank, context, kernel = case
    difference = f"{seen - plan:>+13}" if None not in (seen, plan) else f"{'-':>13}"
    step = f"{how}{name}, {method}, loss {loss}, {f'LoRA {rank}' if rank else 'all weights'}, {kernel}"
    print(f"{step:<58} {context:>7} {size(plan)} {size(seen)} {difference}  {what}", flush=True)


def tell_card():
    import torch
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}")
    return "h200-141g" if torch.cuda.get_device_capability() >= (9, 0) else "a100-80g"  # whose cuBLAS has the same workspaces


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longbp", default=os.path.join(ROOT, "build", "longbp"))
    parser.add_argument("--plan", action="store_true", help="measure nothing")
    parser.add_argument("--meta", action="store_true", help="count storages of meta tensors; exit 1 if a peak differs")
    arguments = parser.parse_args()
    measure, profile, wrong = None, None, 0
    if arguments.meta:
        measure = on_meta
    elif not arguments.plan and has("torch"):
        import torch
        if torch.cuda.is_available():
            profile, measure = tell_card(), on_card
    if not measure:
        print("planned alone: no torch with a card here" if not arguments.plan else "planned alone")
    print(f"{'step':<58} {'tokens':>7} {'planned':>14} {'measured' if measure is on_card else 'counted':>14} {'difference':>13}  the planned peak")
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            if arguments.meta and case[-1] != "flash":
                continue
            plan, what = planned(os.path.abspath(arguments.longbp), folder, case, ("--profile", profile) if profile else ())
            seen = measure(case) if measure else None
            wrong += plan is None or (arguments.meta and seen != plan)
            show(case, plan, what, seen)
            gc.collect()
            if measure is on_card:
                with contextlib.suppress(ImportError):
                    torch.cuda.empty_cache()
        if measure is on_card and has("bitsandbytes", "transformers", "peft"):
            show_qlora(os.path.abspath(arguments.longbp), folder)
        elif not arguments.meta:
            print("no QLoRA: needs a card, bitsandbytes, transformers and peft")
    sys.exit(wrong > 0)


main()
