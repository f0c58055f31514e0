"""golden_assistant.py - a Gemma 4 text model and two heads that draft for it out of its keys and values.

A golden has three checkpoints: target/, assistant/ and assistant-centroid/. Round 0 is the prompt, round 1
its beginning, inside the window, and round 2 round 0 with the keys of the last sliding layer cut to the
window, as a cache holds them. Every step is at the position behind the prompt."""

import golden_text as text
import golden_weights as gw
import numpy as np
import torch
from transformers import AutoModelForCausalLM, Gemma4AssistantForCausalLM

N_DRAFTS, N_SHORT = 5, 17
HEADS = {"": "assistant", "c_": "assistant-centroid"}
CHOSEN = tuple(f"{prefix}r{i}_draft_logits" for prefix in HEADS for i in range(3)) + (
    "r0_target_logits",
    "r1_target_logits",
)


def spec(golden):
    return {"reference": "assistant", "prompt": len(golden["input_ids"])}


def inputs(folder, weights):
    vocabulary = text.vocabulary(folder / "target")
    return {"input_ids": gw.ids("input_ids", weights["seed"], weights["prompt"], vocabulary)}


def read_prompt(target, ids):
    """Logits and final hidden state of the last token; keys and values of each kind's last layer."""
    given = torch.tensor(ids[None], dtype=torch.long)
    out = target(input_ids=given, use_cache=False, output_hidden_states=True, return_shared_kv_states=True)
    return out.logits[0, -1], out.hidden_states[-1][:, -1:], dict(out.shared_kv_states)


def draft(target, head, n, bonus, hidden, states):
    """Drafts behind a prompt of n tokens."""
    token, rows, hiddens = int(bonus), [], [hidden]
    for _ in range(N_DRAFTS):
        embedded = target.get_input_embeddings()(torch.tensor([[token]]))
        out = head(
            inputs_embeds=torch.cat([embedded, hiddens[-1]], dim=-1),
            position_ids=torch.tensor([[n]]),
            shared_kv_states=states,
        )
        rows.append(text.numbers(out.logits[0, -1]))
        hiddens.append(out.last_hidden_state)
        token = int(rows[-1].argmax())
    return np.stack(rows), text.numbers(torch.cat(hiddens, dim=1)[0])


def outputs(folder, given, nudge=None):
    target = text.load(folder / "target", AutoModelForCausalLM)
    heads = {prefix: text.load(folder / name, Gemma4AssistantForCausalLM) for prefix, name in HEADS.items()}
    if nudge:
        nudge(target)
        for head in heads.values():
            nudge(head)
    window = target.config.sliding_window
    found = {}
    for i in range(3):
        ids = given["input_ids"][: N_SHORT if i == 1 else None]
        logits, hidden, states = read_prompt(target, ids)
        if i == 2:
            cut = [t[:, :, -window:] for t in states["sliding_attention"]]
            states["sliding_attention"] = tuple(cut)
        else:
            found[f"r{i}_target_logits"] = text.numbers(logits)
            found[f"r{i}_bonus"] = text.int32([logits.argmax()])
            for kind in ("sliding", "full"):
                for side, t in zip("kv", states[f"{kind}_attention"], strict=True):
                    found[f"r{i}_{kind}_{side}"] = text.numbers(t[0])
        for prefix, head in heads.items():
            rows, hiddens = draft(target, head, len(ids), logits.argmax(), hidden, states)
            found[f"{prefix}r{i}_draft_logits"] = rows
            found[f"{prefix}r{i}_draft_ids"] = text.int32(rows.argmax(axis=1))
            found[f"{prefix}r{i}_hidden"] = hiddens
    return found


def kept(found, _):
    """Keys and values are the target's own and follow from its weights."""
    return {key: value for key, value in found.items() if "_sliding_" not in key and "_full_" not in key}
