#!/usr/bin/env python3
"""Times a step of `longbp` and the same step in PyTorch, in turn, and prints ours over theirs.

Run by hand on an idle machine, after `make`:  tools/compare_with_pytorch_speed.py [--threads 2] [--rounds 7]
or, on one with a card:  LONGBP_CUDA=build/longbp-cuda.so tools/compare_with_pytorch_speed.py --device cuda
Needs torch and numpy. A round is one sample of ours in a process of its own, after one uncounted step, then one of theirs
alike; a machine's drift falls on both. Writes a list of JSON, one object per method and context, and a table.

The decoder below is theirs. `full` is autograd over the fused attention, `checkpoint` is torch.utils.checkpoint around every
layer, `seco` is SeCO (arXiv 2505.16710) by its paper, on autograd. full and checkpoint run in four variants: eager or with
torch.compile of a layer and of the loss; with the loss of the whole context at once, or in chunks of tokens whose gradient
is computed with their loss, so that no logits are kept (as Liger Kernel does, arXiv 2410.10989, with its chunk). seco, whose
chunks have a loss each, runs eager. Ours is compared with eager and with the fastest variant. The gradient of every variant
is first checked against f32's on a small model.

A model with layers of Gated DeltaNet (experiments/delta-speed.json) is on their side built of transformers' own Qwen3.5
classes, whose rule runs by chunks in PyTorch. A mixture of experts (experiments/moe-speed.json) is built of its Mixtral
classes, with --experts grouped_mm (one product per expert over sorted rows) or eager (a loop over experts). Neither has a
seco, and both are compared on the CPU alone.

On a card all weights train, and in bf16 both sides keep gradients in bf16. No attention of theirs writes all scores. Memory
is that of a step with weights and gradients: ours the arena's peak (`peak_bytes`), theirs torch.cuda.max_memory_allocated;
and the driver's count after the steps, with the CUDA context and the allocator's reserve. Both sides use one card: while ours
runs, PyTorch has freed gradients and its reserve, but keeps its context and weights, which are subtracted from the driver's
count; ours has that much less of the card. A case that does not fit is a row that says so.
"""
import argparse
import contextlib
import functools
import gc
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time

from needed_modules import need

STARTED = time.monotonic()
need("numpy", "torch")
import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.utils.checkpoint import checkpoint

