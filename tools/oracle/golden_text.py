"""golden_text.py - what Transformers computes with a text model: a prompt, and greedy decoding."""

import golden_weights as gw
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

N_NEW = 24
CHOSEN = ("gen_logits",)


def spec(golden):
    """What weights.json says beside the tensors, of a golden with these outputs."""
    return {"reference": "text", "prompt": len(golden["input_ids"]), "rows": 8}


def load(folder, auto=AutoModelForCausalLM):
    """The model in f32; all that the file has must be used, and all that the model has be there."""
    model, info = auto.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    for key, names in info.items():
        if names:
            raise ValueError(f"{folder}: {key}: {sorted(map(str, names))[:8]}")
    return model.eval()


def numbers(t):
    return t.detach().to(torch.float32).contiguous().numpy()


def int32(values):
    return np.asarray(values, dtype=np.int32)


def vocabulary(folder):
    config = AutoConfig.from_pretrained(folder)
    return config.get_text_config().vocab_size


def inputs(folder, weights):
    """The prompt of a golden."""
    return {"input_ids": gw.ids("input_ids", weights["seed"], weights["prompt"], vocabulary(folder))}


def greedy(step, logits, n_new):
    """step(id, i) gives the logits behind the i-th new token; logits: those of the last token."""
    new_ids, rows = [], []
    for i in range(n_new):
        rows.append(logits)
        new_ids.append(int(logits.argmax()))
        if i + 1 < n_new:
            logits = step(new_ids[-1], i)
    return int32(new_ids), np.stack(rows)


def decode(model, prompt, n_new, **given):
    """Logits of the prompt in one pass, then greedy decoding with a cache."""
    out = model(input_ids=torch.tensor(prompt[None], dtype=torch.long), use_cache=True, **given)
    cache = out.past_key_values

    def step(token, _):
        nonlocal cache
        more = model(input_ids=torch.tensor([[token]]), past_key_values=cache, use_cache=True)
        cache = more.past_key_values
        return numbers(more.logits[0, -1])

    logits = numbers(out.logits[0])
    return logits, *greedy(step, logits[-1], n_new)


def outputs(folder, given, nudge=None):
    """nudge(model) may change the weights before anything is computed."""
    model = load(folder)
    if nudge:
        nudge(model)
    logits, gen_ids, gen_logits = decode(model, given["input_ids"], N_NEW)
    return {"logits": logits, "gen_ids": gen_ids, "gen_logits": gen_logits}


def kept(found, weights):
    """What goes into the file: all rows of the prompt, or its last ones."""
    rows = weights.get("rows")
    if rows is not None:
        found = {"logits_last" if key == "logits" else key: value for key, value in found.items()}
        found["logits_last"] = found["logits_last"][-rows:]
    return found
