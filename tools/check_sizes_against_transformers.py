#!/usr/bin/env python3
"""Holds the sizes of published models that tests/golden/test_published_configs has against transformers: each model that is
planned is built there of the same config.json, without memory for its weights, and its numbers are counted.

Run by hand:  tools/check_sizes_against_transformers.py
Needs torch and transformers. Exits 1 if a size differs.
"""
import json
import os
import re
import sys

from needed_modules import need

need("torch", "transformers")
import torch
import transformers

GOLDEN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "golden", "test_published_configs")
ALIGNED = 64  # numbers of f32, to which each tensor's gradient is filled up


def bytes_of(config):
    whole = transformers.AutoConfig.for_model(**config)
    text = whole.get_text_config()
    with torch.device("meta"):
        decoder = transformers.AutoModel.from_config(text)
    sizes = [weight.numel() for weight in decoder.parameters()]
    if not whole.tie_word_embeddings:
        sizes.append(text.vocab_size * text.hidden_size)
    return sum(-(-size // ALIGNED) * ALIGNED * 4 for size in sizes)


def main():
    transformers.logging.set_verbosity_error()
    with open(GOLDEN) as file:
        found = re.findall(r"^> (.*)\n> (.*)\n(?:reads .*\n)?gradients (\d+)$", file.read(), re.M)
    failed = 0
    for name, config, planned in found:
        counted = bytes_of(json.loads(config))
        failed += counted != int(planned)
        if counted != int(planned):
            print(f"{name}: gradients take {planned} bytes here, {counted} by transformers")
    print(f"{len(found) - failed} of {len(found)} sizes are transformers'")
    sys.exit(failed > 0 or not found)


main()
