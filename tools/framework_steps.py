"""A training step of a transformers model on meta tensors: the storages that PyTorch's allocator would count.

Meta tensors have sizes and lifetimes but no bytes, and pass through the same autograd engine in the same order as a card's.
A dispatch mode sees each storage that an operation makes; a weak reference tells when the last tensor, saved variable or
name lets go of it. CUDA kernels' own requests within an operation are added by rule (WITHIN). Nothing needs a card.

Autocast has no meta device. Its steps are of fake tensors of a processor, which have no bytes either and which autocast's own
dispatch casts: linear, matmul and scaled_dot_product_attention are in its list there as on CUDA.
"""
import dataclasses
import importlib
import weakref
from unittest import mock

import torch
import torch.nn.functional as F
import transformers.modeling_utils
import transformers.utils.import_utils
from accelerate.utils import convert_outputs_to_fp32
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import peft  # beforehand: its modules make tensors when they are first read, on whatever device is the default

BLOCK = 512  # bytes: the caching allocator counts multiples
CUBLAS = 8519680  # a workspace for each thread that multiplies, forward's and autograd's; before sm_90
TRL_TILE = (4096, 32768)  # tokens and columns of TRL's fused head


def up(n, multiple):
    return -(-n // multiple) * multiple


@dataclasses.dataclass
class Setting:
    """Values are those of `longbp plan`: its options and the keys of --framework."""
    model: str
    context: int
    method: str = "checkpoint"
    batch: int = 1
    rank: int = 0
    targets: str = "q,v"
    optimizer: str = ""
    loss: str = "whole"
    loss_rows: int = 2048
    outputs: str = "released"
    mask: str = "none"
    attention: str = "flash"
    reentrant: str = "no"
    gradients: str = "fresh"
    adapters: str = "f32"
    head: str = "bf16"
    trainer: str = "hf"
    mixed_precision: str = "no"
    dtype: str = "bf16"
    offload: str = "none"
    quantised: str = "none"
    optim: str = "adamw"
    optimizer_form: str = "foreach"

    def words(self):
        framework = ["loss", "loss_rows", "outputs", "mask", "attention", "reentrant", "gradients", "adapters", "head",
                     "trainer", "mixed_precision", "offload", "quantised", "optim", "optimizer_form"]
        words = ["--method", self.method, "--context", str(self.context), "--batch", str(self.batch), "--dtype", self.dtype,
                 "--framework", ",".join(f"{key}={getattr(self, key)}" for key in framework)]
        if self.rank:
            words += ["--lora", f"r={self.rank},alpha=16,targets={self.targets}"]
        return words + (["--optimizer", self.optimizer] if self.optimizer else [])

    def __str__(self):
        changed = [f"{f.name}={getattr(self, f.name)}" for f in dataclasses.fields(self)[2:] if getattr(self, f.name) != f.default]
        return " ".join([self.model, str(self.context), *changed])


def attention_backward(q, k):
    """dq in f32 and softmax's sums; with fewer key heads also dk and dv of all heads."""
    batch, heads, tokens, dim = q.shape
    sums = batch * heads * up(tokens, 128) * (up(dim, 32 if dim <= 128 else 64) + 1) * 4
    return sums + (2 * batch * tokens * heads * up(dim, 8) * q.element_size() if heads != k.shape[1] else 0)


def dequantised(args):
    """The weight's copy, by which the CUDA kernel multiplies more than 1,536 tokens."""
    return args[2][0] * args[2][1] * args[0].element_size()


WITHIN = {"bitsandbytes.gemm_4bit.default": dequantised} | {
    f"aten._scaled_dot_product_{kernel}_attention_backward.default": lambda args: attention_backward(args[1], args[2])
    for kernel in ("flash", "efficient")}


# A dispatch mode has these backwards make a second tensor beside their zeros; without one they fill the zeros.
IN_PLACE = {torch.ops.aten.index_put.default: torch.ops.aten.index_put_.default,
            torch.ops.aten.scatter.src: torch.ops.aten.scatter_.src}


@dataclasses.dataclass
class Event:
    number: int  # of the storage; a release has its allocation's
    bytes: int  # negative: released
    live: int
    moment: str
    made: str

    def __str__(self):
        return f"{self.moment:9} {'+' if self.bytes > 0 else '-'}{self.number:<6} {abs(self.bytes):14} live {self.live:15}  {self.made}"


class Storages(TorchDispatchMode):
    def __init__(self, device, padded):
        super().__init__()
        self.device, self.padded, self.moment, self.live, self.number, self.known, self.events = device, padded, "setup", 0, 0, set(), []

    def count(self, number, size, made):
        self.live += size
        self.events.append(Event(number, size, self.live, self.moment, made))

    def release(self, identity, number, size, made):
        self.known.discard(identity)
        self.count(number, -size, made)

    def see(self, tensor, operation):
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != self.device:
            return
        storage = tensor.untyped_storage()
        identity = storage._cdata
        if identity in self.known or storage.nbytes() == 0:
            return
        size, made = up(storage.nbytes(), BLOCK), f"{operation} {list(tensor.shape)} {str(tensor.dtype)[6:]}"
        self.number += 1
        self.known.add(identity)
        self.count(self.number, size, made)
        weakref.finalize(storage, self.release, identity, self.number, size, made)

    def within(self, size, operation):
        self.number += 1
        self.count(self.number, size, operation)
        self.count(self.number, -size, operation)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten._local_scalar_dense.default and args[0].device.type == self.device:
            return not self.padded  # "is nothing padded?", "is nothing packed?"
        function = IN_PLACE.get(function, function) if self.moment == "backward" else function
        out = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            self.see(tensor, str(function))
        if str(function) in WITHIN:
            self.within(up(WITHIN[str(function)](args), BLOCK), f"within {function}")
        return out

    def moments(self):
        """Bytes before the step, the most of its forward, what that leaves, and the most of its backward and its update; without the
        libraries' workspaces."""
        live = {name: [event.live for event in self.events if event.moment == name]
                for name in ("setup", "forward", "backward", "optimizer")}
        before = live["setup"][-1] - 2 * CUBLAS
        return before, max(live["forward"]) - 2 * CUBLAS, live["forward"][-1] - live["setup"][-1], max(live["backward"]) - 2 * CUBLAS, max(live["backward"][-1:] + live["optimizer"]) - 2 * CUBLAS

    def peak(self):
        return max((event for event in self.events if event.moment != "setup"), key=lambda event: event.live)


MASK_MULTIPLE = 8  # columns of a mask that the efficient kernel takes


def kernel_mask(mask, q, k):
    """A mask as PyTorch's dispatcher hands it to the efficient kernel: numbers in place of booleans, rows of a multiple of columns."""
    if mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, torch.scalar_tensor(float("-inf"), dtype=q.dtype, device=q.device))
    if any(stride % MASK_MULTIPLE for stride in mask.stride()[:-1]):
        columns = mask.shape[-1]
        mask = F.pad(mask, (0, MASK_MULTIPLE - columns % MASK_MULTIPLE))[..., :columns]
    return mask.expand(*q.shape[:3], k.shape[2])


