#!/usr/bin/env python3
"""Times a step of `longbp` and the same step in PyTorch on the CPU, in turn, and tells ours over theirs.

Run by hand on an idle machine, after `make`:  tools/compare_with_pytorch_speed.py [--threads 2] [--rounds 7]
Needs torch and numpy. A round is one sample of ours in a process of its own, after one step that is not counted, then one
of theirs after the same; a machine's drift falls on both. Writes a list of JSON, one object per method and context, and a table.

Theirs is the decoder below, eager, in f32: `full` is autograd over the fused attention, `checkpoint` is
torch.utils.checkpoint around every layer, `seco` is SeCO (arXiv 2505.16710) as its paper tells it, on autograd. Before
anything is timed their gradients are held against one another on a small model.
"""
import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time

from needed_modules import need

need("numpy", "torch")
import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Model:
    """A Llama decoder. shape: of an experiment's `model`; weights: {name: [out, in]}."""

    def __init__(self, shape, context, seed=1):
        generator = torch.Generator().manual_seed(seed)
        width, dim, ffn = shape["width"], shape["head_dim"], shape["ffn"]
        q, kv = shape["heads"] * dim, shape["kv_heads"] * dim

        def weight(rows, cols):
            return (torch.randn(rows, cols, generator=generator) / cols**0.5).requires_grad_()

        def gain():
            return torch.ones(width, requires_grad=True)

        self.layers = [{"norm": gain(), "q": weight(q, width), "k": weight(kv, width), "v": weight(kv, width),
                        "o": weight(width, q), "ffn_norm": gain(), "gate": weight(ffn, width), "up": weight(ffn, width),
                        "down": weight(width, ffn)} for _ in range(shape["layers"])]
        self.embedding, self.norm, self.head = weight(shape["vocab"], width), gain(), weight(shape["vocab"], width)
        self.dim, self.context = dim, context
        angles = torch.outer(torch.arange(context), 1e4 ** (-torch.arange(0, dim, 2) / dim)).repeat(1, 2)
        self.cos, self.sin = angles.cos(), angles.sin()
        self.ids = torch.randint(shape["vocab"], (1, context + 1), generator=generator)

    def weights(self):
        return [self.embedding, self.norm, self.head] + [w for layer in self.layers for w in layer.values()]

    def rotate(self, x, start):  # x: [1, heads, C, dim]
        low, high = x.chunk(2, -1)
        end = start + x.shape[2]
        return x * self.cos[start:end] + torch.cat([-high, low], -1) * self.sin[start:end]

    def heads(self, x):  # [1, C, heads * dim] -> [1, heads, C, dim]
        return x.unflatten(-1, (-1, self.dim)).transpose(1, 2)

    def layer(self, w, x, start=0, past=None):
        """x: [1, C, width] at positions from `start` on; past: keys and values before them. Returns x, k, v."""
        h = F.rms_norm(x, x.shape[-1:], w["norm"], 1e-5)
        q, k = (self.rotate(self.heads(F.linear(h, w[name])), start) for name in "qk")
        v = self.heads(F.linear(h, w["v"]))
        keys, values = (torch.cat([past[i], new], 2) for i, new in ((0, k), (1, v))) if past else (k, v)
        count, total = q.shape[2], keys.shape[2]
        mask = torch.ones(count, total, dtype=torch.bool).tril(total - count) if past else None
        o = F.scaled_dot_product_attention(q, keys, values, mask, is_causal=mask is None, enable_gqa=True)
        x = x + F.linear(o.transpose(1, 2).flatten(2), w["o"])
        h = F.rms_norm(x, x.shape[-1:], w["ffn_norm"], 1e-5)
        return x + F.linear(F.silu(F.linear(h, w["gate"])) * F.linear(h, w["up"]), w["down"]), k, v

    def embed(self, start, end):
        return F.embedding(self.ids[:, start:end], self.embedding)

    def loss(self, x, start, end):  # the chunk's part of the mean over the context
        logits = F.linear(F.rms_norm(x, x.shape[-1:], self.norm, 1e-5), self.head)
        return F.cross_entropy(logits[0], self.ids[0, start + 1:end + 1], reduction="sum") / self.context


def full(model):
    x = model.embed(0, model.context)
    for w in model.layers:
        x = model.layer(w, x)[0]
    model.loss(x, 0, model.context).backward()


def checkpointed(model):
    x = model.embed(0, model.context)
    for w in model.layers:
        x = checkpoint(lambda x, w=w: model.layer(w, x)[0], x, use_reentrant=False)
    model.loss(x, 0, model.context).backward()


