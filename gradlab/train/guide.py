"""A frozen model beside the one that is trained: a mask's guide (GISTEmbed, Solatorio 2024), or a teacher."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor

from gradlab.encoder.model import Encoder
from gradlab.errors import GradlabError
from gradlab.train.batches import pack
from gradlab.train.config import TrainConfig
from gradlab.train.corpus import Corpus
from gradlab.train.distributed import Processes
from gradlab.train.tokens import Tokens

# Numbers of embeddings that are kept for the next epoch, 256 MiB in float32; what comes later is embedded each time.
KEPT = 2**26


class Guide:
    """Embeds the sentences of the training file, as they stand there, without dropout or gradient.

    Called with rows of the training file, (N,), it gives embeddings (N, D) of the first and of the second views, on its own device, and
    behind them those of the hard negatives: (N, columns, D) of own ones, (columns N, D) of shared ones.
    """

    def __init__(self, model: str, config: TrainConfig, corpus: Corpus, processes: Processes) -> None:
        """A model by name or folder; raises GradlabError if its tokenizer leaves out other sentences than ``corpus`` does."""
        self.encoder = Encoder.load(model, device=processes.device).requires_grad_(False)
        length = min(config.max_length, self.encoder.max_length)
        changed = dataclasses.replace(config, max_length=length, label_column=None, score_column=None)
        own = Corpus.read(changed, self.encoder, processes)
        if len(own.tokens) != len(corpus.tokens):
            raise GradlabError(
                f"the tokenizer of {model} makes {len(own.tokens)} sentences of {config.train_file} and the model's "
                f"{len(corpus.tokens)}, as some have no tokens; take them out of the file"
            )
        self._own = config.hard_negatives == "own"
        self._views: list[tuple[Tokens, dict[int, Tensor]]] = [(tokens, {}) for tokens in own.columns]

    def __call__(self, rows: Tensor) -> tuple[Tensor, ...]:
        wanted, found = rows.tolist(), []
        for tokens, kept in self._views:
            new = [row for row in dict.fromkeys(wanted) if row not in kept]
            made = dict(zip(new, self._embed(tokens.take(new)), strict=True)) if new else {}
            found.append(torch.stack([kept[row] if row in kept else made[row] for row in wanted]))
            if (len(kept) + len(made)) * self.encoder.dimension <= KEPT:
                kept.update(made)
        views, hard = (found * 2)[:2], found[2:]
        if not hard:
            return tuple(views)
        return *views, torch.stack(hard, dim=1) if self._own else torch.cat(hard)

    @torch.no_grad()
    def _embed(self, sequences: list[np.ndarray]) -> Tensor:
        packed = pack(sequences, self.encoder.tokenizer.pad_token_id).to(self.encoder.device)
        rows = [self.encoder(group.input_ids, group.attention_mask) for group in packed.groups]
        return torch.cat(rows).float()[packed.order]
