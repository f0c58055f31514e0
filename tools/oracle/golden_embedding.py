"""golden_embedding.py - what Transformers computes with an embedding model: hidden states of texts of
several lengths, each alone, and the pooled vector, as the models' cards say: of bert the mean, of the
others the last token; brought to length 1."""

import golden_text as text
import golden_weights as gw
import numpy as np
import torch
from transformers import AutoModel

CHOSEN = ()


def spec(golden):
    return {"reference": "embedding", "lengths": golden["attention_mask"].sum(axis=1).tolist()}


def inputs(folder, weights):
    lengths = weights["lengths"]
    shape = (len(lengths), max(lengths))
    mask = (np.arange(shape[1]) < np.array(lengths)[:, None]).astype(np.int32)
    ids = gw.ids("input_ids", weights["seed"], mask.size, text.vocabulary(folder)).reshape(shape)
    return {"input_ids": ids * mask, "attention_mask": mask}


def outputs(folder, given, nudge=None):
    model = text.load(folder, AutoModel)
    if nudge:
        nudge(model)
    mask = given["attention_mask"]
    hidden = np.zeros((*mask.shape, model.config.hidden_size), np.float32)
    pooled = []
    for row, n in enumerate(mask.sum(axis=1)):
        ids = torch.tensor(given["input_ids"][row : row + 1, :n], dtype=torch.long)
        states = model(input_ids=ids).last_hidden_state[0]
        hidden[row, :n] = text.numbers(states)
        one = states.mean(0) if model.config.model_type == "bert" else states[-1]
        pooled.append(text.numbers(one / one.norm()))
    return {"hidden": hidden, "pooled": np.stack(pooled)}


def kept(found, _):
    return found
