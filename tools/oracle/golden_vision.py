"""golden_vision.py - text models with images: what becomes of the pixels, what the tower makes of them,
and the text behind them. Qwen 3.5, Gemma 4 with a tower, and without one (gemma4_unified)."""

import golden_text as text
import golden_weights as gw
import json
import numpy as np
import torch
from transformers import AutoModelForImageTextToText

N_NEW = 24
CHOSEN = ("gen_logits",)


def spec(golden):
    """Heights and widths of the images, and how many tokens of text stand before, between and behind."""
    images = [golden[key].shape[:2] for key in ("image_u8", "image2_u8") if key in golden]
    ids = golden["two_input_ids" if len(images) == 2 else "input_ids"]
    texts, n = [], 0
    for token in ids.tolist():
        if token >= FIRST_SPECIAL:
            if n > 0:
                texts.append(n)
            n = 0
        else:
            n += 1
    return {"reference": "vision", "images": images, "texts": [*texts, n]}


FIRST_SPECIAL = 120  # of the vocabularies here


class Form:
    """What the families do with pixels and ids."""

    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        vision = config["vision_config"]
        self.qwen = config["model_type"] == "qwen3_5"
        self.unified = config["model_type"] == "gemma4_unified"
        self.token = config["image_token_id"]
        self.begin = config["vision_start_token_id"] if self.qwen else config["boi_token_id"]
        self.end = config["vision_end_token_id"] if self.qwen else config.get("eoi_token_id", self.begin + 1)
        self.patch = vision["patch_size"]
        self.pool = vision["spatial_merge_size"] if self.qwen else vision["pooling_kernel_size"]
        if self.unified:
            self.patch, self.pool = self.patch * self.pool, 1
        self.frames = vision.get("temporal_patch_size", 1)

    def n_tokens(self, height, width):
        return height // self.patch // self.pool * (width // self.patch // self.pool)

    def pixels(self, image):
        """Patches as rows."""
        height, width, _ = image.shape
        rows, columns, p, m = height // self.patch, width // self.patch, self.patch, self.pool
        x = image.astype(np.float32) / np.float32(255)
        if not self.qwen:
            x = x.reshape(rows, p, columns, p, 3).transpose(0, 2, 1, 3, 4)
            return np.ascontiguousarray(x.reshape(rows * columns, p * p * 3))
        x = (x - np.float32(0.5)) / np.float32(0.5)
        x = x.reshape(rows // m, m, p, columns // m, m, p, 3).transpose(0, 3, 1, 4, 6, 2, 5)
        x = np.repeat(x[:, :, :, :, :, None], self.frames, axis=5)
        return np.ascontiguousarray(x.reshape(rows * columns, -1))

    def places(self, image):
        """Qwen: frames, rows and columns of patches; Gemma: x and y of each."""
        rows, columns = image.shape[0] // self.patch, image.shape[1] // self.patch
        if self.qwen:
            return text.int32([[1, rows, columns]])
        return text.int32([(x, y) for y in range(rows) for x in range(columns)])


def inputs(folder, weights):
    form, seed = Form(folder), weights["seed"]
    given, ids = {}, []
    words = gw.ids("input_ids", seed, sum(weights["texts"]), FIRST_SPECIAL - 3) + 3
    for i, (height, width) in enumerate(weights["images"]):
        suffix = "2" if i else ""
        name = f"image{suffix}_u8"
        n = height * width * 3
        given[name] = gw.ids(name, seed, n, 256).astype(np.uint8).reshape(height, width, 3)
        before, words = np.split(words, [weights["texts"][i]])
        ids += [*before, form.begin, *[form.token] * form.n_tokens(height, width), form.end]
        if i == 0:
            given["input_ids"] = text.int32([*ids, *words[: weights["texts"][1]]])
    if len(weights["images"]) == 2:
        given["two_input_ids"] = text.int32([*ids, *words])
    return given


def arguments(form, ids, images):
    """Those of the model's forward for a prompt with images."""
    kinds = torch.tensor((ids == form.token)[None].astype(np.int64))
    pixels = [torch.tensor(form.pixels(image)) for image in images]
    places = [torch.tensor(form.places(image), dtype=torch.long) for image in images]
    given = {"mm_token_type_ids": kinds}
    if form.qwen:
        return given | {"pixel_values": torch.cat(pixels), "image_grid_thw": torch.cat(places)}
    return given | {"pixel_values": torch.stack(pixels), "image_position_ids": torch.stack(places)}


def causal_masks(ids, form, window):
    """Image tokens see each other in sliding layers only."""
    n = len(ids)
    q, k = torch.arange(n)[:, None], torch.arange(n)[None]
    image = torch.tensor(ids == form.token)
    causal = k <= q
    sliding = (causal & (q - k < window)) | (image[:, None] & image[None])
    least = torch.finfo(torch.float32).min
    add = [torch.where(mask, 0.0, least)[None, None] for mask in (causal, sliding)]
    return {"full_attention": add[0], "sliding_attention": add[1]}


def positions(model, found, prefix, ids, given):
    """Positions of a prompt with images, of Qwen."""
    at, delta = model.model.get_rope_index(
        torch.tensor(ids[None], dtype=torch.long), given["mm_token_type_ids"], image_grid_thw=given["image_grid_thw"]
    )
    found[prefix + "position_ids"] = text.int32(at[:, 0].numpy())
    found[prefix + "rope_delta"] = text.int32(delta[0].numpy())


def qwen(model, form, given, found):
    for suffix in ("", "2") if "image2_u8" in given else ("",):
        image = given[f"image{suffix}_u8"]
        found["pixel_values" + suffix] = form.pixels(image)
        found["image_grid_thw" + suffix] = form.places(image)
    own = arguments(form, given["input_ids"], [given["image_u8"]])
    features = model.model.get_image_features(own["pixel_values"], own["image_grid_thw"])
    found["vision_out"] = text.numbers(features.last_hidden_state)
    found["image_features"] = text.numbers(torch.cat(list(features.pooler_output)))
    positions(model, found, "", given["input_ids"], own)
    if "two_input_ids" in given:
        ids = given["two_input_ids"]
        both = arguments(form, ids, [given["image_u8"], given["image2_u8"]])
        positions(model, found, "two_", ids, both)
        out = model(input_ids=torch.tensor(ids[None], dtype=torch.long), use_cache=False, **both)
        found["two_logits"] = text.numbers(out.logits[0])


def gemma(model, form, given, found):
    ids = given["input_ids"]
    own = arguments(form, ids, [given["image_u8"]])
    found["image_position_ids"] = form.places(given["image_u8"])
    found["mm_token_type_ids"] = text.int32(ids == form.token)
    features = model.model.get_image_features(own["pixel_values"], own["image_position_ids"])
    if not form.unified:
        found["vision_out"] = text.numbers(features.last_hidden_state)
    found["image_features"] = text.numbers(torch.cat(list(features.pooler_output)))
    long_ids = torch.tensor(ids[None], dtype=torch.long)
    found["hidden_last"] = text.numbers(model.model(input_ids=long_ids, **own).last_hidden_state[0])
    if form.unified:
        masks = causal_masks(ids, form, model.config.get_text_config().sliding_window)
        out = model(input_ids=long_ids, attention_mask=masks, use_cache=False, **own)
        found["logits_full_causal"] = text.numbers(out.logits[0])


def outputs(folder, given, nudge=None):
    form = Form(folder)
    model = text.load(folder, AutoModelForImageTextToText)
    if nudge:
        nudge(model)
    found = {}
    (qwen if form.qwen else gemma)(model, form, given, found)
    own = arguments(form, given["input_ids"], [given["image_u8"]])
    found["logits"], found["gen_ids"], found["gen_logits"] = text.decode(model, given["input_ids"], N_NEW, **own)
    return found


def kept(found, _):
    return found
