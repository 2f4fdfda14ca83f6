"""What length and edits of sentences do to an encoder, and how many directions it uses.

ESimCSE (Wu et al. 2022), Tables 1 and 2; MoCoSE (Cao et al. 2022), Figure 7.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from tqdm import tqdm

from gradlab import GradlabError
from gradlab.batch import unit_rows
from gradlab.encoder import Encoder
from gradlab.evaluate import (
    STS_TASKS,
    MissingFile,
    ScoredPairs,
    as_encode,
    cosines,
    downstream,
    load_sts,
    spearman,
)
from gradlab.plotting import Table, rounded
from gradlab.seeds import random_generator
from gradlab.train import SentenceAugmentation, get_augmentation

NEAR = 3  # the paper's border between similar lengths and others
LONGEST = 20  # differences from here on are counted together
EDITS = ("random_insertion", "random_deletion", "word_repetition", "subword_repetition")


@dataclass(frozen=True)
class LengthBias:
    """What length does to an encoder's similarities.

    ``correlations`` has a row a set, and one of all pairs: Spearman's correlation of the pairs
    whose lengths differ by at most `NEAR` (``near``) and of the others (``far``). ``curve`` has a
    row a difference in length, the last from `LONGEST` on, over all pairs: mean ``cosine``, mean
    ``gold`` score (in [0, 1] in each set), and ``excess``, the mean rank of a pair by cosine less
    that by gold, over the number of pairs: positive where the encoder overrates similarity.
    """

    correlations: Table
    curve: Table

    @property
    def slope(self) -> float:
        """Change of ``excess`` per unit of length difference; below 0 is length bias.

        It is fitted by least squares over all pairs. Differences beyond :data:`LONGEST` count as
        that one, as in the curve. NaN where all pairs differ by the same.
        """
        x, y, weight = (self.curve[name] for name in ("difference", "excess", "pairs"))
        if len(x) < 2:
            return float("nan")
        return float(np.polyfit(x, y, 1, w=np.sqrt(weight))[0])


def length_bias(
    encode: Any, sets: str | Path | Mapping[str, Sequence[ScoredPairs]], split: str = "test"
) -> LengthBias:
    """Measure it on scored pairs of sentences.

    Args:
        encode: a callable from a list of sentences to an (n, D) array, or an object with such a
            method ``encode``.
        sets: SentEval's ``data/downstream`` folder, of which the STS sets are taken that are there;
            or pairs by name.
        split: "test" or "dev" (STS-B and SICK-R alone), where ``sets`` is a folder.

    Raises:
        GradlabError: if there is no such set, a file is malformed, or an embedding is bad.
    """
    loaded = load_sets(sets, split) if isinstance(sets, str | Path) else sets
    texts = (text for subsets in loaded.values() for pairs in subsets for text in pairs.sentences)
    sentences = list(dict.fromkeys(texts))
    rows_of = dict(zip(sentences, as_encode(encode)(sentences), strict=True))
    tables = {name: _measure(rows_of, subsets) for name, subsets in loaded.items()}
    together = pd.concat(tables.values(), ignore_index=True)
    rows = [_correlations(name, table) for name, table in {**tables, "all": together}.items()]
    return LengthBias(rounded(pd.DataFrame(rows)), _curve(together))


def load_sets(folder: str | Path, split: str) -> dict[str, list[ScoredPairs]]:
    """The STS sets of a SentEval folder that are there.

    Raises:
        GradlabError: if none is.
    """
    place, loaded = downstream(folder), {}
    names = STS_TASKS if split == "test" else ("STS-B", "SICK-R")
    for name in names:
        with contextlib.suppress(MissingFile):
            loaded[name] = load_sts(place, name, split)
    if not loaded:
        raise GradlabError(f"{str(folder)!r} has none of {', '.join(names)} (split {split})")
    return loaded


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

    The paper shows one sentence; here are the mean and the spread over many, and over several
    ``draws`` of each edit, an augmentation with settings as in ``"random_deletion(rate=0.2)"``.

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
    batches, training = [], encoder.training
    encoder.eval()
    try:
        with torch.inference_mode():
            for start in range(0, len(sequences), batch_size):
                ids = [{"input_ids": ids.tolist()} for ids in sequences[start : start + batch_size]]
                batch = encoder.tokenizer.pad(ids, padding_side="right", return_tensors="pt")
                batch = batch.to(encoder.device)
                batches.append(encoder(batch["input_ids"], batch["attention_mask"]).float())
    finally:
        encoder.train(training)
    embeddings: NDArray[np.float32] = torch.cat(batches).cpu().numpy()
    return embeddings


def spectrum(rows: ArrayLike, *, centre: bool = False) -> Table:
    """Singular values of the matrix of unit embeddings, largest first.

    ``rows`` are (N, D), scaled to unit length here; ``centre`` takes their mean away first: without
    it an anisotropic cloud shows in the first value.

    Returns:
        Columns ``rank`` (from 1), ``value``, ``relative`` (over the largest), and ``cumulative``:
        share of the sum of squares.
    """
    values = unit_rows(np.asarray(rows, dtype=np.float64))
    if centre:
        values = values - values.mean(0)
    singular = np.linalg.svd(values, compute_uv=False)
    squares = singular**2
    return rounded(
        {
            "rank": np.arange(1, len(singular) + 1),
            "value": singular,
            "relative": singular / singular[0],
            "cumulative": np.cumsum(squares) / squares.sum(),
        }
    )


def _measure(
    rows_of: Mapping[str, NDArray[np.floating]], subsets: Sequence[ScoredPairs]
) -> pd.DataFrame:
    first, second = (
        [text for pairs in subsets for text in getattr(pairs, side)] for side in ("first", "second")
    )
    gold = np.concatenate([pairs.gold for pairs in subsets])
    cosine = cosines(*(np.stack([rows_of[text] for text in side]) for side in (first, second)))
    table = pd.DataFrame({"cosine": cosine, "gold": gold})
    table["difference"] = [
        float(abs(len(a.split()) - len(b.split()))) for a, b in zip(first, second, strict=True)
    ]
    table["scaled"] = (gold - gold.min()) / (np.ptp(gold) or 1.0)
    table["excess"] = (rankdata(cosine) - rankdata(gold)) / len(gold)
    return table


def _correlations(name: str, table: pd.DataFrame) -> dict[str, Any]:
    near = table.difference <= NEAR
    gold = "scaled" if name == "all" else "gold"  # the sets have different scales
    row: dict[str, Any] = {"set": name}
    for side, own in (("near", table[near]), ("far", table[~near])):
        row[side] = spearman(own.cosine, own[gold]) if len(own) > 1 else float("nan")
        row[f"{side}_pairs"] = len(own)
    return row


def _curve(pairs_table: pd.DataFrame) -> Table:
    groups = pairs_table.groupby(pairs_table.difference.clip(upper=LONGEST).astype(int))
    table = groups.agg(
        pairs=("cosine", "size"),
        cosine=("cosine", "mean"),
        gold=("scaled", "mean"),
        excess=("excess", "mean"),
    )
    return rounded(table.reset_index())
