"""Objectives as Hugging Face's TRL has them: its trainers' own loss methods, called on log-probs without a trainer, and label
smoothing as transformers has it, for check_against_pytorch.py. Objectives that TRL computes otherwise, or not in f64, are left out,
with the reason."""
from types import SimpleNamespace
from unittest.mock import MagicMock, patch

import torch

try:
    import trl
    from trl import DPOTrainer, GRPOTrainer, KTOTrainer
    from trl.experimental.cpo import CPOTrainer
    from transformers.trainer_pt_utils import LabelSmoother
    from trl.experimental.orpo import ORPOTrainer
    from trl.trainer.utils import entropy_from_logits
except ImportError:
    trl = None

DIVERGENCES = {"reverse-kl": "reverse_kl", "forward-kl": "forward_kl", "js": "js_divergence", "alpha": "alpha_divergence"}


def trainer(**settings):
    """The part of a trainer that a loss method reads; its logs go nowhere."""
    accelerator = MagicMock(device=torch.device("cpu"), num_processes=1)
    accelerator.gather_for_metrics = accelerator.gather = lambda x: x
    return MagicMock(accelerator=accelerator, aux_loss_enabled=False, **settings)


def token_mean(l, mask, batch, options):
    with patch.object(torch, "float32", torch.float64):  # in which transformers sums log-probs
        return LabelSmoother(options["smoothing"])({"logits": batch["logits"]}, batch["labels"])


def apart(x):
    """Sequences in pairs, first all chosen, then all rejected ones."""
    return torch.cat([x[0::2], x[1::2]])


def likelihood(l, mask):
    """The mean over the chosen sequences."""
    return -(l * mask)[0::2].sum() / mask[0::2].sum()


def cpo(l, mask, options):
    simpo = options["kind"] == "simpo"
    sums = (l * mask).sum(1) / (mask.sum(1) if simpo else 1)
    stub = trainer(alpha=0.0, beta=options.get("beta", 0.1), simpo_gamma=options.get("gamma", 0.5),
                   loss_type="simpo" if simpo else "sigmoid", label_smoothing=options.get("smoothing", 0.0))
    return CPOTrainer.cpo_loss(stub, sums[0::2], sums[1::2])[0].mean() + options.get("sft", 0.0) * likelihood(l, mask)


def orpo(l, mask, batch, options):
    """Its cross-entropy is that of the labelled tokens; TRL takes a prompt's, too."""
    means = (l * mask).sum(1) / mask.sum(1)
    with patch.object(torch.Tensor, "float", torch.Tensor.double):  # TRL computes in f32
        losses = ORPOTrainer.odds_ratio_loss(trainer(beta=options.get("beta", 0.1)), means[0::2], means[1::2])[0]
    return likelihood(l, mask) - losses.mean()


def dpo(l, mask, batch, options):
    if options.get("kind") in ("simpo", "cpo"):
        return cpo(l, mask, options)
    l, mask, reference = apart(l * mask), apart(mask), apart(batch["reference_logprobs"]) * apart(mask)
    sft, ld_alpha, rows = options.get("sft", 0.0), options.get("ld_alpha", 1.0), mask.sum(1)
    if ld_alpha < 1:
        common = torch.minimum(*rows.chunk(2)).repeat(2)[:, None]
        reference = reference * (1 - (1 - ld_alpha) * (mask.cumsum(1) > common).double())
    chosen, rejected = reference.sum(1).chunk(2)
    stub = trainer(loss_types=[options.get("kind", "sigmoid")] + ["sft"] * (sft > 0), loss_weights=[1.0] + [sft] * (sft > 0),
                   beta=options.get("beta", 0.1), label_smoothing=options.get("smoothing", 0.0),
                   f_divergence_type=DIVERGENCES[options.get("divergence", "reverse-kl")],
                   args=MagicMock(discopop_tau=options.get("tau", 0.05)),
                   ld_alpha=ld_alpha if ld_alpha < 1 else None, precompute_ref_logps=True, use_weighting=False)
    tokens = torch.nn.functional.pad(mask.long(), (1, 0))  # a row's target is the token behind it
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "completion_mask": tokens,
              "ref_chosen_logps": chosen, "ref_rejected_logps": rejected}
    nothing = torch.zeros_like(l)  # but the loss is read
    outputs = SimpleNamespace(log_probs=l, entropy=nothing, mean_logits=nothing, is_top1=nothing.bool())
    return DPOTrainer._compute_loss(stub, lambda **_: outputs, inputs, False)


