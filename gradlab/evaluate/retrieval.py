"""Retrieval scores by mteb's protocol on local files.

They reveal training that helps STS but hurts retrieval. mteb (Muennighoff et al. 2023) loads its
tasks from a hub. Here a task is a folder in the layout of BEIR (Thakur et al. 2021), and the
encoder is any callable from sentences to rows. mteb computes the scores.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from gradlab.data.beir import documents_of, relevances_of
from gradlab.errors import require_package
from gradlab.evaluate.embed import Embedder, Encode, as_encode
from gradlab.progress_bars import no_bars_of_datasets

# The reported part of mteb's scores.
MEASURES = ("ndcg_at_10", "map_at_10", "mrr_at_10", "recall_at_100")


def is_retrieval_folder(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder is in BEIR's layout, judged by ``corpus.jsonl``."""
    return (Path(folder) / "corpus.jsonl").is_file()


def evaluate_retrieval(
    model: Encode | Any, folder: str | os.PathLike[str], split: str = "test"
) -> dict[str, float]:
    """Return the scores of an encoder on a retrieval task, computed by mteb.

    Args:
        model: a callable from n sentences to an (n, D) array, or an object with such an ``encode``.
        folder: ``corpus.jsonl`` (``_id``, ``text``, optionally ``title``), ``queries.jsonl``
            (``_id``, ``text``) and ``qrels/SPLIT.tsv`` (query, document, relevance), as in BEIR.
        split: name of the file of relevances.

    Returns:
        ``ndcg_at_10``, ``map_at_10``, ``mrr_at_10`` and ``recall_at_100``, in [0, 1], by cosine.

    Raises:
        GradlabError: mteb is not installed, a file is absent or malformed, or an embedding is bad.
    """
    return task_scores(model, retrieval_task(folder, split))


def task_scores(model: Encode | Any, task: Any) -> dict[str, float]:
    """Return the scores of an encoder on a task from `retrieval_task`; see `evaluate_retrieval`."""
    import mteb

    with no_bars_of_datasets():  # `show_progress_bar` leaves the bars of mteb's preparations on
        results = mteb.evaluate(
            as_mteb(model), task, cache=None, show_progress_bar=False, co2_tracker=False
        )
    (scores,) = results.task_results[0].scores[task.metadata.eval_splits[0]]
    return {name: float(scores[name]) for name in MEASURES}


def as_mteb(model: Encode | Any, name: str = "local/encoder") -> Any:
    """Return an encoder in mteb's form, for `mteb.evaluate` and any of mteb's tasks.

    Tasks may be on the hub or local.

    Args:
        model: as for `evaluate_retrieval`.
        name: name of the model in mteb's results, ``owner/name``.

    Raises:
        GradlabError: mteb is not installed, or the model cannot encode.
    """
    require_package("mteb")
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta, ScoringFunction

    encode = as_encode(model)

    class LocalEncoder(AbsEncoder):
        """Encodes the sentences in the batches of a task."""

        mteb_model_meta = ModelMeta.create_empty(
            {"name": name, "revision": "local", "similarity_fn_name": ScoringFunction.COSINE}
        )

        def encode(self, inputs: Any, **settings: Any) -> Any:
            """Return the embeddings of all sentences, (n, D) in float32."""
            sentences = [text for batch in inputs for text in batch["text"]]
            return np.asarray(Embedder(encode)(sentences), dtype=np.float32)

    return LocalEncoder()


def retrieval_task(folder: str | os.PathLike[str], split: str = "test") -> Any:
    """Return a folder in BEIR's layout as a task of mteb.

    Arguments and errors are those of `evaluate_retrieval`.
    """
    require_package("mteb")
    place = Path(folder)
    corpus, queries = (documents_of(place / f"{name}.jsonl") for name in ("corpus", "queries"))
    relevant = relevances_of(place / "qrels" / f"{split}.tsv", corpus, queries)

    from datasets import Dataset
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    class LocalRetrieval(AbsTaskRetrieval):
        """A retrieval task whose data have been read already."""

        metadata = TaskMetadata(
            name=place.resolve().name,
            description=f"Retrieval from the local folder {place.resolve().name}.",
            type="Retrieval",
            dataset={"path": place.resolve().name, "revision": "local"},
            eval_splits=[split],
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
        )

        def load_data(self, *_: Any, **__: Any) -> None:
            """Set the corpus, the relevances, and the queries that have a relevant document."""
            documents = [
                {"id": key, "title": row.get("title") or "", "text": row["text"]}
                for key, row in corpus.items()
            ]
            judged_queries = [{"id": key, "text": queries[key]["text"]} for key in relevant]
            tables: Any = {
                "corpus": Dataset.from_list(documents),
                "queries": Dataset.from_list(judged_queries),
                "relevant_docs": relevant,
                "top_ranked": None,
            }
            self.dataset = {"default": {split: tables}}
            self.data_loaded = True

    return LocalRetrieval()
