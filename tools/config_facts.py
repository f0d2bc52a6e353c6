#!/usr/bin/env python3
"""Prints published config.json files as inputs of tests/golden/test_published_configs: the model's name, and what its file
says of the language model's shape in one line. Keys of generation, tokens, images, sound, classifiers and training are left
out, and all of quantized weights but their method.

Run by hand:  tools/config_facts.py OWNER--NAME.json... >>tests/golden/test_published_configs && make golden
"""
import json
import os
import re
import sys

LEFT_OUT = re.compile(
    # Token ids and templates; pad_token_id is a row of the embedding that is not trained.
    r"[a-z_0-9]*(?<!pad)_token_(id|index)$|[eb]o[sicav]_|[eb]o[ai]_|im(g|age)_|template|tokenizer|"
    # Images, sound and what is found in images.
    r"vision|audio|video|media|patch|spatial|temporal|slice|size_|channel|coord|segm_|select|query_num|batch|merge|force|dynamic|"
    r"downsample|insert|drop_|use_(thumbnail|llm_lora|backbone)|min_dynamic|max_dynamic|num_segm|"
    # Generation, classifiers, training, and where files come from.
    r"no_repeat|min_length|max_(length|batch)|num_(return|beam)|do_|early|top_[kp]$|typical|temperature|suppress|begin|bad_words|forced|"
    r"output_(att|hid|sco|rou)|return|remove|use_(cache|flash)|prefix|id2label|label2id|problem|task|summary|"
    r".*(dropout|pdrop|drop_prob|initializer|penalty|loss|implementation)|pruned|seq_aux|time_step_(min|max|floor)|torch|dtype|fp(16|32)$|bf16|"
    r"expert_dtype|mamba_ssm_(cache_)?dtype|_|auto_map|transformers|version|ps_version|tf_|finetuning|ignore|onnx|inference|validate|"
    # Said of each layer at length, in a file that is refused by its type.
    r"block_configs")


def facts(config):
    kept = {key: facts(value) if isinstance(value, dict) else value for key, value in config.items() if not LEFT_OUT.match(key)}
    if "quantization_config" in kept:
        kept["quantization_config"] = {"quant_method": config["quantization_config"].get("quant_method")}
    return kept


for path in sys.argv[1:]:
    with open(path) as file:
        config = facts(json.load(file))
    name = os.path.basename(path).removesuffix(".json").replace("--", "/")
    print(f"> {name}\n> {json.dumps(config, separators=(',', ':'))}\n")