def attention(kind):
    """SDPA as CUDA dispatches it: meta tensors would take the path without a kernel. Flash takes no mask and heads of 256 at most,
    the efficient kernel no fewer keys than heads."""
    def sdpa(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if torch.is_autocast_enabled("cpu"):
            v, k, q = (x.to(torch.get_autocast_dtype("cpu")) for x in (v, k, q))  # the order in which C++ casts arguments
        if kind == "flash" and attn_mask is None and q.shape[-1] <= 256:
            return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, scale=scale)[0]
        assert not enable_gqa
        if attn_mask is not None:
            attn_mask = kernel_mask(attn_mask, q, k)
        return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, attn_mask, True, dropout_p, is_causal, scale=scale)[0]
    return sdpa


# ---- heads with their loss, of hidden states [tokens, width]

def chunked(hidden, weight, labels, rows, config):
    """Logits and cross-entropy of `rows` tokens at a time, each under a checkpoint."""
    cap, scale = getattr(config, "final_logit_softcapping", None), getattr(config, "logits_scaling", None)
    def head(hidden, weight):
        logits = F.linear(hidden.to(weight.dtype), weight)
        if scale:
            logits = logits / scale
        return torch.tanh(logits / cap) * cap if cap else logits
    def part(hidden, weight, labels):
        return F.cross_entropy(head(hidden, weight).float(), labels, reduction="sum")
    parts = zip(hidden.split(rows), labels.split(rows))
    return sum(checkpoint(part, h, weight, y, use_reentrant=False) for h, y in parts)