def seco(model, chunk):
    """Forward through all chunks, keeping keys and values; then from the last chunk to the first: forward again with
    a graph, and backward from its loss and from what later chunks left in the gradients of its keys and values."""
    spans = [(start, min(start + chunk, model.context)) for start in range(0, model.context, chunk)]
    kv, grad = [[], []], [[], []]
    with torch.no_grad():
        for start, end in spans:
            x = model.embed(start, end)
            for i, w in enumerate(model.layers):
                past = (kv[0][i][:, :, :start], kv[1][i][:, :, :start]) if start else None
                x, *new = model.layer(w, x, start, past)
                for all_layers, gradients, of in zip(kv, grad, new):
                    if start == 0:
                        all_layers.append(torch.empty(*of.shape[:2], model.context, model.dim))
                        gradients.append(torch.zeros_like(all_layers[i]))
                    all_layers[i][:, :, start:end] = of
    for start, end in reversed(spans):
        x, outputs, leaves = model.embed(start, end), [], []
        for i, w in enumerate(model.layers):
            past = [c[i][:, :, :start].detach().requires_grad_() for c in kv] if start else None
            x, *new = model.layer(w, x, start, past)
            outputs += new
            leaves += past or []
        torch.autograd.backward([model.loss(x, start, end)] + outputs,
                                [None] + [g[i][:, :, start:end] for i in range(len(model.layers)) for g in grad])
        for j, leaf in enumerate(leaves):
            grad[j % 2][j // 2][:, :, :start] += leaf.grad


def step_of(method):
    return {"full": full, "checkpoint": checkpointed}.get(method["name"]) or (lambda m: seco(m, method["chunk"]))


def check(methods):
    shape = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "head_dim": 8, "ffn": 48, "vocab": 50}
    results = []
    for method in [{"name": "full"}] + methods:
        model = Model(shape, 40)
        step_of({**method, "chunk": 12})(model)
        results.append(torch.cat([w.grad.flatten() for w in model.weights()]))
    for method, gradient in zip(methods, results[1:]):
        error = float((gradient - results[0]).norm() / results[0].norm())
        assert error < 1e-5, f"{method}: PyTorch's own gradient is off by {error}"


def sample_ms(step, model):
    for w in model.weights():
        w.grad = None
    start = time.perf_counter()
    step(model)
    return (time.perf_counter() - start) * 1e3


def ours(longbp, spec, environment):
    """Samples of the one trial that `spec` is, and its record."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "spec.json"), os.path.join(folder, "out.jsonl")
        with open(path, "w") as file:
            json.dump(spec, file)
        subprocess.run([longbp, "run", path, "--out", out], check=True, cwd=ROOT, env=environment,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(out) as file:
            record = json.loads(file.readline())
    assert record["status"] == "ok", record["reason"]
    return record["samples_ms"], record


def name_of(method):
    return method["name"] + (f", chunk {method['chunk']}" if "chunk" in method else "")


def compare(longbp, spec, method, context, arguments):
    spec = {**spec, "axes": {"context": [context], "method": [method]},
            "measure": {"warmup": 1, "samples": arguments.samples, "max_seconds": 3600, "gradient": "none"}}
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    model, step = Model(spec["model"], context), step_of(method)
    mine, their = [], []
    for _ in range(arguments.rounds):
        samples, record = ours(longbp, spec, environment)
        mine.append(float(np.median(samples)))
        sample_ms(step, model)
        their.append(float(np.median([sample_ms(step, model) for _ in range(arguments.samples)])))
    ratios = np.array(mine) / np.array(their)
    return {"method": method, "context": context, "model": spec["model"], "dtype": "f32", "threads": arguments.threads,
            "ours_ms": mine, "theirs_ms": their, "ratio": float(np.median(ratios)), "ratio_min": float(ratios.min()),
            "ratio_max": float(ratios.max()), "ours": record["provenance"],
            "theirs": {"torch": torch.__version__, "python": platform.python_version(),
                       "capability": torch.backends.cpu.get_cpu_capability(),
                       "mkl": torch.backends.mkl.is_available()}, "command": shlex.join(sys.argv)}


def table(records):
    first = records[0]
    lines = [f"`{first['command']}`", "",
             f"{first['ours']['cpu']}, {first['threads']} threads, f32, {first['model']['name']}. Ours: longbp"
             f" {first['ours']['revision']}, {first['ours']['blas']}. Theirs: PyTorch {first['theirs']['torch']}, eager,"
             f" {first['theirs']['capability']}. Medians over {len(first['ours_ms'])} rounds, in turn.", "",
             "| method | context | ours | theirs | ours over theirs | least | most |", "|---|---:|---:|---:|---:|---:|---:|"]
    for r in records:
        lines.append(f"| {name_of(r['method'])} | {r['context']:,} | {np.median(r['ours_ms']):,.0f} ms |"
                     f" {np.median(r['theirs_ms']):,.0f} ms | {r['ratio']:.2f} | {r['ratio_min']:.2f} |"
                     f" {r['ratio_max']:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longbp", default=os.path.join(ROOT, "build", "longbp"))
    parser.add_argument("--spec", default=os.path.join(ROOT, "experiments", "speed.json"), help="whose model and data")
    parser.add_argument("--contexts", default="2048,4096")
    parser.add_argument("--chunk", type=int, default=256, help="of seco")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--samples", type=int, default=1, help="of each in a round")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "pytorch-speed"), help="of a .json and an .md file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    methods = [{"name": "full"}, {"name": "checkpoint"}, {"name": "seco", "chunk": arguments.chunk}]
    check(methods)
    with open(arguments.spec) as file:
        spec = json.load(file)
    records = []
    for context in map(int, arguments.contexts.split(",")):
        for method in methods:
            records.append(compare(arguments.longbp, spec, method, context, arguments))
            with open(arguments.out + ".json", "w") as file:
                file.write("[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n")
            with open(arguments.out + ".md", "w") as file:
                file.write(table(records))
            print(table(records).splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
