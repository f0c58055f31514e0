#!/usr/bin/env python3
"""golden.py - the outputs of tests/golden, from Transformers in float32 with eager attention.

    golden.py write NAME...           golden.safetensors from config.json and weights.json
    golden.py describe FOLDER NAME... config.json and weights.json like those of FOLDER/NAME, a checkpoint,
                                      with outputs or without; then write NAME
    golden.py vary NAME NEW KEY=JSON...  NEW, like the golden NAME with other values in its config.json; KEY=
                                      takes one out; then write NEW
    golden.py check FOLDER NAME...    compares the outputs in FOLDER/NAME with what is computed from the
                                      model.safetensors there

A seed is taken when all that depends on a choice is clear: each greedy id leads by 2 % of the standard
deviation of the logits, they are not all one or two tokens, and a change of the embeddings by 1e-6 moves
no output by more than 2e-4 of its deviation. write tries the seed of weights.json and those behind it,
and writes down the one it took.
"""

import json
import re
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import golden_assistant
import golden_embedding
import golden_mtp
import golden_text
import golden_vision
import golden_weights as gw
import numpy as np
import torch
import transformers

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"
MARGIN, NUDGE, MOVED = 0.02, 1e-6, 2e-4
LEAST_IDS = 3  # different ones among the new tokens
PROMPT = 80  # of a checkpoint without outputs
EQUAL_STD = 0.2  # of tensors whose numbers are all the same
REFERENCES = {
    "text": golden_text,
    "embedding": golden_embedding,
    "mtp": golden_mtp,
    "assistant": golden_assistant,
    "vision": golden_vision,
}
OWN = {"pooled": "embedding", "mtp_logits": "mtp", "r0_bonus": "assistant", "image_u8": "vision"}  # outputs by which one knows it
WHOLE = ("llama", "gemma3")  # all rows of the prompt are kept, of the others the last


def reference_of(golden):
    names = [name for key, name in OWN.items() if key in golden]
    return REFERENCES[names[0] if names else "text"]


def nudge(model):
    """Embeddings a little longer or shorter, number by number."""
    table = model.get_input_embeddings().weight
    noise = torch.tensor(gw.uniform("nudge", 1, table.numel()).reshape(table.shape) * 2 - 1)
    with torch.no_grad():
        table.mul_((1 + NUDGE * noise).to(table.dtype))


def in_deviations(a, b, unit):
    """The largest difference, in standard deviations of unit."""
    return float(np.abs(a.astype(np.float64) - b).max() / unit.astype(np.float64).std())


def margins(found, chosen):
    """By how much each greedy id leads, in standard deviations."""
    least = np.inf
    for logits in (found[key] for key in chosen):
        best = np.sort(logits.astype(np.float64), axis=-1)[..., -2:]
        least = min(least, float((best[..., 1] - best[..., 0]).min() / logits.std()))
    return least


def clear(reference, folder, given, weights):
    """What is kept of the outputs when nothing in it hangs on a near tie, or None."""
    found = reference.kept(reference.outputs(folder, given), weights)
    n_ids = len(set(found.get("gen_ids", range(LEAST_IDS))))
    if margins(found, reference.CHOSEN) < MARGIN or n_ids < LEAST_IDS:
        return None
    other = reference.kept(reference.outputs(folder, given, nudge), weights)
    for key, values in found.items():
        if values.dtype != np.float32:
            if not np.array_equal(values, other[key]):
                return None
        elif in_deviations(values, other[key], values) > MOVED:
            return None
    return found


def as_rows(found):
    kinds = {np.dtype(np.float32): "F32", np.dtype(np.int32): "I32", np.dtype(np.uint8): "U8"}
    return {name: (kinds[values.dtype], values) for name, values in found.items()}


def parts_of(folder, file):
    """Where a golden has checkpoints: in its folder, or in folders of that."""
    parts = [path.parent.relative_to(folder) for path in sorted(folder.rglob(file))]
    if not parts:
        raise ValueError(f"{folder}: no {file}")
    return parts


def attempt(folder, parts, reference):
    """Its inputs and outputs with the seed that is there, or None."""
    with tempfile.TemporaryDirectory() as scratch:
        for part, weights in parts.items():
            place = Path(scratch) / part
            place.mkdir(exist_ok=True)
            shutil.copy(folder / part / "config.json", place)
            gw.write(place / "model.safetensors", gw.tensors(weights))
        given = reference.inputs(Path(scratch), spec_of(parts))
        found = clear(reference, Path(scratch), given, spec_of(parts))
    return None if found is None else given | found


def spec_of(parts):
    """The part that says what is computed."""
    return next(weights for weights in parts.values() if "reference" in weights)


