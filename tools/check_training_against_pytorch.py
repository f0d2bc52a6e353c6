#!/usr/bin/env python3
"""Holds training runs of `longbp train` in f64 against PyTorch's own optimizers: 20 steps, losses, norms and weights.

Run by hand, after `make`:  tools/check_training_against_pytorch.py [--tolerance 1e-11]
Needs torch, numpy and safetensors; transformers' schedulers, if there, give the rates. Exits 1 if a difference is too
large. The model is check_against_pytorch.py's, whose gradients that script holds against autograd.
"""
import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from check_against_pytorch import LORA, LONGBP, decoder

try:
    from transformers import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup
except ImportError:
    get_cosine_schedule_with_warmup = get_linear_schedule_with_warmup = None

CONTEXT, BATCH, ACCUMULATE, STEPS, CHUNK = 40, 2, 2, 20, 16
ADAMW = (lambda groups: torch.optim.AdamW(groups, lr=3e-3), "adamw,rate=3e-3,decay=0.1", 0.1)
CASES = [  # optimizer, its flag and decay of matrices; further flags, norm to clip to, schedule, warm-up, LoRA
    ("AdamW", *ADAMW, [], 0, None, 0, False),
    ("AdamW, accumulated, clipped, cosine", *ADAMW,
     ["--accumulate", ACCUMULATE, "--clip", 0.5, "--schedule", "cosine", "--warmup", 3], 0.5, "cosine", 3, False),
    ("AdamW, linear, LoRA", *ADAMW, ["--schedule", "linear", "--warmup", 2], 0, "linear", 2, True),
    ("SGD", lambda groups: torch.optim.SGD(groups, lr=0.02), "sgd,rate=0.02", 0, [], 0, None, 0, False),
    ("SGD, momentum, decay, clipped", lambda groups: torch.optim.SGD(groups, lr=0.02, momentum=0.9),
     "sgd,rate=0.02,momentum=0.9,decay=0.05", 0.05, ["--clip", 1], 1, None, 0, False),
]
METHODS = [["full"], ["streambp", "--chunk", CHUNK], ["seco", "--chunk", CHUNK]]


def factor(schedule, warmup, done):
    """What the rate of the step after `done` is multiplied by. longbp's first step of a warm-up over w has 1 / w."""
    if done < warmup:
        return (done + 1) / warmup
    if schedule is None:
        return 1.0
    make = get_cosine_schedule_with_warmup if schedule == "cosine" else get_linear_schedule_with_warmup
    if make is None:
        along = (done - warmup) / (STEPS - warmup)
        return (1 + math.cos(math.pi * along)) / 2 if schedule == "cosine" else 1 - along
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    return make(optimizer, warmup, STEPS).lr_lambdas[0](done)


def reference(folder, config, ids, case):
    """Losses and norms of each step, and the weights that are left."""
    _, make, _, decay, flags, clip, schedule, warmup, lora = case
    weights = {name: w.double() for name, w in load_file(f"{folder}/model.safetensors").items()}
    trained = weights
    if lora:
        trained = {name: w.double() for name, w in load_file(f"{folder}/adapter_model.safetensors").items()}
        weights |= trained
    for w in trained.values():
        w.requires_grad_()
    optimizer = make([{"params": [w for w in trained.values() if w.dim() > 1], "weight_decay": decay},
                      {"params": [w for w in trained.values() if w.dim() == 1], "weight_decay": 0.0}])
    rates = [group["lr"] for group in optimizer.param_groups]
    accumulate = ACCUMULATE if "--accumulate" in flags else 1
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for part in range(accumulate):
            first = (step * accumulate + part) * BATCH
            batch = ids[[(first + b) % len(ids) for b in range(BATCH)]]
            logits = decoder(weights, config, batch, torch.zeros_like(batch))[:, :-1]  # one document each
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()) / accumulate
            loss.backward()
            total += loss.item()
        losses.append(total)
        norms.append(torch.nn.utils.clip_grad_norm_(trained.values(), clip or math.inf).item())
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * factor(schedule, warmup, step)
        optimizer.step()
    return losses, norms, {name: w.detach() for name, w in trained.items()}


