"""Whether sentences of similar length are taken to be more similar (ESimCSE, Table 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from gradlab import GradlabError
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

NEAR = 3  # the paper's border between similar lengths and others
LONGEST = 20  # differences from here on are counted together


@dataclass(frozen=True)
class LengthBias:
    """What length does to an encoder's similarities.

    Attributes:
        correlations: a row a set, and "all" (the pairs of all sets together): ``set``, ``near`` and
            ``far`` (Spearman's correlation of the pairs whose lengths differ by at most
            :data:`NEAR`, and of the others), ``near_pairs``, ``far_pairs``.
        curve: a row a length difference (the last: from :data:`LONGEST` on), over all pairs:
            ``difference``, ``pairs``, ``cosine`` (mean), ``gold`` (mean score, scaled to [0, 1] in
            each set), and ``excess``: mean of the pair's rank by cosine less its rank by gold, over
            the number of pairs. It is positive where the encoder takes pairs for more similar than
            people do, beside other pairs of the set.
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


def words(sentence: str) -> int:
    """Length in words, as white space parts them."""
    return len(sentence.split())


def length_bias(
    encode: Any,
    sets: str | Path | Mapping[str, Sequence[ScoredPairs]],
    *,
    length: Callable[[str], int] = words,
    split: str = "test",
) -> LengthBias:
    """Measure it on scored pairs of sentences.

    Args:
        encode: a callable from a list of sentences to an (n, D) array, or an object with such a
            method ``encode``.
        sets: SentEval's ``data/downstream`` folder, of which the STS sets are taken that are there;
            or pairs by name.
        length: of a sentence; the paper does not say what it counts, here it is words.
        split: "test" or "dev" (STS-B and SICK-R alone), where ``sets`` is a folder.

    Raises:
        GradlabError: if there is no such set, a file is malformed, or an embedding is bad.
    """
    loaded = load_sets(sets, split) if isinstance(sets, str | Path) else sets
    texts = (text for subsets in loaded.values() for pairs in subsets for text in pairs.sentences)
    sentences = list(dict.fromkeys(texts))
    rows_of = dict(zip(sentences, as_encode(encode)(sentences), strict=True))
    tables = {name: _measure(rows_of, subsets, length) for name, subsets in loaded.items()}
    together = pd.concat(tables.values(), ignore_index=True)
    rows = [_correlations(name, table) for name, table in {**tables, "all": together}.items()]
    return LengthBias(rounded(pd.DataFrame(rows)), _curve(together))


def load_sets(folder: str | Path, split: str = "test") -> dict[str, list[ScoredPairs]]:
    """The STS sets of a SentEval folder that are there.

    Raises:
        GradlabError: if none is.
    """
    place, loaded = downstream(folder), {}
    names = STS_TASKS if split == "test" else ("STS-B", "SICK-R")
    for name in names:
        try:
            loaded[name] = load_sts(place, name, split)
        except MissingFile:
            continue
    if not loaded:
        raise GradlabError(f"{str(folder)!r} has none of {', '.join(names)} (split {split})")
    return loaded


def _measure(
    rows_of: Mapping[str, NDArray[np.floating]],
    subsets: Sequence[ScoredPairs],
    length: Callable[[str], int],
) -> pd.DataFrame:
    first, second = (
        [text for pairs in subsets for text in getattr(pairs, side)] for side in ("first", "second")
    )
    gold = np.concatenate([pairs.gold for pairs in subsets])
    cosine = cosines(*(np.stack([rows_of[text] for text in side]) for side in (first, second)))
    table = pd.DataFrame({"cosine": cosine, "gold": gold})
    table["difference"] = [
        float(abs(length(a) - length(b))) for a, b in zip(first, second, strict=True)
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
