#!/usr/bin/env python3
"""Holds training runs of `longbp train` in f64 against PyTorch's own optimizers: 20 steps, losses, norms and weights; by
cross-entropy on windows of tokens, and by preferences and advantages on a batch file.

Run by hand, after `make`:  tools/check_training_against_pytorch.py [--tolerance 1e-11]
Needs torch, numpy and safetensors; transformers' schedulers, if there, give the rates, those of wsd to the bit. Exits 1 if a
difference is too large. The model is check_against_pytorch.py's, whose gradients that script holds against autograd.
"""
import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial

from check_against_pytorch import LORA, LONGBP, decoder, make_batch, objective_of  # first: it says how many threads there are

import numpy as np
import objectives_in_pytorch as objectives
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

try:
    from transformers import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup, get_wsd_schedule
except ImportError:
    get_cosine_schedule_with_warmup = get_linear_schedule_with_warmup = get_wsd_schedule = None

CONTEXT, BATCH, ACCUMULATE, STEPS, CHUNK = 40, 2, 2, 20, 16
EPSILON = 1e-4  # of AdamW that begins anew with every turn: with less, gradients that vanish would move weights by their rounding


def groups_of(named, decay):
    return [{"params": [w for w in named.values() if w.dim() > 1], "weight_decay": decay},
            {"params": [w for w in named.values() if w.dim() == 1], "weight_decay": 0.0}]


class GaLore(torch.optim.Optimizer):
    """Zhao et al. 2024, algorithm 2, as its code has it: transformers' AdamW along the leading singular vectors of the layers'
    matrices, found in the first of every `interval` steps, each with its largest number positive."""

    def __init__(self, groups, lr, rank, interval, scale, name_of, history=0, damping=0.0):
        super().__init__(groups, {"lr": lr})
        self.rank, self.interval, self.scale, self.name_of, self.done = rank, interval, scale, name_of, 0
        self.history, self.damping = history, damping

    def directions(self, w):
        left, _, right = torch.linalg.svd(w.grad, full_matrices=False)
        found = (right if w.shape[0] >= w.shape[1] else left.T)[:self.rank]
        largest = found.gather(1, found.abs().argmax(1, keepdim=True))
        return found * largest.sign()

    def natural(self, grad, last):
        """Das 2024: the gradient times the inverse of the last ones' empirical Fisher matrix, which is dense."""
        last.append(grad.flatten())
        del last[:-self.history]
        fisher = self.damping * torch.eye(grad.numel(), dtype=grad.dtype) + sum(torch.outer(g, g) for g in last)
        return torch.linalg.solve(fisher, last[-1]).view_as(grad)

    @torch.no_grad()
    def step(self):
        step = self.done + 1
        for group in self.param_groups:
            for w in group["params"]:
                state, grad = self.state[w], w.grad
                projected = w.dim() > 1 and ".layers." in self.name_of[w]
                if projected and self.done % self.interval == 0:
                    state["p"] = self.directions(w)
                if projected:
                    grad = grad @ state["p"].T if w.shape[0] >= w.shape[1] else state["p"] @ grad
                if projected and self.history:
                    grad = self.natural(grad, state.setdefault("last", []))
                m, v = (state.setdefault(name, torch.zeros_like(grad)) for name in "mv")
                m.mul_(0.9).add_(grad, alpha=1 - 0.9)
                v.mul_(0.999).addcmul_(grad, grad, value=1 - 0.999)
                direction = m / (v.sqrt() + 1e-8) * math.sqrt(1 - 0.999**step) / (1 - 0.9**step)
                if projected:
                    direction = self.scale * (direction @ state["p"] if w.shape[0] >= w.shape[1] else state["p"].T @ direction)
                w.sub_(direction, alpha=group["lr"])
                w.mul_(1 - group["lr"] * group["weight_decay"])
        self.done = step


class Together:
    """One of PyTorch's optimizers on all that trains."""

    def __init__(self, make, decay):
        self.make, self.decay = make, decay

    def open(self, named):
        self.named, self.optimizer = named, self.make(groups_of(named, self.decay), {w: name for name, w in named.items()})
        self.rates = [group["lr"] for group in self.optimizer.param_groups]

    def moved(self, _):
        return list(self.named.values())

    def step(self, _, factor):
        for group, rate in zip(self.optimizer.param_groups, self.rates):
            group["lr"] = rate * factor
        self.optimizer.step()


