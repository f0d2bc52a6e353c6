#!/usr/bin/env python3
"""Holds tools/tokens against TRL's trainers: what SFTTrainer, DPOTrainer and KTOTrainer make of a dataset, token by token and label by
label, with the chat templates that TRL has of published models and a tokenizer trained here.

Run by hand:  tools/check_tokens_against_trl.py
Needs trl, without which nothing is held, and what tools/tokens does. Exits 1 if anything differs.
"""
import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from needed_modules import need

need("jinja2", "safetensors", "tokenizers")
if importlib.util.find_spec("trl") is None:
    print("tokens against TRL: left out, there is no trl")
    sys.exit()
import tokenizers
import trl
from datasets import Dataset
from safetensors.numpy import load_file
from transformers import PreTrainedTokenizerFast
from trl.trainer.dpo_trainer import DataCollatorForPreference
from trl.trainer.kto_trainer import DataCollatorForUnpairedPreference
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

HERE = Path(__file__).resolve().parent
LOADER = importlib.machinery.SourceFileLoader("tokens", str(HERE / "tokens"))
TOKENS = importlib.util.module_from_spec(importlib.util.spec_from_loader("tokens", LOADER))
LOADER.exec_module(TOKENS)
SPECIAL = ["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|start_header_id|>", "<|end_header_id|>",
           "<|eot_id|>", "<start_of_turn>", "<end_of_turn>", "<|user|>", "<|assistant|>", "<|end|>"]
TEMPLATES = ["qwen2_5", "qwen2_5_training", "qwen3", "qwen3_training", "llama3", "llama3_training", "gemma", "gemma3",
             "phi3", "phi3_training"]

QUESTIONS = ["Who made the heaven?", "And what was upon the face of the deep? Say it in full.", "Where?", "  Why so\n\nlong?"]
ANSWERS = ["God.", "Darkness was upon the face of the deep, and the Spirit moved.", "In the beginning", "I know not; ask again."]


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def examples():
    """Kinds of examples by name."""
    both = list(zip(QUESTIONS, ANSWERS))
    turned = ANSWERS[1:] + ANSWERS[:1]
    long = [[user(q), assistant(a), user(q2), assistant(a2)] for (q, a), (q2, a2) in zip(both, both[1:] + both[:1])]
    return {
        "text": [{"text": f"{q} {a}"} for q, a in both],
        "completion": [{"prompt": q, "completion": " " + a} for q, a in both],
        "merging completion": [{"prompt": q + " In the be", "completion": "ginning " + a} for q, a in both],
        "chat completion": [{"prompt": [user(q)], "completion": [assistant(a)]} for q, a in both],
        "messages": [{"messages": m} for m in long],
        "conversations": [{"conversations": [{"from": m["role"], "value": m["content"]} for m in chat]} for chat in long],
        "pairs": [{"prompt": q, "chosen": " " + a, "rejected": " " + b} for (q, a), b in zip(both, turned)],
        "pairs without prompt": [{"chosen": f"{q} {a}", "rejected": f"{q} {b}"} for (q, a), b in zip(both, turned)],
        "labelled": [{"prompt": q, "completion": " " + a, "label": i % 3 > 0} for i, (q, a) in enumerate(both)],
        "chat labelled": [{"prompt": [user(q)], "completion": [assistant(a)], "label": i % 2 > 0}
                          for i, (q, a) in enumerate(both)],
        "chat pairs": [{"prompt": [user(q)], "chosen": [assistant(a)], "rejected": [assistant(b)]}
                       for (q, a), b in zip(both, turned)],
        "chat pairs without prompt": [{"chosen": [user(q), assistant(a)], "rejected": [user(q), assistant(b)]}
                                      for (q, a), b in zip(both, turned)],
    }


