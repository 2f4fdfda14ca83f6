"""`ModelSource`: an encoder embeds the texts of an inspection, without dropout and with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.batch.batch import Batch
from gradlab.batch.check import check_batch
from gradlab.errors import GradlabError
from gradlab.inspection.texts import Cuts, Texts
from gradlab.inspection.word_index import chunks
from gradlab.inspection.workspace import Workspace, explained
from gradlab.losses.registry import get_loss
from gradlab.progress_bars import progress_bar
from gradlab.train.progress import say

# Number of texts that are encoded at once, sorted by length.
_CHUNK = 1024


def batch_of(columns: list[NDArray[Any]]) -> Batch:
    """Return (n, D) columns as a batch in float64; without positives, each sentence is its own."""
    anchors, *further = (column.astype(np.float64) for column in columns)
    positives, *hard = further or [anchors]
    if not hard:
        return check_batch(anchors, positives, normalize=True)
    # A column of hard negatives has one for each anchor.
    owners = np.tile(np.arange(len(anchors)), len(hard))
    return check_batch(anchors, positives, np.concatenate(hard), normalize=True, owners=owners)


class ModelSource:
    """An encoder in training mode: dropout makes two views of a sentence, as in `gradlab train`.

    Raises:
        GradlabError: the model is no encoder of gradlab, or reads fewer than ``max_length`` tokens.
    """

    def __init__(
        self, model: Any, texts: Texts, pooler: str | None, max_length: int | None, device: str
    ) -> None:
        from gradlab.data.tokens import cutting_encoder_of
        from gradlab.encoder.model import Encoder, check_loads
        from gradlab.train.cpu_speed import attention_for
        from gradlab.train.distributed import RunProcesses, find_device
        from gradlab.train.objective import Objective

        encoder = model
        if check_loads(model, pooler=pooler, device=device):
            place = find_device(device)
            placement: dict[str, Any] = {"attention": attention_for(place), "device": place}
            encoder = Encoder.load(model, pooler, max_length=max_length, **placement)
        if not isinstance(encoder, Encoder):
            raise GradlabError(
                f"a {type(model).__name__} is no model of gradlab; give the folder or hub name of "
                "its model, or embeddings=model.encode(...)"
            )
        max_length = max_length or encoder.max_length
        encoder.lengthen(max_length)
        self.encoder, self.texts, self.max_length = encoder, texts, max_length
        # Packs and embeds sequences as in training; the loss is not used.
        self._objective = Objective(
            encoder, get_loss("infonce"), processes=RunProcesses(0, 1, encoder.device)
        )
        self._tokenize = cutting_encoder_of(encoder.tokenizer, max_length)
        self.cuts = Cuts(max_length)

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        """Return both float64 views of rows, with hard negatives as extra negatives, by column."""
        import torch

        columns = [
            [np.array(ids) for ids in self._tokenize([column[row] for row in rows.tolist()])[0]]
            for column in self.texts.columns.values()
        ]
        if self.texts.positives is None:
            columns.append(columns[0])
        self._objective.train()
        with torch.no_grad():
            embedded = self._objective.embed(
                self._objective.pack([ids for column in columns for ids in column])
            )
        return batch_of(np.split(embedded.double().cpu().numpy(), len(columns)))

    def encode(self, texts: list[str], batch_size: int) -> NDArray[Any]:
        """Return the embeddings of texts without dropout, (n, D)."""
        self.encoder.max_length = self.max_length
        return self.encoder.encode(texts, batch_size, normalize=True)

    def on_disk(self, work: Workspace, batch_size: int, progress: bool) -> NDArray[np.float16]:
        """Return the embeddings of all texts without dropout, in a file of the workspace.

        What an earlier inspection left there is not encoded again.
        """
        path, width = work.path("embeddings.float16"), self.encoder.dimension
        with explained(path.parent):
            ready = path.stat().st_size // (2 * width) if path.exists() else 0
            ready = ready if ready == self.texts.count else ready // _CHUNK * _CHUNK
            if ready and progress:
                say(f"{ready:,} of {self.texts.count:,} texts were embedded before a stop")
            texts = progress_bar(self.texts, progress, desc="Encoding", total=self.texts.count)
            position = 0
            with path.open("ab") as file:
                file.truncate(ready * 2 * width)
                for chunk in chunks(texts, _CHUNK):
                    self.cuts.add(chunk, *self._tokenize(chunk))
                    if position >= ready:
                        self.encode(chunk, batch_size).astype(np.float16).tofile(file)
                        file.flush()
                    position += len(chunk)
            return np.memmap(path, np.float16, "r").reshape(-1, width)