class Blocks:
    """BAdam (arXiv 2404.02827) and BREAD (Luo et al. 2025), made of PyTorch's optimizers: a new AdamW on one layer for
    so many steps, upwards; meanwhile SGD on the other layers, or an AdamW on the factors of each, which stays."""

    def __init__(self, rate, decay, interval, sgd=None, factors=None, above=False, reset=False):
        self.rate, self.decay, self.interval, self.above, self.reset = rate, decay, interval, above, reset
        self.sgd, self.factors = sgd, factors  # rates over that of the active layer, of SGD and of LoRA's B

    def layer(self, number, of_lora):
        return {name: w for name, w in self.named.items()
                if f"model.layers.{number}." in name and (".lora_" in name) == of_lora}

    def adamw_of_factors(self, number):
        named = self.layer(number, True)
        return torch.optim.AdamW([{"params": [w for name, w in named.items() if f"lora_{ab}" in name], "lr": rate}
                                  for ab, rate in (("A", self.rate), ("B", self.rate * self.factors))],
                                 weight_decay=self.decay, eps=EPSILON)

    def open(self, named):
        self.named = named
        self.count = 1 + max(int(name.split("layers.")[1].split(".")[0]) for name in named if "layers." in name)
        self.states = [None] * self.count

    def others(self, step):
        active = step // self.interval % self.count
        return active, [n for n in range(self.count) if (n > active if self.above else n != active)]

    def moved(self, step):
        active, others = self.others(step)
        of_others = [] if self.sgd is None and self.factors is None else others
        return [*self.layer(active, False).values(),
                *(w for n in of_others for w in self.layer(n, self.factors is not None).values())]

    def step(self, step, factor):
        active, others = self.others(step)
        assert factor == 1.0
        if step % self.interval == 0:
            self.adamw = torch.optim.AdamW(groups_of(self.layer(active, False), self.decay), lr=self.rate, eps=EPSILON)
            if self.reset:
                self.states = [None] * self.count
        self.adamw.step()
        for n in others:
            if self.sgd is not None:
                torch.optim.SGD(self.layer(n, False).values(), lr=self.rate * self.sgd).step()
            if self.factors is not None:
                self.states[n] = self.states[n] or self.adamw_of_factors(n)
                self.states[n].step()


def adamw():
    return Together(lambda groups, _: torch.optim.AdamW(groups, lr=3e-3), 0.1), "adamw,rate=3e-3,decay=0.1"


def sgd(decay, **options):
    return Together(lambda groups, _: torch.optim.SGD(groups, lr=0.02, **options), decay)


def galore(rank, **options):
    return Together(lambda groups, names: GaLore(groups, 3e-3, rank, 7, 0.5, names, **options), 0.1)


def blocks(name, flags, **options):
    return Blocks(3e-3, 0.1, 3, **options), f"{name},rate=3e-3,decay=0.1,epsilon={EPSILON},interval=3{flags}"


LORA_ALONE, LORA_BESIDE = "factors alone", "factors beside weights"
CASES = [  # optimizer and its flag; further flags, norm to clip to, schedule, warm-up, what of LoRA trains
    ("AdamW", *adamw(), [], 0, None, 0, None),
    ("AdamW, accumulated, clipped, cosine", *adamw(),
     ["--accumulate", ACCUMULATE, "--clip", 0.5, "--schedule", "cosine", "--warmup", 3], 0.5, "cosine", 3, None),
    ("AdamW, linear, LoRA", *adamw(), ["--schedule", "linear", "--warmup", 2], 0, "linear", 2, LORA_ALONE),
    ("AdamW, wsd", *adamw(), ["--schedule", "wsd", "--warmup", 4, "--decay-steps", 9, "--decay-type", "1-sqrt", "--min-lr-ratio", 0.1],
     0, "wsd", 4, None),
    ("SGD", sgd(0), "sgd,rate=0.02", [], 0, None, 0, None),
    ("SGD, momentum, decay, clipped", sgd(0.05, momentum=0.9), "sgd,rate=0.02,momentum=0.9,decay=0.05", ["--clip", 1], 1,
     None, 0, None),
    ("BAdam", *blocks("bcd", ""), [], 0, None, 0, None),
    ("BREAD-SGD", *blocks("bread-sgd", ",ratio=5", sgd=5), [], 0, None, 0, None),
    ("BREAD-SGD, above, clipped", *blocks("bread-sgd", ",ratio=5,expand=above,when=end", sgd=5, above=True), ["--clip", 1], 1,
     None, 0, None),
    ("BREAD-LoRA", *blocks("bread-lora", "", factors=1), [], 0, None, 0, LORA_BESIDE),
    ("BREAD-LoRA+, above", *blocks("bread-lora", ",ratio=16,expand=above", factors=16, above=True), [], 0, None, 0,
     LORA_BESIDE),
    ("BREAD-LoRA, reset", *blocks("bread-lora", ",factor_state=reset", factors=1, reset=True), [], 0, None, 0, LORA_BESIDE),
    ("GaLore", galore(4), "galore,rate=3e-3,decay=0.1,rank=4,interval=7,scale=0.5", [], 0, None, 0, None),
    ("Natural GaLore", galore(2, history=3, damping=1e-3),
     "natural-galore,rate=3e-3,decay=0.1,rank=2,interval=7,scale=0.5,history=3", [], 0, None, 0, None),
]
PAIRS = 6  # of the batch file: a run goes through it more than once
BY_OBJECTIVE = [  # a case, and what it minimises
    (("AdamW, DPO", *adamw(), ["--accumulate", ACCUMULATE], 0, None, 0, None), "dpo", {"sft": 0.2}),
    (("AdamW, DPO, clipped, LoRA", *adamw(), ["--clip", 0.5], 0.5, None, 0, LORA_ALONE), "dpo", {"kind": "ipo"}),
    (("AdamW, GRPO", *adamw(), ["--accumulate", ACCUMULATE], 0, None, 0, None), "grpo", {"beta": 0.04, "clip_high": 0.28}),
    (("SGD, GSPO, clipped", sgd(0), "sgd,rate=0.02", ["--clip", 1], 1, None, 0, None), "grpo",
     {"policy": "gspo", "normaliser": "grpo", "clip_low": 0.9, "clip_high": 9}),
]
ADAPTER = f"r={LORA['r']},alpha={LORA['lora_alpha']},targets=q,v,down"
METHODS = [["full"], ["streambp", "--chunk", CHUNK], ["seco", "--chunk", CHUNK]]