def write(name):
    folder = GOLDEN / name
    parts = {
        part: json.loads((folder / part / "weights.json").read_text(encoding="utf-8"))
        for part in parts_of(folder, "weights.json")
    }
    reference = REFERENCES[spec_of(parts)["reference"]]
    first = spec_of(parts)["seed"]
    for seed in range(first, first + 200):
        for weights in parts.values():
            weights["seed"] = seed
        found = attempt(folder, parts, reference)
        if found is not None:
            break
    else:
        raise ValueError(f"{name}: no seed from {first} to {seed} is clear")
    for part, weights in parts.items():
        gw.dump(folder / part / "weights.json", weights)
    gw.write(folder / "golden.safetensors", as_rows(found))
    n_ids = len(set(found["gen_ids"].tolist())) if "gen_ids" in found else 0
    print(f"{name}: seed {seed}, {n_ids} different new tokens", flush=True)


def outputs_of(folder):
    path = folder / "golden.safetensors"
    if not path.exists():
        return {"input_ids": range(PROMPT)}
    return {key: values for key, (_, values) in gw.read(path).items()}


def loosen(rows):
    """A model that was not trained has norms of 1 and biases of 0: a forgotten one would not show."""
    for row in rows:
        if row.get("std") == 0 and np.prod(row["shape"]) > 1:
            row["std"] = EQUAL_STD
    return rows


def describe(source, name):
    folder = GOLDEN / name
    golden = outputs_of(source / name)
    spec = reference_of(golden).spec(golden)
    if name in WHOLE:
        del spec["rows"]
    for part in reversed(parts_of(source / name, "model.safetensors")):
        (folder / part).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name / part / "config.json", folder / part / "config.json")
        tensors = loosen(gw.describe(gw.read(source / name / part / "model.safetensors")))
        gw.dump(folder / part / "weights.json", {"seed": 1, **spec, "tensors": tensors})
        spec = {}
    write(name)


def guessed(name, rows):
    """Statistics for a tensor that the model it was varied from does not have."""
    ends = [".".join(name.rsplit(".", 2)[-2:])]
    if name.endswith(".weight"):
        ends += [end for end in ("norm.weight", "_proj.weight") if end[: end.index(".")] in name]
        ends.append("embed_tokens.weight")
    like = [row for end in ends for row in rows if row["name"].endswith(end)]
    if like:
        return {"mean": like[0]["mean"], "std": like[0]["std"]}
    if name.endswith(".bias"):
        return {"mean": 0.0, "std": 0.1}
    raise ValueError(f"{name}: nothing like it")


def vary(name, new, changes):
    folder = GOLDEN / new
    folder.mkdir(exist_ok=True)
    config = json.loads((GOLDEN / name / "config.json").read_text(encoding="utf-8"))
    for change in changes:
        key, _, value = change.partition("=")
        config.pop(key, None)
        if value:
            config[key] = json.loads(value)
    text = json.dumps(config, indent=2, sort_keys=True)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")
    weights = json.loads((GOLDEN / name / "weights.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(folder))
        model.save_pretrained(scratch)
        found = gw.read(Path(scratch) / "model.safetensors")
    known = {row["name"]: row for row in weights["tensors"]}
    rows = []
    for tensor, (_, values) in found.items():
        row = {"name": tensor, "dtype": "BF16", "shape": list(values.shape)}
        same = known.get(tensor) or guessed(tensor, weights["tensors"])
        rows.append(row | {key: same[key] for key in ("mean", "std")})
    gw.dump(folder / "weights.json", weights | {"seed": 1, "rows": 8, "tensors": rows})
    write(new)


def check(source, name):
    """Whether this oracle gives what is written, in deviations of each output."""
    written = {key: values for key, (_, values) in gw.read(source / name / "golden.safetensors").items()}
    found = reference_of(written).outputs(source / name, written)
    if "logits_last" in written:
        found["logits_last"] = found["logits"][-len(written["logits_last"]) :]
    worst = {}
    for key, values in written.items():
        if key in found and values.dtype != np.float32:
            worst[key] = 0.0 if np.array_equal(values, found[key]) else np.inf
        elif key in found:
            worst[key] = in_deviations(values, found[key], values)
        elif values.dtype == np.float32 and not re.fullmatch(r"hidden_\d+", key):
            raise ValueError(f"{name}: no output '{key}'")
    print(f"{name}: " + ", ".join(f"{key} {value:.1e}" for key, value in worst.items()), flush=True)
    return max(worst.values()) < 5e-4


def main():
    warnings.simplefilter("ignore", FutureWarning)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    words = sys.argv[1:]
    if len(words) > 1 and words[0] == "write":
        for name in words[1:]:
            write(name)
    elif len(words) > 2 and words[0] == "describe":
        for name in words[2:]:
            describe(Path(words[1]), name)
    elif len(words) > 3 and words[0] == "vary":
        vary(words[1], words[2], words[3:])
    elif len(words) > 2 and words[0] == "check":
        wrong = [name for name in words[2:] if not check(Path(words[1]), name)]
        if wrong:
            print("wrong:", *wrong)
        return 1 if wrong else 0
    else:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
