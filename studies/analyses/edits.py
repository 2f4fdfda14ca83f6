"""How similar an encoder finds a sentence and an edited one (ESimCSE, Wu et al. 2022, Table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from gradlab import GradlabError
from gradlab.encoder import Encoder
from gradlab.evaluate import cosines
from gradlab.plotting import Table, rounded
from gradlab.seeds import random_generator
from gradlab.train import SentenceAugmentation, get_augmentation

EDITS = ("random_insertion", "random_deletion", "word_repetition", "subword_repetition")


def edited_similarities(
    encoder: Encoder,
    sentences: Sequence[str],
    edits: Sequence[str] = EDITS,
    *,
    draws: int = 4,
    seed: int = 0,
    progress: bool = False,
) -> Table:
    """Cosines of sentences with edited versions of themselves, without dropout.

    The paper shows one sentence; here are the mean and the spread over many, and over several draws
    of the edit.

    Args:
        edits: augmentations of ids or text, by name, with settings as in
            ``"random_deletion(rate=0.2)"``.
        draws: edited versions of each sentence.
        seed: of the edits.

    Returns:
        A row an edit: ``edit``, ``similarity`` (mean cosine), ``deviation`` (standard deviation
        over sentences and draws), ``lowest`` (5th percentile), ``length`` (mean change in tokens),
        ``unchanged`` (share of versions that equal the sentence).

    Raises:
        GradlabError: without sentences, or for an augmentation of embeddings.
    """
    if not len(sentences):
        raise GradlabError("there is no sentence to edit")
    tokenizer, longest = encoder.tokenizer, encoder.max_length
    ids_of = tokenizer(list(sentences), truncation=True, max_length=longest)["input_ids"]
    sequences = [np.array(ids, dtype=np.int64) for ids in ids_of]
    originals = embed_ids(encoder, sequences)
    rows = []
    for edit in tqdm(edits, desc="Editing", unit="edit", disable=not progress):
        augmentation = get_augmentation(edit, tokenizer=tokenizer, longest=longest)
        if not isinstance(augmentation, SentenceAugmentation):
            raise GradlabError(
                f"{edit} changes embeddings, no sentence; choose out of {', '.join(EDITS)}"
            )
        generator = random_generator(seed)
        views = [augmentation.batch(sequences, generator) for _ in range(draws)]
        similar = np.concatenate([cosines(originals, embed_ids(encoder, view)) for view in views])
        pairs = [pair for view in views for pair in zip(view, sequences, strict=True)]
        rows.append(
            {
                "edit": edit,
                "similarity": similar.mean(),
                "deviation": similar.std(ddof=1) if len(similar) > 1 else np.nan,
                "lowest": np.quantile(similar, 0.05),
                "length": np.mean([len(edited) - len(ids) for edited, ids in pairs]),
                "unchanged": np.mean([np.array_equal(*pair) for pair in pairs]),
            }
        )
    return rounded(pd.DataFrame(rows))


def embed_ids(
    encoder: Encoder, sequences: Sequence[NDArray[np.integer[Any]]], batch_size: int = 128
) -> NDArray[np.float32]:
    """Embeddings (N, D) of sequences of token ids, without dropout, in the order given."""
    embeddings = np.empty((len(sequences), encoder.dimension), dtype=np.float32)
    order = sorted(range(len(sequences)), key=lambda row: -len(sequences[row]))
    training = encoder.training
    encoder.eval()
    try:
        with torch.inference_mode():
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                ids = [{"input_ids": sequences[row].tolist()} for row in rows]
                batch = encoder.tokenizer.pad(ids, padding_side="right", return_tensors="pt")
                batch = batch.to(encoder.device)
                embedded = encoder(batch["input_ids"], batch["attention_mask"])
                embeddings[rows] = embedded.float().cpu().numpy()
    finally:
        encoder.train(training)
    return embeddings
