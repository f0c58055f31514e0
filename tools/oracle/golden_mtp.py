"""golden_mtp.py - a Qwen 3.5 text model and the head that drafts for it, which Transformers leaves out.

The head joins its own full-attention layer: fc([norm(embedding), norm(hidden)]), layer, norm, and the
model's own output matrix. Row i has the model's final hidden state i and token i + 1. It drafts on with
its own normed output in the place of the hidden state, its keys and values kept."""

import golden_text as text
import golden_weights as gw
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

N_NEW, N_DRAFTS = 16, 4
CHOSEN = ("gen_logits", "draft_logits")
HEAD = "mtp."


def spec(golden):
    return {"reference": "mtp", "prompt": len(golden["input_ids"])}


inputs = text.inputs


class Head:
    """The drafting head, built of the model's own kinds of layer and norm."""

    def __init__(self, model, folder):
        config = AutoConfig.from_pretrained(folder, attn_implementation="eager")
        config.layer_types = ["full_attention"]
        config.num_hidden_layers = 1
        inner = model.model
        norm = type(inner.norm)
        self.model = model
        self.layer = type(inner.layers[0])(config, 0)
        self.fc = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        parts = {"layers.0.": self.layer, "fc.": self.fc}
        for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
            parts[name + "."] = norm(config.hidden_size, eps=config.rms_norm_eps)
            setattr(self, name, parts[name + "."])
        stored = {
            name[len(HEAD) :]: torch.tensor(gw.from_bf16(bits))
            for name, (_, bits) in gw.read(folder / "model.safetensors").items()
            if name.startswith(HEAD)
        }
        for prefix, part in parts.items():
            own = {name[len(prefix) :]: value for name, value in stored.items() if name.startswith(prefix)}
            part.load_state_dict(own)
            part.eval()
            stored = {name: value for name, value in stored.items() if not name.startswith(prefix)}
        if stored:
            raise ValueError(f"{folder}: left over: {sorted(stored)}")

    def __call__(self, ids, hidden):
        """All rows at once: the normed output and its logits."""
        embedded = self.pre_fc_norm_embedding(self.model.get_input_embeddings()(ids))
        x = self.fc(torch.cat([embedded, self.pre_fc_norm_hidden(hidden)], dim=-1))[None]
        n = len(ids)
        positions = torch.arange(n).view(1, 1, -1).expand(3, 1, -1)
        angles = self.model.model.rotary_emb(x, positions)
        mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
        out = self.norm(self.layer(x, position_embeddings=angles, attention_mask=mask))[0]
        return out, self.model.lm_head(out)


def load(folder):
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    others = [name for name in info["unexpected_keys"] if not name.startswith(HEAD)]
    if info["missing_keys"] or others:
        raise ValueError(f"{folder}: {info}")
    return model.eval()


def outputs(folder, given, nudge=None):
    model = load(folder)
    if nudge:
        nudge(model)
    ids = torch.tensor(given["input_ids"], dtype=torch.long)
    hidden = model.model(input_ids=ids[None]).last_hidden_state[0]
    logits, gen_ids, gen_logits = text.decode(model, given["input_ids"], N_NEW)
    head = Head(model, folder)
    seen_ids, seen_hidden = torch.cat([ids[1:], torch.tensor(gen_ids[:1]).long()]), hidden
    out, mtp_logits = head(seen_ids, seen_hidden)
    mtp_hidden = out
    draft_rows = [text.numbers(mtp_logits[-1])]
    for _ in range(N_DRAFTS - 1):
        seen_ids = torch.cat([seen_ids, torch.tensor([int(draft_rows[-1].argmax())])])
        seen_hidden = torch.cat([seen_hidden, out[-1:]])
        out, more = head(seen_ids, seen_hidden)
        draft_rows.append(text.numbers(more[-1]))
    return {
        "hidden_final": text.numbers(hidden),
        "logits": logits,
        "gen_ids": gen_ids,
        "gen_logits": gen_logits,
        "mtp_hidden": text.numbers(mtp_hidden),
        "mtp_logits": text.numbers(mtp_logits),
        "draft_ids": text.int32([row.argmax() for row in draft_rows]),
        "draft_logits": np.stack(draft_rows),
    }


def kept(found, _):
    left_out = ("hidden_final", "mtp_hidden")
    return {key: value for key, value in found.items() if key not in left_out}