GIB = 2**30
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# Relative L2 of a gradient; of a wrong one it is about 1. On a card the kernels of f32 may round as TF32 does.
TOLERANCE = {("cpu", "f32"): 1e-5, ("cuda", "f32"): 1e-3, ("cpu", "bf16"): 5e-2, ("cuda", "bf16"): 5e-2}
VARIANTS = {"eager": (False, False), "compiled": (True, False), "eager, chunked loss": (False, True),
            "compiled, chunked loss": (True, True)}  # whether compiled, whether the loss is chunked
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Model:
    """A Llama decoder. shape: of an experiment's `model`; weights: {name: [out, in]}. dense: a chunk's attention to a
    longer cache is told by a mask, which on a card no fast kernel takes; else by that its last position is the cache's."""

    def __init__(self, shape, context, seed=1, device="cpu", dtype="f32", dense=True):
        generator = torch.Generator(device).manual_seed(seed)
        form = {"device": device, "dtype": DTYPES[dtype]}
        width, dim, ffn = shape["width"], shape["head_dim"], shape["ffn"]
        q, kv = shape["heads"] * dim, shape["kv_heads"] * dim

        def weight(rows, cols):
            return (torch.randn(rows, cols, generator=generator, **form) / cols**0.5).requires_grad_()

        def gain():
            return torch.ones(width, requires_grad=True, **form)

        self.layers = [{"norm": gain(), "q": weight(q, width), "k": weight(kv, width), "v": weight(kv, width),
                        "o": weight(width, q), "ffn_norm": gain(), "gate": weight(ffn, width), "up": weight(ffn, width),
                        "down": weight(width, ffn)} for _ in range(shape["layers"])]
        self.embedding, self.norm, self.head = weight(shape["vocab"], width), gain(), weight(shape["vocab"], width)
        self.dim, self.context = dim, context
        self.dense, self.on_card = dense, device == "cuda"
        angles = torch.outer(torch.arange(context), 1e4 ** (-torch.arange(0, dim, 2) / dim)).repeat(1, 2)
        self.cos, self.sin = angles.cos().to(**form), angles.sin().to(**form)
        self.ids = torch.randint(shape["vocab"], (1, context + 1), generator=generator, device=device)
        self.loss_chunk = chunk_of_loss(context, shape["vocab"], width)
        self.compiled_layer = torch.compile(self.eager_layer)
        self.use("eager")

    def use(self, variant):
        """Makes the steps that follow those of a variant."""
        self.compiled, self.chunked_loss = VARIANTS[variant]
        self.layer = self.compiled_layer if self.compiled else self.eager_layer

    def weights(self):
        return [self.embedding, self.norm, self.head] + [w for layer in self.layers for w in layer.values()]

    def rotate(self, x, start):  # x: [1, heads, C, dim]
        low, high = x.chunk(2, -1)
        end = start + x.shape[2]
        return x * self.cos[start:end] + torch.cat([-high, low], -1) * self.sin[start:end]

    def heads(self, x):  # [1, C, heads * dim] -> [1, heads, C, dim]
        return x.unflatten(-1, (-1, self.dim)).transpose(1, 2)

    def attend(self, q, keys, values):  # q: the last of the positions that keys and values have
        count, total = q.shape[2], keys.shape[2]
        if self.dense:
            mask = torch.ones(count, total, dtype=torch.bool).tril(total - count) if count < total else None
            return F.scaled_dot_product_attention(q, keys, values, mask, is_causal=mask is None, enable_gqa=True)
        if q.dtype == torch.float32:  # flash attention has no f32, and the kernel that has it knows no groups of heads
            keys, values = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (keys, values))
        groups = {"enable_gqa": keys.shape[1] < q.shape[1]}
        if count == total:
            return F.scaled_dot_product_attention(q, keys, values, is_causal=True, **groups)
        with sdpa_kernel(chunk_kernel(q.dtype)) if self.on_card else contextlib.nullcontext():  # this one or an error
            return F.scaled_dot_product_attention(q, keys, values, causal_lower_right(count, total), **groups)

    def eager_layer(self, w, x, start=0, past=None):
        """x: [1, C, width] at positions from `start` on; past: keys and values before them. Returns x, k, v."""
        h = F.rms_norm(x, x.shape[-1:], w["norm"], 1e-5)
        q, k = (self.rotate(self.heads(F.linear(h, w[name])), start) for name in "qk")
        v = self.heads(F.linear(h, w["v"]))
        keys, values = (torch.cat([past[i], new], 2) for i, new in ((0, k), (1, v))) if past else (k, v)
        o = self.attend(q, keys, values)
        x = x + F.linear(o.transpose(1, 2).flatten(2), w["o"])
        h = F.rms_norm(x, x.shape[-1:], w["ffn_norm"], 1e-5)
        return x + F.linear(F.silu(F.linear(h, w["gate"])) * F.linear(h, w["up"]), w["down"]), k, v

    def embed(self, start, end):
        return F.embedding(self.ids[:, start:end], self.embedding)

    def loss(self, x, start, end):  # the chunk's part of the mean over the context
        labels, scale = self.ids[0, start + 1:end + 1], 1 / self.context
        if self.chunked_loss:
            part = compiled(loss_and_gradient) if self.compiled else loss_and_gradient
            x = F.rms_norm(x, x.shape[-1:], self.norm, 1e-5)
            return ChunkedLoss.apply(x[0], self.head, labels, scale, self.loss_chunk, part)
        whole = compiled(whole_loss) if self.compiled else whole_loss
        return whole(x[0], self.norm, self.head, labels, scale)


class Transformers(Model):
    """A decoder of transformers' own classes: `whole` is its causal language model."""

    def __init__(self, whole, context, shape, positions):
        self.whole = whole
        self.layers, self.embedding, self.head = whole.model.layers, whole.model.embed_tokens.weight, whole.lm_head.weight
        self.context, self.on_card = context, False
        self.positions = whole.model.rotary_emb(self.embedding, positions)
        self.ids = torch.randint(shape["vocab"], (1, context + 1))
        self.loss_chunk = chunk_of_loss(context, shape["vocab"], shape["width"])
        self.compiled_layer = torch.compile(self.eager_layer)
        self.use("eager")

    @property
    def norm(self):
        return self.whole.model.norm.weight

    def weights(self):
        return list(self.whole.parameters())

    def eager_layer(self, w, x):
        return (w(x, position_embeddings=self.positions),)