def factor(schedule, warmup, done):
    """The factor of the rate of the step after `done`. longbp's first step of a warm-up over w has 1 / w, but under wsd."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    if schedule == "wsd":
        return get_wsd_schedule(optimizer, warmup, 9, STEPS, decay_type="1-sqrt", min_lr_ratio=0.1).lr_lambdas[0](done)
    if done < warmup:
        return (done + 1) / warmup
    if schedule is None:
        return 1.0
    make = get_cosine_schedule_with_warmup if schedule == "cosine" else get_linear_schedule_with_warmup
    if make is None:
        along = (done - warmup) / (STEPS - warmup)
        return (1 + math.cos(math.pi * along)) / 2 if schedule == "cosine" else 1 - along
    return make(optimizer, warmup, STEPS).lr_lambdas[0](done)


def next_of(rows, step, count):
    return rows[[(step * count + i) % len(rows) for i in range(count)]]


def step_on_windows(ids, step, accumulate, logits_of):
    """The step's loss; its gradient is added, a micro-batch after another."""
    total = 0.0
    for part in range(accumulate):
        batch = next_of(ids, step * accumulate + part, BATCH)
        loss = F.cross_entropy(logits_of(batch)[:, :-1].flatten(0, 1), batch[:, 1:].flatten()) / accumulate
        loss.backward()
        total += loss.item()
    return total


def step_on_batch(file, objective, step, accumulate, logits_of):
    """The same by an objective, of all the step's sequences at once."""
    batch = {name: next_of(values, step, accumulate * BATCH) for name, values in file.items()}
    loss = objective_of(objectives, *objective, logits_of(batch["ids"]), batch)
    loss.backward()
    return loss.item()


def reference(folder, config, case, take_step):
    """Losses and norms of each step, and the weights that are left."""
    _, optimizer, _, flags, clip, schedule, warmup, lora = case
    weights = {name: w.double() for name, w in load_file(f"{folder}/model.safetensors").items()}
    trained = weights
    if lora:
        factors = {name: w.double() for name, w in load_file(f"{folder}/adapter_model.safetensors").items()}
        weights |= factors
        trained = factors if lora == LORA_ALONE else weights
    for w in trained.values():
        w.requires_grad_()
    optimizer.open(trained)
    accumulate = ACCUMULATE if "--accumulate" in flags else 1
    scale = LORA["lora_alpha"] / LORA["r"] if lora else None
    logits_of = lambda batch: decoder(weights, config, batch, torch.zeros_like(batch), scale)  # one document each
    losses, norms = [], []
    for step in range(STEPS):
        for w in trained.values():
            w.grad = None
        losses.append(take_step(step, accumulate, logits_of))
        norms.append(torch.nn.utils.clip_grad_norm_(optimizer.moved(step), clip or math.inf).item())
        optimizer.step(step, factor(schedule, warmup, step))
    return losses, norms, {name: w.detach() for name, w in trained.items()}