def make_folder(folder, template):
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.train([str(HERE.parent / "experiments/data/king-james.txt")], tokenizers.trainers.BpeTrainer(
        vocab_size=600, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    made = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
                                   **({"add_bos_token": True} if template == TEMPLATES[0] else {}))
    made.chat_template = (Path(trl.__file__).parent / f"chat_templates/{template}.jinja").read_text()
    made.save_pretrained(folder)
    return PreTrainedTokenizerFast.from_pretrained(folder)


def shifted(labels):
    return [row[1:] + [-100] for row in labels]


def sft(tokenizer, rows, length, truncation, loss, pack):
    """ids, shifted labels and documents by SFTTrainer's preparation and its collator."""
    args = trl.SFTConfig(max_length=length, truncation_mode=truncation, assistant_only_loss=loss == "assistant",
                         shuffle_dataset=False, report_to=[], use_cpu=True)
    trainer = SimpleNamespace(_tokenizer=tokenizer, chat_template=None, completion_only_loss="prompt" in rows[0] and loss != "all",
                              args=args)
    made = trl.SFTTrainer._prepare_dataset(trainer, Dataset.from_list(rows), tokenizer, args, pack, None, "train")
    if not len(made):
        return [], [], None
    if pack:
        documents = [[i for i, n in enumerate(row) for _ in range(n)] for row in made["seq_lengths"]]
        labels = [[-100 if t == 0 or d[t] != d[t - 1] else label for t, label in enumerate(row)]
                  for row, d in zip(made["labels"], documents)]
        return list(made["input_ids"]), shifted(labels), documents
    collated = DataCollatorForLanguageModeling(pad_token_id=tokenizer.pad_token_id)(
        [{key: row[key] for key in ("input_ids", "labels")} for row in made])
    lengths = [len(row) for row in made["input_ids"]]
    return ([row[:n].tolist() for row, n in zip(collated["input_ids"], lengths)],
            shifted([row[:n].tolist() for row, n in zip(collated["labels"], lengths)]), None)


def dpo(tokenizer, rows, length, truncation):
    args = trl.DPOConfig(max_length=length, truncation_mode=truncation, report_to=[], use_cpu=True)
    trainer = SimpleNamespace(_tokenizer=tokenizer, args=args)
    made = trl.DPOTrainer._prepare_dataset(trainer, Dataset.from_list(rows), tokenizer, args, "train")
    if not len(made):
        return [], [], None
    collated = DataCollatorForPreference(pad_token_id=tokenizer.pad_token_id, max_length=length, truncation_mode=truncation)(
        list(made))
    ids, labels = [], []
    for i in range(len(made)):
        for at in (i, len(made) + i):  # chosen, and rejected behind all of these
            n = int(collated["attention_mask"][at].sum())
            row, mask = collated["input_ids"][at][:n], collated["completion_mask"][at][:n]
            ids.append(row.tolist())
            labels.append(row.masked_fill(mask == 0, -100).tolist())
    return ids, shifted(labels), None


def kto(tokenizer, rows, length):
    """Each example, and its prompt with another's completion of three."""
    args = trl.KTOConfig(max_length=length, per_device_train_batch_size=3, report_to=[], use_cpu=True)
    trainer = SimpleNamespace(_tokenizer=tokenizer, args=args, calculate_KL=True, desirable_weight=1.0, undesirable_weight=1.0)
    made = trl.KTOTrainer._prepare_dataset(trainer, Dataset.from_list(rows), tokenizer, args, "train")
    if not len(made):
        return [], [], None
    collated = DataCollatorForUnpairedPreference(pad_token_id=tokenizer.pad_token_id, max_length=length)(list(made))
    ids, labels = [], []
    for i in range(len(made)):
        for kind in ("", "KL_"):
            n = int(collated[f"{kind}attention_mask"][i].sum())
            row, mask = collated[f"{kind}input_ids"][i][:n], collated[f"{kind}completion_mask"][i][:n]
            ids.append(row.tolist())
            labels.append(row.masked_fill(mask == 0, -100).tolist())
    return ids, shifted(labels), None


def ours(folder, rows, options):
    data, out = folder / "data.jsonl", folder / "out.safetensors"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sys.argv = ["tools/tokens", str(data), "--model", str(folder), "--out", str(out), *options]
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            TOKENS.main()
        except SystemExit as error:
            if "no example is left" in str(error):
                return [], [], None
            raise
    made = load_file(out)
    cut = [[row[:n].tolist() for row, n in zip(made[name], made["lengths"])]
           for name in ("ids", "labels", "documents") if name in made]
    return cut[0], cut[1], cut[2] if len(cut) > 2 else None


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    passed, empty, failed = 0, 0, []
    for template in TEMPLATES:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            tokenizer = make_folder(folder, template)
            for name, rows in examples().items():
                chat = "chat" in name or name in ("messages", "conversations")
                if not chat and template != TEMPLATES[0]:
                    continue
                labelled, preference = "labelled" in name, "pairs" in name or "labelled" in name
                settings = [(None, "keep_start", None, False), (40, "keep_start", None, False), (20, "keep_end", None, False)]
                if not preference:
                    settings += [(64, "keep_start", None, True), (None, "keep_start", "all", False)]
                if chat and not preference and template.endswith("_training"):
                    settings += [(None, "keep_start", "assistant", False)]
                for length, truncation, loss, pack in settings[:2] if labelled else settings:
                    options = [*(["--max-length", str(length)] if length else []),
                               *(["--pack"] if pack else ["--truncation", truncation]), *(["--loss", loss] if loss else []), "--kto-batch", "3"]
                    theirs = (kto(tokenizer, rows, length) if labelled else dpo(tokenizer, rows, length, truncation) if preference
                              else sft(tokenizer, rows, length, truncation, loss, pack))
                    if ours(folder, rows, options) == theirs:
                        passed, empty = passed + 1, empty + (not theirs[0])
                    else:
                        failed.append(f"{template}: {name} {' '.join(options)}")
    for line in failed:
        print(f"differs from TRL's: {line}")
    print(f"tokens against TRL: {passed} passed ({empty} of which leave no example), {len(failed)} failed")
    sys.exit(bool(failed) or empty > passed / 10)


if __name__ == "__main__":
    main()
