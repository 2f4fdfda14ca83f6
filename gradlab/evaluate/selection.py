"""The development score, chosen by the data, that selects the best encoder of a training run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gradlab.evaluate.embed import Encode
from gradlab.evaluate.retrieval import is_retrieval_folder, retrieval_task, task_scores
from gradlab.evaluate.sts import stsb_dev
from gradlab.evaluate.task_files import load_stsb_dev, stsb_dev_file
from gradlab.files import reading

# Names in the records of a run, and for the metric of a sweep.
STSB_DEV, RETRIEVAL = "stsb_dev", "ndcg_at_10"
SELECTIONS = (STSB_DEV, RETRIEVAL)


class Selection(NamedTuple):
    """A score of an encoder on development data, with a name in `SELECTIONS`; larger is better."""

    name: str
    score: Callable[[Encode], float]
    files: tuple[Path, ...]  # the files with the data


def selection(path: str | os.PathLike[str]) -> Selection:
    """Return ``nDCG@10`` on dev relevances in BEIR's layout, else Spearman on STS-B dev.

    The data are read here once, so that bad files are reported before a training begins.

    Args:
        path: a folder with ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/dev.tsv``, or a path for
            `gradlab.evaluate.stsb_dev`.

    Raises:
        GradlabError: a file is absent or malformed, or mteb, which scores retrieval, is missing.
    """
    files = development_files(path)
    if is_retrieval_folder(path):
        task = retrieval_task(path, "dev")
        return Selection(RETRIEVAL, lambda encode: task_scores(encode, task)[RETRIEVAL], files)
    load_stsb_dev(path)
    return Selection(STSB_DEV, lambda encode: stsb_dev(encode, path), files)


def development_files(path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Return the files that `selection` reads; GradlabError if ``path`` holds no data."""
    with reading(f"development data in {os.fspath(path)[:100]!r}"):
        retrieval = is_retrieval_folder(path)  # refuses names of more than 255 bytes
    if retrieval:
        return tuple(
            Path(path) / name for name in ("corpus.jsonl", "queries.jsonl", "qrels/dev.tsv")
        )
    return (stsb_dev_file(path),)