def longbp(binary, folder, data, case, method, out):
    """The same of the program, and its rates; norms are None where gradients are freed within the walk."""
    lora, optimizer = case[-1], case[2]
    if optimizer.startswith("bread-sgd") and "when=" not in optimizer and method[0] == "seco":
        optimizer += ",when=end"
    flags = ["--lora", ADAPTER] if lora else []
    command = [binary, "train", "--model", folder, *data, "--dtype", "f64", "--steps", STEPS, "--optimizer", optimizer,
               "--out", out, "--method", *method, *case[3], *flags]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"failed with {done.returncode}: {' '.join(map(str, command))}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    weights = load_file(f"{out}/model.safetensors") if lora != LORA_ALONE else {}
    weights |= load_file(f"{out}/adapter_model.safetensors") if lora else {}
    return [line["loss"] for line in lines], [line["gradient_norm"] for line in lines], weights, [line["rate"] for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longbp", default=LONGBP, help="the program (%(default)s)")
    parser.add_argument("--tolerance", type=float, default=1e-11, help="relative, of losses, norms and weights (1e-11)")
    arguments = parser.parse_args()
    if not shutil.which(arguments.longbp):
        parser.error(f"{arguments.longbp} is no program; `make` builds it, --longbp names another")
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
        file = make_batch(f"{path}/batch", np.random.default_rng(2), PAIRS)
        windows = ["--tokens", f"{path}/tokens.bin", "--context", CONTEXT, "--batch", BATCH]
        runs = [(case, windows, partial(step_on_windows, ids)) for case in CASES]
        runs += [(case, ["--batch", f"{path}/batch", "--sequences", BATCH, "--objective", objectives.flag(*objective)],
                  partial(step_on_batch, file, objective)) for case, *objective in BY_OBJECTIVE]
        for case, data, take_step in runs:
            if case[5] == "wsd" and get_wsd_schedule is None:
                print(f"{case[0]}: left out, transformers is missing")
                continue
            rate = float(re.search("rate=([^,]*)", case[2])[1])
            folder = f"{path}/lora" if case[-1] else f"{path}/init"
            losses, norms, weights = reference(folder, config, case, take_step)
            print(f"{case[0]}: {STEPS} steps, loss from {losses[0]:.6f} to {losses[-1]:.6f}")
            for method in METHODS:
                shutil.rmtree(f"{path}/out", ignore_errors=True)
                found = longbp(arguments.longbp, folder, data, case, method, f"{path}/out")
                if found[2].keys() != weights.keys():
                    sys.exit(f"the names differ: {sorted(found[2].keys() ^ weights.keys())}")
                # policies' losses are sums of both signs, which may come to nothing
                of_losses = max(abs(a - b) / max(abs(b), 0.1) for a, b in zip(found[0], losses, strict=True))
                of_norms = max(abs(a - b) / abs(b) if a is not None else 0.0 for a, b in zip(found[1], norms, strict=True))
                of_weights = max(((found[2][name] - w).norm() / w.norm()).item() for name, w in weights.items())
                good = max(of_losses, of_norms, of_weights) <= arguments.tolerance  # false for NaN
                if case[5] == "wsd":
                    good &= found[3] == [rate * factor(*case[5:7], step) for step in range(STEPS)]
                failures += not good
                print(f"  {' '.join(map(str, method)):24} losses {of_losses:7.1e}, norms {of_norms:7.1e}, "
                      f"weights {of_weights:7.1e}{'' if good else '  TOO LARGE'}", flush=True)
    print("all within tolerance" if not failures else f"{failures} TOO LARGE")
    return 1 if failures else 0


def adapter_of(binary, folder, tokens):
    """Random LoRA factors: those that a run of no rate leaves, with B no longer 0."""
    subprocess.run([binary, "train", "--model", folder, "--tokens", tokens, "--context", "2", "--dtype", "f64", "--steps", "1",
                    "--optimizer", "sgd,rate=0", "--lora", ADAPTER, "--out", f"{folder}/adapter"], check=True, stdout=subprocess.DEVNULL)
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        os.rename(f"{folder}/adapter/{name}", f"{folder}/{name}")
    shutil.rmtree(f"{folder}/adapter")
    factors = load_file(f"{folder}/adapter_model.safetensors")
    torch.manual_seed(1)
    save_file({name: torch.randn_like(w) * 0.1 if ".lora_B." in name else w for name, w in factors.items()},
              f"{folder}/adapter_model.safetensors")


if __name__ == "__main__":
    sys.exit(main())