def common_config(shape):
    return {"vocab_size": shape["vocab"], "hidden_size": shape["width"], "num_hidden_layers": shape["layers"],
            "num_attention_heads": shape["heads"], "num_key_value_heads": shape["kv_heads"], "head_dim": shape["head_dim"],
            "attn_implementation": "sdpa"}


class Hybrid(Transformers):
    """Qwen3.5: layers of Gated DeltaNet among layers of gated attention."""

    def __init__(self, shape, context, seed=1, device="cpu", dtype="f32", dense=True):
        need("transformers")
        from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig
        delta = shape["delta"]
        config = Qwen3_5TextConfig(
            **common_config(shape), intermediate_size=shape["ffn"], rms_norm_eps=shape["norm_epsilon"],
            linear_num_value_heads=delta["heads"], linear_num_key_heads=delta["key_heads"],
            linear_key_head_dim=delta["key_dim"], linear_value_head_dim=delta["value_dim"],
            rope_parameters={"rope_type": "default", "rope_theta": shape["rope_theta"],
                             "partial_rotary_factor": shape["rotary"] / shape["head_dim"]},
            layer_types=["linear_attention" if i in delta["layers"] else "full_attention" for i in range(shape["layers"])])
        torch.manual_seed(seed)
        super().__init__(Qwen3_5ForCausalLM(config).to(DTYPES[dtype]), context, shape, torch.arange(context).expand(3, 1, -1))

    @property
    def norm(self):
        return 1 + self.whole.model.norm.weight


class Mixture(Transformers):
    """Mixtral: each layer's MLP is a mixture of experts."""

    implementation = "grouped_mm"

    def __init__(self, shape, context, seed=1, device="cpu", dtype="f32", dense=True):
        need("transformers")
        from transformers import MixtralConfig, MixtralForCausalLM
        config = MixtralConfig(
            **common_config(shape), intermediate_size=shape["expert_width"], rms_norm_eps=1e-5,
            num_local_experts=shape["experts"], num_experts_per_tok=shape["experts_per_token"], sliding_window=None,
            rope_parameters={"rope_type": "default", "rope_theta": 1e4}, experts_implementation=self.implementation)
        torch.manual_seed(seed)
        super().__init__(MixtralForCausalLM(config).to(DTYPES[dtype]), context, shape, torch.arange(context)[None])


def transformers_class(shape):
    """That which builds the model on their side, or None where the decoder above does."""
    return Hybrid if "delta" in shape else Mixture if "experts" in shape else None


def model_of(shape, context, **form):
    return (transformers_class(shape) or Model)(shape, context, **form)


def whole_loss(x, gain, head, labels, scale):  # x: [T, width]
    logits = F.linear(F.rms_norm(x, x.shape[-1:], gain, 1e-5), head)
    return F.cross_entropy(logits.float(), labels, reduction="sum") * scale


def loss_and_gradient(logits, labels, scale):
    """The sum of a chunk's losses times scale, and its gradient by the logits, in their dtype."""
    dtype, logits = logits.dtype, logits.float()
    total = logits.logsumexp(-1, keepdim=True)
    loss = (total - logits.gather(1, labels[:, None])).sum() * scale
    gradient = (logits - total).exp() * scale
    return loss, gradient.scatter_add(1, labels[:, None], gradient.new_full((len(labels), 1), -scale)).to(dtype)


class ChunkedLoss(torch.autograd.Function):
    """x: [T, width]; head: [vocab, width]; part: loss_and_gradient, or what it is compiled to."""

    @staticmethod
    def forward(ctx, x, head, labels, scale, chunk, part):
        loss, grad_x, grad_head = 0, torch.empty_like(x), torch.zeros_like(head)
        for start in range(0, len(x), chunk):
            rows = slice(start, start + chunk)
            of, grad = part(x[rows] @ head.T, labels[rows], scale)
            loss = loss + of
            grad_x[rows] = grad @ head
            grad_head.addmm_(grad.T, x[rows])
        ctx.save_for_backward(grad_x, grad_head)
        return loss

    @staticmethod
    def backward(ctx, grad):
        return *(saved.mul_(grad) for saved in ctx.saved_tensors), None, None, None, None