class Liger(torch.autograd.Function):
    """Liger's fused linear cross-entropy after its source: chunks by the ratio of vocabulary and width; gradients in forward."""
    @staticmethod
    def forward(ctx, hidden, weight):
        tokens, (vocab, width) = len(hidden), weight.shape
        rows = 1 << (-(-tokens // -(-vocab // width)) - 1).bit_length()
        grad = torch.zeros_like(hidden)
        grad_weight = torch.zeros_like(weight) if weight.requires_grad else None
        losses = torch.zeros(tokens, dtype=torch.float32)
        for h, g in zip(hidden.split(rows), grad.split(rows)):
            logits = h @ weight.t()  # which the kernel turns into their gradient
            g.copy_(logits @ weight)
            if grad_weight is not None:
                grad_weight += torch.mm(logits.t(), h)
        ctx.save_for_backward(grad, grad_weight)
        return losses.sum()

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors


class Trl(torch.autograd.Function):
    """TRL's fused head after its source: tiles of logits, gradients summed in f32; what is in f32 under autocast is cast by tiles."""
    @staticmethod
    def tiles(ctx, hidden, weight):
        """Casts of each tile's tokens and columns; in backward a name keeps each until the next one is there."""
        rows, columns = TRL_TILE
        for tokens in hidden.split(rows):
            own_tokens = tokens.to(ctx.dtype)
            for part in weight.split(columns):
                own_part = part.to(ctx.dtype)
                if not ctx.keeps:
                    del own_part
        del own_tokens

    @staticmethod
    def forward(ctx, hidden, weight):
        sums = [torch.zeros(len(hidden), dtype=torch.float32, device=hidden.device) for _ in range(7)]
        ctx.dtype, ctx.keeps = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else hidden.dtype, False
        tile = torch.empty(min(len(hidden), TRL_TILE[0]), TRL_TILE[1], dtype=ctx.dtype, device=hidden.device)
        Trl.tiles(ctx, hidden, weight)
        log_sum, entropy = sums[0] + sums[1], sums[2] + sums[3]
        ctx.save_for_backward(hidden, weight, log_sum, entropy)
        return sums[6] - log_sum

    @staticmethod
    def backward(ctx, grad):
        hidden, weight, *_ = ctx.saved_tensors
        grad_hidden = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
        grad_weight = torch.zeros(weight.shape, dtype=torch.float32, device=hidden.device) if ctx.needs_input_grad[1] else None
        tile = torch.empty(min(len(hidden), TRL_TILE[0]), TRL_TILE[1], dtype=ctx.dtype, device=hidden.device)
        ctx.keeps = True
        Trl.tiles(ctx, hidden, weight)
        return grad_hidden.to(hidden.dtype), None if grad_weight is None else grad_weight.to(weight.dtype)


# ---- the step

DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}


def autocast(function, setting):
    """The function as accelerate has a model's forward: under autocast, and with outputs in f32 unless the caller is a script."""
    function = torch.autocast("cpu", torch.bfloat16)(function)
    return function if setting.trainer == "plain" else convert_outputs_to_fp32(function)

def save_elsewhere(**_):
    """As save_on_cpu: what is saved leaves the device, and comes back as a copy."""
    return torch.autograd.graph.saved_tensors_hooks(lambda x: (x.shape, x.dtype, x.device),
                                                      lambda kept: torch.empty(kept[0], dtype=kept[1], device=kept[2]))


def quantise(base):
    """Puts bitsandbytes' layers in place of a model's projections, with NF4 weights and scales of 64 values."""
    import bitsandbytes as bnb
    for layer in base.model.layers:
        for name, linear in list(layer.named_modules()):
            if type(linear) is not torch.nn.Linear:
                continue
            rows, columns = linear.weight.shape
            with mock.patch.object(bnb.nn.modules, "Params4bit", lambda data, **_: torch.nn.Parameter(data, requires_grad=False)):  # which quantises values
                four = bnb.nn.Linear4bit(0, 0, bias=False, compute_dtype=torch.bfloat16)
            four.in_features, four.out_features, four.bias = columns, rows, linear.bias
            weight = torch.nn.Parameter(torch.empty(rows * columns // 2, 1, dtype=torch.uint8), requires_grad=False)
            weight.compress_statistics, weight.quant_type = False, "nf4"
            weight.quant_state = four.quant_state = bnb.functional.QuantState(
                absmax=torch.empty(-(-rows * columns // 64)), shape=linear.weight.shape, code=torch.empty(16), blocksize=64,
                quant_type="nf4", dtype=torch.bfloat16)
            four.weight = weight
            layer.set_submodule(name, four)
    base.is_loaded_in_4bit = True


def build(config, setting):
    from transformers import AutoConfig, AutoModelForCausalLM
    config = AutoConfig.for_model(**config)
    config.use_cache = False
    model = base = AutoModelForCausalLM.from_config(config, dtype=DTYPES[setting.dtype],
                                                    attn_implementation="eager" if setting.attention == "eager" else "sdpa")
    if setting.quantised == "nf4":
        quantise(base)
    head = base.get_output_embeddings()
    if setting.head == "f32":
        head.weight = torch.nn.Parameter(head.weight.float())
        head.forward = lambda hidden: F.linear(hidden.float(), head.weight)
    if setting.rank:
        from peft import LoraConfig, get_peft_model
        targets = setting.targets if setting.targets == "all-linear" else [f"{t}_proj" for t in setting.targets.split(",")]
        with mock.patch.object(torch.nn.Module, "to", lambda module, *_, **__: module):  # all is there; factors are made in f32
            model = get_peft_model(base, LoraConfig(r=setting.rank, lora_alpha=16, target_modules=targets))
    for name, p in model.named_parameters():
        if "lora_" in name:
            p.data = p.data.to(DTYPES[setting.adapters])
    model.train()
    if setting.method == "checkpoint":
        transformers.modeling_utils.save_on_cpu = save_elsewhere
        base.activation_checkpointing_enable({"use_reentrant": setting.reentrant == "yes"}, offload=setting.offload == "inputs")
        if setting.rank or setting.reentrant == "yes":
            base.enable_input_require_grads()
    return model, base


def loss_of(model, base, ids, labels, padding, setting):
    """The loss, and what the caller keeps until backward is done."""
    more = {} if padding is None else {"attention_mask": padding}
    if setting.loss == "whole":
        out = model(input_ids=ids, labels=labels, **more)
        return out.loss, out if setting.outputs == "kept" else None
    hidden, labels = base.model(input_ids=ids, **more).last_hidden_state.flatten(0, 1), labels.flatten()
    weight = base.get_output_embeddings().weight
    if setting.loss == "chunked":
        return chunked(hidden, weight, labels, setting.loss_rows, base.config), None
    if setting.loss == "liger":
        return Liger.apply(hidden, weight), None
    return Trl.apply(hidden.clone(), weight).sum(), None


def optimizer_of(model, setting):
    """The optimizer as Trainer makes it; a script gives all weights in one group."""
    groups = [[p for p in model.parameters() if p.requires_grad]]
    if setting.trainer != "plain":
        decay = set(transformers.Trainer.get_decay_parameter_names(None, model))
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        groups = [[p for name, p in trained if (name in decay) == first] for first in (True, False)]
    groups = [{"params": group} for group in groups]
    if setting.optim == "adamw":
        importlib.import_module("torch.optim.optimizer")._get_fused_kernels_supported_devices = lambda: ["meta"]
        form = {"fused": True} if setting.optimizer_form == "fused" else {"foreach": True}
        return torch.optim.AdamW(groups, **form)
    if setting.optim == "adafactor":
        return transformers.Adafactor(groups, lr=1e-4, scale_parameter=False, relative_step=False)
    if setting.optim == "sgd":
        return torch.optim.SGD(groups, lr=1e-4, foreach=True)
    import bitsandbytes
    bitsandbytes.functional.is_on_gpu = lambda tensors: True
    bitsandbytes.functional.get_paged = lambda *shape, dtype, device: torch.empty(*shape, dtype=dtype, device="cpu")
    bitsandbytes.functional.fill = lambda *arguments: None
    bitsandbytes.functional.prefetch_tensor = lambda *arguments: None
    bitsandbytes.optim.optimizer.sync_gpu = lambda tensor: None
    bits, manager = 8 if "8bit" in setting.optim else 32, bitsandbytes.optim.GlobalOptimManager.get_instance()
    manager.initialize()  # without those of a setting before
    if bits == 8 and setting.trainer != "plain":
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                manager.register_module_override(module, "weight", {"optim_bits": 32})
    with torch.device("cpu"):  # where its tables are made
        return bitsandbytes.optim.AdamW(groups, optim_bits=bits, is_paged="paged" in setting.optim)


ENABLED = torch.is_autocast_enabled


def storages(config, setting):
    """The storages of one step, after one that made the optimizer's state and gradients that are held."""
    torch.is_autocast_enabled = lambda device="cpu": ENABLED(device)  # PEFT asks for a card's
    F.scaled_dot_product_attention = attention(setting.attention)
    transformers.utils.import_utils.is_fake_tensor = lambda tensor: False  # which would be compiled
    cast = setting.mixed_precision == "bf16"
    seen = Storages("cpu" if cast else "meta", setting.mask == "padded")
    with FakeTensorMode(allow_non_fake_inputs=True) if cast else torch.device("meta"), seen:
        model, base = build(config, setting)
        trained = [p for p in model.parameters() if p.requires_grad]
        libraries = [torch.empty(CUBLAS, dtype=torch.uint8) for _ in range(2)]
        optimizer = optimizer_of(model, setting) if setting.optimizer else None
        if optimizer or setting.gradients == "held":
            for p in trained:
                p.grad = torch.empty_like(p)
        with torch.device("cpu"):  # where foreach counts its steps
            if optimizer:
                optimizer.step()
        if setting.gradients == "fresh":
            model.zero_grad()
        ids, labels = (torch.zeros(setting.batch, setting.context, dtype=torch.int64) for _ in range(2))
        padding = torch.zeros_like(ids) if setting.mask == "padded" else None
        forward = loss_of
        if cast and setting.loss == "whole":
            model.forward = autocast(model.forward, setting)
        elif cast:
            forward = autocast(loss_of, setting)
        seen.moment = "forward"
        loss, kept = forward(model, base, ids, labels, padding, setting)
        seen.moment = "backward"
        loss.backward()
        del loss, kept
        seen.moment = "optimizer"
        with torch.device("cpu"):
            if optimizer:
                optimizer.step()
        del libraries
    return seen


# ---- segments

def reserved(events):
    """Bytes of the segments that CUDACachingAllocator holds at most, without garbage collection or expandable segments."""
    MIB = 1 << 20
    free, where, held = {True: [], False: []}, {}, 0  # blocks: [segment, begin, bytes, taken], best fit, lowest first
    segments = []
    for event in events:
        if event.bytes > 0:
            small = event.bytes <= MIB
            block = min((b for b in free[small] if b[2] >= event.bytes), key=lambda b: (b[2], b[0], b[1]), default=None)
            if block:
                free[small].remove(block)
            else:
                block = [len(segments), 0, 2 * MIB if small else 20 * MIB if event.bytes < 10 * MIB else up(event.bytes, 2 * MIB), False]
                held += block[2]
                segments.append([block])
            blocks, rest = segments[block[0]], block[2] - event.bytes
            if rest >= BLOCK if small else rest > MIB:
                block[2] = event.bytes
                blocks.append([block[0], block[1] + event.bytes, rest, False])
                blocks.sort(key=lambda b: b[1])
                free[small].append(blocks[blocks.index(block) + 1])
            block[3], where[event.number] = True, (block, small)
        else:
            block, small = where.pop(event.number)
            blocks = segments[block[0]]
            block[3] = False
            at = blocks.index(block)
            for right, left in ((at + 1, at), (at, at - 1)):
                if left >= 0 and right < len(blocks) and not blocks[left][3] and not blocks[right][3]:
                    for b in (blocks[left], blocks[right]):
                        if b is not block:
                            free[small].remove(b)
                    blocks[left][2] += blocks[right][2]
                    block = blocks[left]
                    del blocks[right]
            free[small].append(block)
    return held  # which segments never leave