def longbp(binary, folder, tokens, case, method, out):
    lora = case[-1]
    flags = ["--lora", f"r={LORA['r']},alpha={LORA['alpha']},targets={LORA['targets']}"] if lora else []
    command = [binary, "train", "--model", folder, "--tokens", tokens, "--context", CONTEXT, "--batch", BATCH, "--dtype",
               "f64", "--steps", STEPS, "--optimizer", case[2], "--out", out, "--method", *method, *case[4], *flags]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"failed with {done.returncode}: {' '.join(map(str, command))}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    weights = load_file(f"{out}/{'adapter_model' if lora else 'model'}.safetensors")
    return [line["loss"] for line in lines], [line["gradient_norm"] for line in lines], weights


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longbp", default=LONGBP, help="the program (%(default)s)")
    parser.add_argument("--tolerance", type=float, default=1e-11, help="relative, of losses, norms and weights (1e-11)")
    arguments = parser.parse_args()
    if not shutil.which(arguments.longbp):
        parser.error(f"{arguments.longbp} is no program; `make` builds it, --longbp names another")
    torch.set_num_threads(1)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="longbp-pytorch-") as path:
        subprocess.run([arguments.longbp, "init", "--model", "tiny", "--dtype", "f64", "--out", f"{path}/init"],
                       check=True, stderr=subprocess.DEVNULL)
        with open(f"{path}/init/config.json") as file:
            config = json.load(file)
        # Nine windows and a bit: the run goes through them more than once.
        tokens = np.random.default_rng(1).integers(0, 256, 9 * CONTEXT + 7).astype(np.uint8)
        tokens.tofile(f"{path}/tokens.bin")
        ids = torch.from_numpy(tokens[:9 * CONTEXT].astype(np.int64)).view(9, CONTEXT)
        shutil.copytree(f"{path}/init", f"{path}/lora")
        adapter_of(arguments.longbp, f"{path}/lora", f"{path}/tokens.bin")
        for case in CASES:
            folder = f"{path}/lora" if case[-1] else f"{path}/init"
            losses, norms, weights = reference(folder, config, ids, case)
            print(f"{case[0]}: {STEPS} steps, loss from {losses[0]:.6f} to {losses[-1]:.6f}")
            for method in METHODS:
                shutil.rmtree(f"{path}/out", ignore_errors=True)
                found = longbp(arguments.longbp, folder, f"{path}/tokens.bin", case, method, f"{path}/out")
                if found[2].keys() != weights.keys():
                    sys.exit(f"the names differ: {sorted(found[2].keys() ^ weights.keys())}")
                of_losses = max(abs(a - b) / abs(b) for a, b in zip(found[0], losses, strict=True))
                of_norms = max(abs(a - b) / abs(b) for a, b in zip(found[1], norms, strict=True))
                of_weights = max(((found[2][name] - w).norm() / w.norm()).item() for name, w in weights.items())
                good = max(of_losses, of_norms, of_weights) <= arguments.tolerance  # false for NaN
                failures += not good
                print(f"  {' '.join(map(str, method)):24} losses {of_losses:7.1e}, norms {of_norms:7.1e}, "
                      f"weights {of_weights:7.1e}{'' if good else '  TOO LARGE'}", flush=True)
    print("all within tolerance" if not failures else f"{failures} TOO LARGE")
    return 1 if failures else 0


def adapter_of(binary, folder, tokens):
    """Random LoRA factors, as a run of no rate leaves them."""
    subprocess.run([binary, "train", "--model", folder, "--tokens", tokens, "--context", "2", "--dtype", "f64", "--steps", "1",
                    "--optimizer", "sgd,rate=0", "--lora", f"r={LORA['r']},alpha={LORA['alpha']},targets={LORA['targets']}",
                    "--out", f"{folder}/adapter"], check=True, stdout=subprocess.DEVNULL)
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        os.rename(f"{folder}/adapter/{name}", f"{folder}/{name}")
    shutil.rmtree(f"{folder}/adapter")


if __name__ == "__main__":
    sys.exit(main())
