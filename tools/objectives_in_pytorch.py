"""Objectives of longbp written once more, in PyTorch, from their papers' formulas: what check_against_pytorch.py holds
the program's losses and gradients against. Nothing here is taken from kernels/.

All take l, the log-probs of the labels [B, T]; mask, where there is a label; and a batch file's tensors, with the logits."""
import math

import torch
from torch.distributions import Categorical
from torch.nn.functional import cross_entropy, logsigmoid, relu


def dpo(l, mask, batch, kind="sigmoid", beta=0.1, smoothing=0.0, gamma=0.5, tau=0.05, sft=0.0, divergence="reverse-kl",
        alpha=0.5, ld_alpha=1.0):
    """Rafailov et al. 2023, arXiv 2305.18290, and its relatives; sequences 2i are chosen, 2i + 1 rejected."""
    rows = mask.sum(1)
    # Liu et al. 2024, arXiv 2409.06411: a pair's longer sequence counts less from where the shorter has ended
    common = torch.minimum(rows[0::2], rows[1::2]).repeat_interleave(2)
    beyond = (mask.cumsum(1) > common[:, None]).double()
    share = mask * (1 - beyond + ld_alpha * beyond)
    sums = (l * share).sum(1)
    if kind not in ("simpo", "cpo"):
        sums = sums - (batch["reference_logprobs"] * share).sum(1)
    if kind in ("simpo", "ipo", "sigmoid_norm"):
        sums = sums / rows
    if divergence != "reverse-kl":  # Wang et al. 2023, arXiv 2309.16240
        less = {"forward-kl": -1, "alpha": alpha - 1}.get(divergence)
        sums = logsigmoid(sums) if divergence == "js" else (less * sums).exp() / less
    chosen, rejected = sums[0::2], sums[1::2]
    delta, u, v = chosen - rejected, beta * chosen, beta * rejected
    x = beta * delta - (gamma if kind == "simpo" else 0)
    if kind in ("sigmoid", "simpo", "sigmoid_norm", "cpo"):
        loss = -(1 - smoothing) * logsigmoid(x) - smoothing * logsigmoid(-x)
    elif kind == "robust":
        loss = (-(1 - smoothing) * logsigmoid(x) + smoothing * logsigmoid(-x)) / (1 - 2 * smoothing)
    elif kind == "ipo":
        loss = (delta - 1 / (2 * beta)) ** 2
    elif kind == "hinge":
        loss = relu(1 - x)
    elif kind == "exo_pair":
        q = torch.stack([logsigmoid(x), logsigmoid(-x)])
        p = torch.tensor([1 - smoothing, smoothing], dtype=torch.float64).log()[:, None]
        loss = (q.exp() * (q - p)).sum(0)
    elif kind == "discopop":
        m = (x / tau).sigmoid()
        loss = -(1 - m) * logsigmoid(x) + m * (-x).exp()
    elif kind == "nca_pair":
        loss = -logsigmoid(u) - logsigmoid(-u) / 2 - logsigmoid(-v) / 2
    elif kind == "bco_pair":
        loss = -logsigmoid(u) - logsigmoid(-v)
    elif kind == "sppo_hard":
        loss = (chosen - 1 / (2 * beta)) ** 2 + (rejected + 1 / (2 * beta)) ** 2
    elif kind == "apo_zero":
        loss = (-u).sigmoid() + v.sigmoid()
    elif kind == "apo_down":
        loss = u.sigmoid() + (v - u).sigmoid()
    return loss.mean() - sft * (l * mask)[0::2].sum() / rows[0::2].sum()


def orpo(l, mask, batch, beta=0.1):
    """Hong et al. 2024, arXiv 2403.07691, equations 4 to 7."""
    means = (l * mask).sum(1) / mask.sum(1)
    log_odds = means - torch.log1p(-means.exp())
    chosen = mask[0::2]
    return -(l[0::2] * chosen).sum() / chosen.sum() - beta * logsigmoid(log_odds[0::2] - log_odds[1::2]).mean()


def kto(l, mask, batch, kind="kto", beta=0.1, desirable_weight=1.0, undesirable_weight=1.0):
    """Ethayarajh et al. 2024, arXiv 2402.01306, equation 7; sequences 2i + 1 are 2i's prompts with others' completions.
    apo_zero_unpaired: D'Oosterlinck et al. 2024, arXiv 2408.06266, equation 7, without pairs."""
    gain, desirable = ((l - batch["reference_logprobs"]) * mask).sum(1), batch["desirable"].bool()
    baseline = 0.0
    if kind == "kto":
        baseline, gain, desirable = gain[1::2].mean().clamp(min=0).detach(), gain[0::2], desirable[0::2]
    value = beta * (gain - baseline)
    return torch.where(desirable, desirable_weight * (1 - value.sigmoid()), undesirable_weight * (1 - (-value).sigmoid())).mean()