def kto(l, mask, batch, options):
    kind = options.get("kind", "kto")
    step = 2 if kind == "kto" else 1
    reference = (batch["reference_logprobs"] * mask).sum(1)
    examples, other = slice(0, None, step), slice(1, None, 2)
    tokens = torch.nn.functional.pad(mask[examples].long(), (1, 0))
    stub = trainer(loss_type=kind, calculate_KL=kind == "kto", precompute_ref_logps=True, beta=options.get("beta", 0.1),
                   desirable_weight=options.get("desirable_weight", 1.0),
                   undesirable_weight=options.get("undesirable_weight", 1.0))
    stub._compute_kl_logps = lambda *_: (l * mask).sum(1)[other].detach()
    nothing = torch.zeros_like(l[examples])
    outputs = SimpleNamespace(log_probs=(l * mask)[examples], entropy=nothing, mean_logits=nothing)
    return KTOTrainer._compute_loss(stub, lambda **_: outputs, {
        "input_ids": tokens, "attention_mask": torch.ones_like(tokens), "completion_mask": tokens,
        "label": batch["desirable"][examples].bool(), "ref_logps": reference[examples], "ref_KL_logps": reference[other]}, False)


def sampling_ratio(mask, batch, options):
    """As GRPOTrainer._generate_and_score_completions has it, which cannot be called alone."""
    sampling, difference = options.get("sampling", "off"), (batch["old_logprobs"] - batch["sampling_logprobs"]) * mask
    ratio = (difference.sum(1, keepdim=True) if sampling.startswith("sequence") else difference).exp()
    least, most = options.get("sampling_min", 0.0), options.get("sampling_max", 3.0) or float("inf")
    return ratio.clamp(least, most) if sampling.endswith("truncate") else ratio.masked_fill((ratio < least) | (ratio > most), 0)


def grpo(l, mask, batch, options):
    policy, empty = options.get("policy", "clip"), torch.zeros(l.shape[0], 0, dtype=torch.long)
    args = MagicMock(delta=options.get("dual") or None, use_bias_correction_kl=options.get("importance") == "on",
                     steps_per_generation=1, sapo_temperature_pos=options.get("temperature", 1.0),
                     sapo_temperature_neg=options.get("temperature_negative", 1.05))
    stub = trainer(args=args, loss_type=policy if policy in ("cispo", "sapo") else options.get("normaliser", "dapo"),
                   importance_sampling_level="sequence" if policy == "gspo" else "token", beta=options.get("beta", 0.0),
                   epsilon_low=options.get("clip_low", 0.2), top_entropy_quantile=1.0, off_policy_mask_threshold=None,
                   epsilon_high=options.get("ratio_max", 5.0) if policy == "cispo" else options.get("clip_high", 0.2),
                   max_completion_length=options.get("length"), use_vllm=options.get("sampling", "off") != "off",
                   vllm_importance_sampling_correction=True, _entropy_bonus_enabled=options.get("entropy_bonus", 0.0) > 0,
                   entropy_coef=options.get("entropy_bonus", 0.0), use_adaptive_entropy=False,
                   current_gradient_accumulation_steps=1)
    stub._get_per_token_logps_and_entropies = lambda *_, **__: (l, entropy_from_logits(batch["logits"]), None)
    return GRPOTrainer._compute_loss(stub, None, {
        "prompt_ids": empty, "prompt_mask": empty, "completion_ids": mask.long(), "completion_mask": mask.long(),
        "importance_sampling_ratio": sampling_ratio(mask, batch, options), "advantages": batch["advantages"], "old_per_token_logps": batch["old_logprobs"],
        "ref_per_token_logps": batch["reference_logprobs"], "num_items_in_batch": mask.sum()})


def left_out(name, options):
    """Why TRL cannot be asked; None: it can."""
    if trl is None:
        return "TRL is not there"
    kind, policy, normaliser = options.get("kind", "sigmoid"), options.get("policy", "clip"), options.get("normaliser", "dapo")
    if options.get("z_loss"):
        return "neither TRL nor transformers has a z-loss"
    if name == "token-mean" and "smoothing" in options:
        return None
    if name not in ("dpo", "orpo", "kto", "grpo"):
        return "no loss method of TRL's"
    if name == "dpo" and kind in ("sigmoid", "sigmoid_norm") and options.get("smoothing"):
        return f"TRL's {kind} takes no smoothing"
    if options.get("divergence") == "alpha":
        return "TRL's alpha divergence is computed in f32"
    if policy == "gspo_token" or options.get("estimator", "k3") != "k3" or options.get("mask_groups"):
        return "TRL's GRPO has none of it"
    if policy == "reinforce":
        return "TRL's GRPO has ratios"
    if (policy, normaliser) in (("sapo", "dapo"), ("cispo", "grpo")):
        return f"TRL's {policy} has another normaliser"
    return None


def owner(name):
    return "transformers" if name == "token-mean" else "TRL"


def loss(name, options, l, mask, batch):
    torch.set_default_dtype(torch.float64)  # of numbers that TRL makes tensors of
    try:
        of_name = {"token-mean": token_mean, "dpo": dpo, "orpo": orpo, "kto": kto, "grpo": grpo}
        return of_name[name](l, mask, batch, options)
    finally:
        torch.set_default_dtype(torch.float32)