def chunk_of_loss(context, vocab, width):
    """As Liger Kernel chooses it: a chunk's logits are about as large as the context's states."""
    return 1 << (-(-context // -(-vocab // width)) - 1).bit_length()


@functools.cache
def compiled(function):
    return torch.compile(function)


def chunk_kernel(dtype):
    return SDPBackend.EFFICIENT_ATTENTION if dtype == torch.float32 else SDPBackend.FLASH_ATTENTION


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
                        all_layers.append(of.new_empty(*of.shape[:2], model.context, model.dim))
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


def variants_of(method, wanted):
    return [variant for variant in wanted if method["name"] != "seco" or variant == "eager"]


def gradient_of(method, model, variant="eager"):
    model.use(variant)
    for w in model.weights():
        w.grad = None
    step_of(method)(model)
    return torch.cat([w.grad.flatten() for w in model.weights()]).float().cpu()


def check(methods, variants, spec, device="cpu", dtype="f32", dense=True, head_dim=8):
    """The gradient of each method and variant of a small model is that of eager `full` in f32 on the CPU."""
    shape = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "head_dim": head_dim, "ffn": 48, "vocab": 50}
    if "delta" in spec["model"]:
        delta = {"layers": [0], "heads": 4, "key_heads": 2, "key_dim": 8, "value_dim": 8}
        shape = {**spec["model"], **shape, "rotary": head_dim, "delta": delta}
    elif "experts" in spec["model"]:
        shape = {**shape, "experts": 4, "experts_per_token": 2, "expert_width": 24}
    model, reference = model_of(shape, 40, device=device, dtype=dtype, dense=dense), model_of(shape, 40)
    reference.ids = model.ids.cpu()
    for w, of in zip(reference.weights(), model.weights()):
        w.data = of.detach().float().cpu()
    expected = gradient_of({"name": "full"}, reference)
    for method in methods:
        for variant in variants_of(method, variants):
            gradient = gradient_of({**method, "chunk": 12}, model, variant)
            error = float((gradient - expected).norm() / expected.norm())
            assert error < TOLERANCE[device, dtype], f"{method}, {variant}: PyTorch's own gradient is off by {error}"


def sample_ms(step, model):
    for w in model.weights():
        w.grad = None
    synchronize(model)
    start = time.perf_counter()
    step(model)
    synchronize(model)
    return (time.perf_counter() - start) * 1e3


def synchronize(model):
    if model.on_card:
        torch.cuda.synchronize()


def used_bytes():  # of the card, by its driver
    free, total = torch.cuda.mem_get_info()
    return total - free


def let_go(model):  # of all but its weights; not where an error is handled, which holds what was live
    for w in model.weights():
        w.grad = None
    gc.collect()
    torch.cuda.empty_cache()


def theirs(step, model, samples):
    """Milliseconds of the samples, after a step that is not counted; on a card also the most that a step has allocated and
    what the driver counts, in bytes."""
    sample_ms(step, model)
    if not model.on_card:
        return [sample_ms(step, model) for _ in range(samples)], None, None
    torch.cuda.reset_peak_memory_stats()
    times = [sample_ms(step, model) for _ in range(samples)]
    return times, torch.cuda.max_memory_allocated(), used_bytes()


def ours(longbp, spec, environment):
    """The record of the one trial that `spec` is."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "spec.json"), os.path.join(folder, "out.jsonl")
        with open(path, "w") as file:
            json.dump(spec, file)
        done = subprocess.run([longbp, "run", path, "--out", out], cwd=ROOT, env=environment, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if not os.path.exists(out):
            sys.exit(f"{longbp} made no record, exit status {done.returncode}: {done.stderr}")
        with open(out) as file:
            record = json.loads(file.readline())
    if record["status"] not in ("ok", "oom"):
        sys.exit(f"{longbp}: {name_of(record['trial']['method'])}: {record['status']}: {record['reason']}")
    return record


def name_of(method):
    return method["name"] + (f", chunk {method['chunk']}" if "chunk" in method else "")


def spec_of(spec, method, context, arguments):
    of = {**spec, "axes": {"context": [context], "method": [method]}, "dtype": arguments.dtype,
          "device": arguments.device,
          "measure": {"warmup": 1, "samples": arguments.samples, "max_seconds": 3600, "gradient": "none"}}
    of.pop("gradient_dtype", None)
    return {**of, "gradient_dtype": "bf16"} if arguments.dtype == "bf16" else of


def median(values):
    return float(np.median(values)) if values else None


def compare(longbp, spec, method, context, arguments, deadline):
    """A row's figures over as many rounds as are wanted, or as end before the deadline, at least one."""
    on_card = arguments.device == "cuda"
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    model = model_of(spec["model"], context, device=arguments.device, dtype=arguments.dtype, dense=not on_card)
    variants = variants_of(method, arguments.variants)
    torch.compiler.reset()
    attention = attention_of(model) if on_card else None
    sides = {side: {"status": "ok", "ms": [], "gib": None, "device_used_gib": None} for side in ["ours", *variants]}
    for _ in range(arguments.rounds):
        start = time.monotonic()
        for name, side in sides.items():
            if side["status"] == "ok":
                measure_ours(side, longbp, spec_of(spec, method, context, arguments), environment, model) \
                    if name == "ours" else measure_theirs(side, step_of(method), model, name, arguments.samples)
        if time.monotonic() + (time.monotonic() - start) > deadline or all(x["status"] != "ok" for x in sides.values()):
            break
    mine = sides.pop("ours")
    provenance = mine.pop("provenance", None)
    fastest = min((name for name in sides if sides[name]["ms"]), key=lambda name: median(sides[name]["ms"]), default=None)
    theirs = {"torch": torch.__version__, "python": platform.python_version(),
              "capability": torch.backends.cpu.get_cpu_capability(), "mkl": torch.backends.mkl.is_available()}
    if on_card:
        theirs.update(cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(), card=torch.cuda.get_device_name(),
                      attention=attention)
    return {"method": method, "context": context, "model": spec["model"], "dtype": arguments.dtype,
            "threads": arguments.threads, "device": arguments.device, "ours": {**mine, "provenance": provenance},
            "theirs": {**theirs, "variants": sides}, "fastest": fastest,
            "over_eager": ratio(mine, sides.get("eager")), "over_fastest": ratio(mine, sides.get(fastest)),
            "command": shlex.join(sys.argv)}


def ratio(mine, theirs):
    """Ours over theirs, of the rounds that both have: median, least and most; null if either side has none."""
    if not theirs or mine["status"] != "ok" or theirs["status"] != "ok":
        return None
    ratios = np.array(mine["ms"]) / np.array(theirs["ms"])
    return {"median": float(np.median(ratios)), "least": float(ratios.min()), "most": float(ratios.max())}


def measure_ours(side, longbp, spec, environment, model):
    if model.on_card:
        let_go(model)
    before = used_bytes() if model.on_card else 0
    record = ours(longbp, spec, environment)
    side.update(status=record["status"], provenance=record["provenance"])
    if record["status"] == "ok":
        side["ms"].append(median(record["samples_ms"]))
        side["gib"] = record["peak_bytes"] / GIB
        side["device_used_gib"] = (record["device_used_bytes"] - before) / GIB if model.on_card else None


def measure_theirs(side, step, model, variant, samples):
    model.use(variant)
    if model.on_card:
        let_go(model)
    try:
        times, peak, used = theirs(step, model, samples)
    except torch.cuda.OutOfMemoryError:
        side["status"] = "oom"
        return
    side["ms"].append(median(times))
    if model.on_card:
        side.update(gib=peak / GIB, device_used_gib=used / GIB)


def attention_of(model):
    """Which of PyTorch's kernels a whole context's attention has, by its own choice, and a chunk's."""
    w = model.layers[0]
    q, k = (torch.empty(1, w[name].shape[0] // model.dim, model.context, model.dim, device=w[name].device,
                        dtype=w[name].dtype, requires_grad=True) for name in "qk")
    if q.dtype == torch.float32:
        k = q
    choice = torch._fused_sdp_choice(q, k, k, is_causal=True, enable_gqa=k.shape[1] < q.shape[1])
    return {"whole": SDPBackend(choice).name.lower(), "chunk": chunk_kernel(q.dtype).name.lower()}


def row_of(record, figures):
    return "| " + " | ".join([name_of(record["method"]), f"{record['context']:,}", *figures]) + " |"


def cell(side, value, form):
    return "" if side is None else side["status"] if side["status"] != "ok" else format(value, form)


def time_row(record, variants):
    theirs, over = record["theirs"]["variants"], [record["over_eager"], record["over_fastest"]]
    figures = [cell(side, median(side["ms"]) if side and side["ms"] else 0, ",.0f")
               for side in [record["ours"], *(theirs.get(variant) for variant in variants)]]
    figures += [record["fastest"] or "", *(f"{x['median']:.2f} ({x['least']:.2f} to {x['most']:.2f})" if x else "" for x in over)]
    return row_of(record, figures)


def memory_row(record, variants):
    sides = [record["ours"], *(record["theirs"]["variants"].get(variant) for variant in variants)]
    return row_of(record, [cell(side, side and side[key] or 0, ".2f")
                                     for key in ("gib", "device_used_gib") for side in sides])


def table_of(columns, rows):
    return ["| " + " | ".join(["method", "context", *columns]) + " |", "|---|" + "---:|" * (len(columns) + 1), *rows]


def table(records):
    first = records[0]
    provenance, theirs = next((r["ours"]["provenance"] for r in records if r["ours"]["provenance"]), None), first["theirs"]
    sides = [side for r in records for side in [r["ours"], *r["theirs"]["variants"].values()]]
    rounds = sorted({len(side["ms"]) for side in sides} - {0}) or [0]
    over = f"Medians over {rounds[0]} rounds, in turn." if len(rounds) == 1 else \
        f"Medians over {rounds[0]} to {rounds[-1]} rounds, in turn."
    variants = [v for v in VARIANTS if any(v in r["theirs"]["variants"] for r in records)]
    revision = provenance["revision"] if provenance else "unknown"
    if first["device"] == "cuda":
        about = [f"{provenance['card'] if provenance else theirs['card']}, {first['dtype']}, {first['model']['name']}, all weights"
                 f" train. Ours: longbp {revision}. Theirs: PyTorch {theirs['torch']}, CUDA {theirs['cuda']}, cuDNN"
                 f" {theirs['cudnn']}; attention of a whole context: {theirs['attention']['whole']}, of a chunk behind others:"
                 f" {theirs['attention']['chunk']}. {over}"]
    else:
        about = [f"{provenance['cpu'] if provenance else platform.processor()}, {first['threads']} threads, {first['dtype']},"
                 f" {first['model']['name']}. Ours: longbp {revision}, {provenance['blas'] if provenance else ''}. Theirs: PyTorch"
                 f" {theirs['torch']}, {theirs['capability']}. {over}"]
    lines = [f"`{first['command']}`", "", *about, "", "Milliseconds of a step, and ours over theirs (least to most of the rounds):", "",
             *table_of(["ours", *variants, "fastest of theirs", "ours over eager", "ours over the fastest"],
                       [time_row(record, variants) for record in records])]
    if first["device"] == "cuda":
        lines += ["", "GiB: the most live during a step, weights and gradients with it; used: what the driver counts after the"
                  " steps:", "", *table_of([*("ours", *variants), *(f"{side}, used" for side in ("ours", *variants))],
                                           [memory_row(record, variants) for record in records])]
    return "\n".join(lines) + "\n"


def variants_named(text):
    names = [name.strip() for name in text.split(";")]
    for name in names:
        if name not in VARIANTS:
            raise argparse.ArgumentTypeError(f'no variant "{name}"; there are: {"; ".join(VARIANTS)}')
    if "eager" not in names:
        raise argparse.ArgumentTypeError("eager must be among the variants: seco has no other")
    return [name for name in VARIANTS if name in names]


def set_defaults(arguments):
    """Defaults that depend on the device."""
    name, contexts, chunk, rounds, samples, dtype, seconds = {
        "cpu": ("speed.json", "2048,4096", 256, 7, 1, "f32", float("inf")),
        "cuda": ("cuda-pytorch.json", "32768,8192", 2048, 3, 2, "bf16", 150)}[arguments.device]
    defaults = {"spec": os.path.join(ROOT, "experiments", name), "contexts": contexts, "chunk": chunk, "rounds": rounds,
                "samples": samples, "dtype": dtype, "seconds": seconds, "variants": list(VARIANTS)}
    for key, value in defaults.items():
        if getattr(arguments, key) is None:
            setattr(arguments, key, value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longbp", default=os.path.join(ROOT, "build", "longbp"))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=list(DTYPES), help="f32; on a card bf16")
    parser.add_argument("--spec", help="whose model and data (experiments/speed.json; on a card cuda-pytorch.json)")
    parser.add_argument("--contexts", help="2048,4096; on a card 32768,8192")
    parser.add_argument("--methods", help="all of full,checkpoint,seco that the model has")
    parser.add_argument("--chunk", type=int, help="of seco (256; on a card 2048)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="7; on a card 3")
    parser.add_argument("--samples", type=int, help="of each in a round (1; on a card 2)")
    parser.add_argument("--seconds", type=float, help="in all: a row has fewer rounds, at least one, where more would take"
                        " longer than its share of what is left (without end; on a card 150)")
    parser.add_argument("--variants", type=variants_named, help="of theirs, separated by semicolons, eager among them"
                        f" ({'; '.join(VARIANTS)})")
    parser.add_argument("--experts", choices=["grouped_mm", "eager"], default="grouped_mm",
                        help="how transformers multiplies by experts (grouped_mm)")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "pytorch-speed"), help="of a .json and an .md file")
    arguments = parser.parse_args()
    set_defaults(arguments)
    end = STARTED + arguments.seconds
    longbp = os.path.abspath(arguments.longbp)
    torch.set_num_threads(arguments.threads)
    Mixture.implementation = arguments.experts
    methods = [{"name": "full"}, {"name": "checkpoint"}, {"name": "seco", "chunk": arguments.chunk}]
    with open(arguments.spec) as file:
        spec = json.load(file)
    if spec.get("lora"):
        parser.error(f"{arguments.spec} has LoRA, and theirs trains all weights")
    if transformers_class(spec["model"]):
        methods = methods[:2]
        if arguments.device != "cpu":
            parser.error(f"{arguments.spec} is compared with transformers' classes, on the CPU alone")
    if arguments.device == "cuda":
        if not torch.cuda.is_available():
            parser.error("PyTorch finds no card")
        version = subprocess.run([longbp, "--version"], check=True, capture_output=True, text=True).stdout.strip()
        print(f"{version}; PyTorch {torch.__version__}, CUDA {torch.version.cuda}; {torch.cuda.get_device_name()}", flush=True)
        torch.backends.cuda.enable_math_sdp(False)  # it writes all scores
        check(methods, arguments.variants, spec, "cuda", arguments.dtype, dense=False, head_dim=spec["model"]["head_dim"])
    else:
        for dense in (True, False):
            check(methods, arguments.variants, spec, dtype=arguments.dtype, dense=dense)
    if arguments.methods:
        unknown = set(arguments.methods.split(",")) - {method["name"] for method in methods}
        if unknown:
            parser.error(f"no method {', '.join(sorted(unknown))}; there are: {', '.join(m['name'] for m in methods)}")
        methods = [method for method in methods if method["name"] in arguments.methods.split(",")]
    cases = [(context, method) for context in map(int, arguments.contexts.split(",")) for method in methods]
    records = []
    for i, (context, method) in enumerate(cases):
        now = time.monotonic()
        records.append(compare(longbp, spec, method, context, arguments, now + (end - now) / (len(cases) - i)))
        with open(arguments.out + ".json", "w") as file:
            file.write("[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n")
        with open(arguments.out + ".md", "w") as file:
            file.write(table(records))
        print(time_row(records[-1], arguments.variants), flush=True)


if __name__ == "__main__":
    main()
