#!/usr/bin/env python3
"""mlx_compare.py - weft convert against mlx-lm: the same bytes, and the same logits either way round.

    tools/mlx_compare.py [--weft build/release/weft] [--bits N] [--group N] [--mode NAME] MODEL...

MODEL is a folder in Hugging Face's form; its vocabulary has at least 64 tokens. Run it with a Python that has
mlx[cpu] and mlx-lm. For each model three figures and one comparison:

  bytes   what weft convert writes, and what mlx-lm's quantize_model makes of the same checkpoint: names, types,
          shapes and bytes of every tensor
  logits  of a prompt of 48 tokens: mlx-lm and weft on what weft wrote, and on what mlx-lm wrote; the largest
          difference, in units of the logits' standard deviation. Both in f32: the conversions have --type f32

Where mlx-lm does not understand the model's own config.json (Transformers 5 leaves out what it wants), its side is made
again with the one that weft wrote; the last column says so. The exit status is 0 if all bytes are the same and no difference is above 1e-3.
"""

import argparse
import glob
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map_with_path
from mlx_lm.utils import load_model, quantize_model, save_config, save_model

ROOT = Path(__file__).resolve().parent.parent
TOKENS = 48
BOUND = 1e-3


def run(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"mlx_compare.py: {' '.join(map(str, words))}: {done.stderr.decode('utf-8', 'replace').strip()}")


def tensors(folder):
    """name -> dtype, shape, bytes"""
    found = {}
    for path in sorted(glob.glob(f"{folder}/model*.safetensors")):
        data = Path(path).read_bytes()
        n = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8 : 8 + n]).items():
            if name != "__metadata__":
                first, end = entry["data_offsets"]
                found[name] = (entry["dtype"], entry["shape"], data[8 + n + first : 8 + n + end])
    return found


def with_config(model, config_from, folder):
    """The model's weights beside the config that weft wrote, as if nothing was quantized."""
    folder.mkdir()
    config = json.loads((config_from / "config.json").read_text(encoding="utf-8"))
    for key in ("quantization", "quantization_config"):
        config.pop(key, None)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for path in glob.glob(f"{model}/model*.safetensors"):
        shutil.copy(path, folder)
    return folder


def convert_mlx(model, target, args, f32):
    net, config = load_model(model)
    if f32:
        net.update(tree_map_with_path(lambda _, x: x.astype(mx.float32), net.parameters()))
    net, config = quantize_model(net, config, args.group, args.bits, mode=args.mode)
    target.mkdir()
    save_model(target, net)
    save_config(config, target / "config.json")


def convert_weft(model, target, args, f32):
    words = [args.weft, "convert", model, target, "--bits", args.bits, "--group", args.group, "--mode", args.mode]
    run(*words, *(["--type", "f32"] if f32 else []))


def logits_mlx(folder, ids):
    net, _ = load_model(folder)
    return np.array(net(mx.array([ids]))[0].astype(mx.float32))


def logits_weft(folder, ids, args, scratch):
    out = scratch / "logits.safetensors"
    run(args.weft, "logits", folder, "--ids", ",".join(map(str, ids)), "--act", "f32", "--out", out)
    return np.array(mx.load(str(out))["logits"])


def apart(a, b):
    return float(np.abs(a.astype(np.float64) - b).max() / b.std())


def compare_with(model, ids, args, scratch):
    """Tensors of mlx-lm's conversion, and how far apart both programs are on one in f32."""
    scratch.mkdir()
    convert_mlx(model, scratch / "mlx", args, False)
    convert_mlx(model, scratch / "mlx-f32", args, True)
    folder = scratch / "mlx-f32"
    return tensors(scratch / "mlx"), apart(logits_weft(folder, ids, args, scratch), logits_mlx(folder, ids))


def compare(model, args, scratch):
    weft, weft_f32 = scratch / "weft", scratch / "weft-f32"
    convert_weft(model, weft, args, False)
    convert_weft(model, weft_f32, args, True)
    config = json.loads((weft / "config.json").read_text(encoding="utf-8"))
    n_vocab = config.get("text_config", config)["vocab_size"]
    ids = [int(id) for id in np.random.default_rng(1).integers(3, min(n_vocab, 32768), TOKENS)]
    try:
        on_weft = apart(logits_weft(weft_f32, ids, args, scratch), logits_mlx(weft_f32, ids))
    except Exception as failure:
        print(f"| {model.name} | mlx-lm: {type(failure).__name__}: {str(failure)[:80]} | | | |", flush=True)
        return False
    whose = "its own"
    try:
        made, on_mlx = compare_with(model, ids, args, scratch / "own")
    except Exception as failure:  # whatever a model class raises for a config that it does not take
        made, on_mlx = {}, float("inf")
        print(f"{model.name}: {type(failure).__name__}: {str(failure)[:120]}", file=sys.stderr)
    if on_mlx > BOUND:
        whose = "weft's"
        said = with_config(model, weft, scratch / "said")
        try:
            made, on_mlx = compare_with(said, ids, args, scratch / "as-said")
        except Exception as failure:
            print(f"| {model.name} | mlx-lm cannot convert it: {type(failure).__name__} | {on_weft:.1e} | | |", flush=True)
            return False
    ours = tensors(weft)
    different = sorted(name for name in ours.keys() | made.keys() if ours.get(name) != made.get(name))
    same = "same bytes" if not different else f"{len(different)} differ, {different[0]} first"
    print(f"| {model.name} | {len(ours)} tensors, {same} | {on_weft:.1e} | {on_mlx:.1e} | {whose} |", flush=True)
    return not different and max(on_weft, on_mlx) <= BOUND


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", default=ROOT / "build/release/weft", type=Path)
    parser.add_argument("--bits", default=4, type=int)
    parser.add_argument("--group", default=32, type=int)
    parser.add_argument("--mode", default="affine")
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    print("| model | bytes | logits of weft's | of mlx-lm's | config |\n|---|---|---|---|---|")
    fine = True
    for model in args.models:
        with tempfile.TemporaryDirectory() as scratch:
            fine = compare(model, args, Path(scratch)) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