def grpo(l, mask, batch, normaliser="dapo", policy="clip", clip_low=0.2, clip_high=0.2, dual=0.0, ratio_max=5.0,
         temperature=1.0, temperature_negative=1.05, beta=0.0, estimator="k3", importance="off", length=0, sampling="off",
         sampling_min=0.0, sampling_max=3.0, mask_groups=0, entropy_bonus=0.0, z_loss=0.0):
    """Shao et al. 2024, arXiv 2402.03300, and its relatives."""
    if mask_groups:
        gains = (batch["advantages"].view(-1, mask_groups) != 0).any(1).repeat_interleave(mask_groups)
        l, mask, batch = l[gains], mask[gains], {name: values[gains] for name, values in batch.items()}
    rows = mask.sum(1, keepdim=True)
    advantage = batch["advantages"] if batch["advantages"].dim() == 2 else batch["advantages"][:, None].expand_as(l)
    old = batch.get("old_logprobs", l.detach())
    weight = torch.ones_like(l)
    if sampling != "off":  # Yao et al. 2025
        log_weight = (old - batch["sampling_logprobs"]) * mask
        log_weight = log_weight.sum(1, keepdim=True).expand_as(l) if sampling.startswith("sequence") else log_weight
        weight = log_weight.exp()
        within = weight.clamp(sampling_min, sampling_max or math.inf)
        weight = within if sampling.endswith("truncate") else weight * (within == weight)
    log_ratio = l - old
    if policy in ("gspo", "gspo_token"):
        log_ratio = ((log_ratio * mask).sum(1, keepdim=True) / rows).expand_as(l)
    if policy == "gspo_token":
        log_ratio = log_ratio.detach() + l - l.detach()
    ratio = log_ratio.exp()
    if policy in ("clip", "gspo", "gspo_token"):
        capped = torch.where(advantage < 0, ratio.clamp(max=dual), ratio) if dual > 0 else ratio
        cost = -torch.minimum(capped * advantage, capped.clamp(1 - clip_low, 1 + clip_high) * advantage)
    elif policy == "cispo":
        cost = -ratio.detach().clamp(max=ratio_max) * advantage * l
    elif policy == "sapo":
        t = torch.where(advantage > 0, torch.full_like(l, temperature), torch.full_like(l, temperature_negative))
        cost = -advantage * 4 / t * torch.sigmoid(t * (ratio - 1))
    elif policy == "reinforce":
        cost = -advantage * l
    cost = cost * weight
    if beta > 0:
        gap = batch["reference_logprobs"] - l
        k = {"k1": -gap, "k2": gap ** 2 / 2, "k3": gap.exp() - gap - 1}[estimator]
        cost = cost + beta * k * ((l - old).exp() if importance == "on" else 1)
    cost = (cost + z_loss * batch["logits"].logsumexp(-1) ** 2) * mask
    sequences = l.shape[0]
    bonus = entropy_bonus * (Categorical(logits=batch["logits"]).entropy() * mask).sum() / rows.sum()
    return -bonus + {"dapo": lambda: cost.sum() / rows.sum(), "bnpo": lambda: cost.sum() / rows.sum(),
            "grpo": lambda: (cost.sum(1, keepdim=True) / rows).mean(), "luspo": lambda: cost.sum() / sequences,
            "dr_grpo": lambda: cost.sum() / (sequences * length)}[normaliser]()


def mean(l, mask, batch, kind, z_loss=0.0, smoothing=0.0):
    """Label smoothing is torch's own; z-loss: Chowdhery et al. 2022, arXiv 2204.02311."""
    costs = cross_entropy(batch["logits"].flatten(0, 1), batch["labels"].clamp(min=0).flatten(), reduction="none",
                          label_smoothing=smoothing).view_as(l)
    z = batch["logits"].logsumexp(-1) ** 2
    if kind == "dft":
        costs = costs * l.detach().exp()
    weight = {"token-mean": mask, "dft": mask, "weighted-mean": mask * batch["weights"],
              "sequence-mean": mask / mask.sum(1, keepdim=True)}[kind]
    total = {"token-mean": mask.sum(), "dft": mask.sum(), "weighted-mean": (mask * batch["weights"]).sum(),
             "sequence-mean": l.shape[0]}[kind]
    return (weight * (costs + z_loss * z)).sum() / total


# As --objective takes them, every kind of each at least once.
OBJECTIVES = [
    ("token-mean", {}), ("sequence-mean", {}), ("weighted-mean", {}), ("dft", {}),
    ("token-mean", {"smoothing": 0.1}), ("token-mean", {"z_loss": 0.01}), ("sequence-mean", {"smoothing": 0.2, "z_loss": 0.01}),
    ("weighted-mean", {"smoothing": 0.1, "z_loss": 0.01}), ("dft", {"z_loss": 0.01}),
    ("dpo", {}), ("dpo", {"smoothing": 0.1}), ("dpo", {"kind": "robust", "smoothing": 0.1}), ("dpo", {"kind": "ipo"}),
    ("dpo", {"kind": "hinge", "beta": 0.05}), ("dpo", {"kind": "simpo", "beta": 2.0}), ("dpo", {"sft": 0.5}),
    ("dpo", {"kind": "sigmoid_norm", "beta": 2.0}), ("dpo", {"kind": "cpo", "smoothing": 0.1, "sft": 1.0}),
    ("dpo", {"kind": "exo_pair", "smoothing": 0.001}), ("dpo", {"kind": "discopop"}), ("dpo", {"kind": "nca_pair"}),
    ("dpo", {"kind": "bco_pair"}), ("dpo", {"kind": "sppo_hard"}), ("dpo", {"kind": "apo_zero"}),
    ("dpo", {"kind": "apo_down"}), ("orpo", {"beta": 0.3}),
    ("kto", {}), ("kto", {"beta": 0.3, "desirable_weight": 1.33, "undesirable_weight": 0.5}),
    ("kto", {"kind": "apo_zero_unpaired"}),
    ("dpo", {"divergence": "forward-kl"}), ("dpo", {"divergence": "js"}), ("dpo", {"divergence": "alpha", "alpha": 0.3}),
    ("dpo", {"ld_alpha": 0.4}), ("dpo", {"ld_alpha": 0, "sft": 0.5, "divergence": "js"}),
    *(("grpo", {"normaliser": n, "clip_high": 0.28, "beta": 0.04, **({"length": 40} if n == "dr_grpo" else {})})
      for n in ("dapo", "grpo", "bnpo", "dr_grpo", "luspo")),
    ("grpo", {"dual": 1.3}), ("grpo", {"beta": 0.04, "importance": "on"}),
    ("grpo", {"policy": "cispo", "ratio_max": 1.1}), ("grpo", {"policy": "sapo"}),
    # temperatures that TRL's f32 holds exactly
    ("grpo", {"policy": "sapo", "normaliser": "grpo", "temperature_negative": 1.25}), ("grpo", {"policy": "reinforce"}),
    ("grpo", {"policy": "gspo", "clip_low": 0.01, "clip_high": 0.01}),
    ("grpo", {"policy": "gspo", "normaliser": "grpo", "beta": 0.04}),
    ("grpo", {"policy": "gspo_token", "normaliser": "grpo", "beta": 0.04}),
    ("grpo", {"beta": 0.04, "estimator": "k1"}), ("grpo", {"beta": 0.04, "estimator": "k1", "importance": "on"}),
    ("grpo", {"beta": 0.04, "estimator": "k2"}), ("grpo", {"beta": 0.04, "estimator": "k2", "importance": "on"}),
    ("grpo", {"sampling": "token_truncate", "sampling_max": 1.1}), ("grpo", {"sampling": "token_mask", "sampling_max": 1.1}),
    ("grpo", {"sampling": "sequence_truncate", "beta": 0.04}),
    ("grpo", {"sampling": "sequence_mask", "sampling_min": 0.2, "sampling_max": 0, "normaliser": "grpo"}),
    ("grpo", {"sampling": "token_truncate", "sampling_min": 0.9, "policy": "cispo"}),
    ("grpo", {"mask_groups": 2, "beta": 0.04, "normaliser": "grpo"}),
    *(("grpo", {"normaliser": n, "entropy_bonus": 0.3, **({"length": 40} if n == "dr_grpo" else {})})
      for n in ("dapo", "grpo", "bnpo", "dr_grpo", "luspo")),
    ("grpo", {"policy": "gspo", "beta": 0.04, "entropy_bonus": 0.3}), ("grpo", {"policy": "cispo", "entropy_bonus": 0.3, "z_loss": 0.01}),
]


def flag(name, options):
    return ",".join([name, *(f"{key}={value}" for key, value in options.items())])


def loss(name, options, l, mask, batch):
    known = {"dpo": dpo, "orpo": orpo, "kto": kto, "grpo": grpo}
    return known[name](l, mask, batch, **options) if name in known else mean(l, mask, batch, name, **options)
