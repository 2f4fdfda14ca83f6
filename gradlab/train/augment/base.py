"""Base classes of augmentations of token ids, text or embeddings; a tokenizer's `Vocabulary`."""

from __future__ import annotations

import abc
import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradlab.data.tokens import encoder_of
from gradlab.errors import GradlabError
from gradlab.settings import Settings

Ids = NDArray[np.integer[Any]]
# Rare words, which every tokenizer splits.
_PROBE = "unreadablenesses of xylophonists, ba fadra"


@dataclass(frozen=True)
class Vocabulary:
    """Special tokens of a tokenizer, and its conversion between ids and text."""

    prefix: int = 1  # number of special tokens at the start of a sequence ([CLS], <s>)
    suffix: int = 1  # number of special tokens at its end ([SEP], </s>)
    # Longest sequence in tokens, special tokens included; None for no limit.
    longest: int | None = None
    tokenizer: Any = None  # a Hugging Face tokenizer

    @classmethod
    def of(cls, tokenizer: Any, longest: int | None = None) -> Self:
        """Read a tokenizer; GradlabError if ``longest`` leaves no room for an ordinary token."""
        prefix, suffix = _frame(tokenizer)
        if longest is not None and longest <= prefix + suffix:
            raise GradlabError(
                f"{longest} tokens leave no room beside {prefix + suffix} special ones"
            )
        return cls(prefix, suffix, longest, tokenizer)

    @functools.cached_property
    def ordinary(self) -> NDArray[np.int64]:
        """Ids, ascending, without special tokens and BERT's unused ones."""
        words = self.tokenizer.get_vocab().items()
        ids = {index for piece, index in words if not piece.startswith("[unused")}
        return np.array(sorted(ids.difference(self.tokenizer.all_special_ids)))

    def encode(self, text: str) -> Ids:
        """Return the ids of a text, without special tokens."""
        whole = np.array(self._framed([text])[0], dtype=np.int64)
        return whole[self.prefix : len(whole) - self.suffix]

    def decode(self, tokens: Ids) -> str:
        """Return the text of ids that have no special tokens."""
        return str(self.tokenizer.decode(tokens.tolist(), clean_up_tokenization_spaces=False))

    @functools.cached_property
    def _framed(self) -> Callable[[Sequence[str]], list[list[int]]]:
        # Tokenizers without a limit say 1e30.
        limit = self.longest or min(self.tokenizer.model_max_length, 2**20)
        return encoder_of(self.tokenizer, limit)


@dataclass(frozen=True)
class Augmentation(Settings, abc.ABC):
    """Base class of augmentations, which make a sentence's second view; its fields are settings."""

    name: ClassVar[str]  # name in the registry
    needs_tokenizer: ClassVar[bool] = False  # whether `bind` has to be called before use
    vocabulary: ClassVar[Vocabulary] = Vocabulary()

    def bind(self, tokenizer: Any, longest: int | None = None) -> Self:
        """Return a copy for a Hugging Face tokenizer.

        Arguments and errors are those of `get_augmentation`.
        """
        bound = copy.copy(self)
        object.__setattr__(bound, "vocabulary", Vocabulary.of(tokenizer, longest))
        return bound


class SentenceAugmentation(Augmentation):
    """Base class of augmentations that change a sentence before it is embedded."""

    def ids(self, sequence: Ids, generator: np.random.Generator) -> Ids:
        """Return the view of a sequence of token ids, (L,), special tokens included.

        Special tokens at both ends stay unchanged. A view that is too long for the encoder is cut
        at the end of the sentence.

        Raises:
            GradlabError: the augmentation needs a tokenizer and has none.
        """
        vocabulary = self.vocabulary
        if self.needs_tokenizer and vocabulary.tokenizer is None:
            raise GradlabError(f"{self.name} needs a tokenizer: give it to get_augmentation")
        end = len(sequence) - vocabulary.suffix
        inner = self.edit(sequence[vocabulary.prefix : end], generator)
        if vocabulary.longest is not None:
            inner = inner[: vocabulary.longest - vocabulary.prefix - vocabulary.suffix]
        view = [sequence[: vocabulary.prefix], inner, sequence[end:]]
        return np.concatenate(view).astype(sequence.dtype, copy=False)

    def batch(self, sequences: Sequence[Ids], generator: np.random.Generator) -> list[Ids]:
        """Return the views of several sequences, drawn in turn from the same generator."""
        return [self.ids(sequence, generator) for sequence in sequences]

    @abc.abstractmethod
    def edit(self, tokens: Ids, generator: np.random.Generator) -> Ids:
        """Return the view of a sentence's tokens, without special tokens."""


class TextAugmentation(SentenceAugmentation):
    """Base class of augmentations of text, for which ids are decoded and then tokenised again."""

    needs_tokenizer = True

    def bind(self, tokenizer: Any, longest: int | None = None) -> Self:
        """As in the base class; GradlabError if the tokenizer cannot turn ids back into text."""
        bound = super().bind(tokenizer, longest)
        vocabulary = bound.vocabulary
        ids = vocabulary.encode(_PROBE)
        if not np.array_equal(vocabulary.encode(vocabulary.decode(ids)), ids):
            raise GradlabError(
                f"{self.name} works on text, and this tokenizer does not turn ids back into it; "
                "use an augmentation of token ids, such as subword_repetition"
            )
        return bound

    @abc.abstractmethod
    def text(self, sentence: str, generator: np.random.Generator) -> str:
        """Return the view of a sentence."""

    def edit(self, tokens: Ids, generator: np.random.Generator) -> Ids:
        # With a lower-casing tokenizer, words are in lower case and punctuation is separated.
        return self.vocabulary.encode(self.text(self.vocabulary.decode(tokens), generator))


class EmbeddingAugmentation(Augmentation):
    """Base class of augmentations of looked-up token embeddings, before positions are added."""

    @abc.abstractmethod
    def embeddings(
        self, embedded: Tensor, mask: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the view of embedded sequences.

        Gradient flows through; special tokens and padding stay unchanged.

        Args:
            embedded: (rows, length, D) looked-up token embeddings, padded on the right.
            mask: (rows, length), 1 for tokens and 0 for padding.
            generator: source of randomness; None is torch's default generator of the CPU. Numbers
                are drawn on its device: a CPU generator gives the same numbers for every device.
        """

    def ordinary(self, mask: Tensor) -> Tensor:
        """Return a mask (rows, length), False at padding and at the special tokens of both ends."""
        place = torch.arange(mask.shape[1], device=mask.device)
        ends = mask.sum(1, keepdim=True) - self.vocabulary.suffix
        return (place >= self.vocabulary.prefix) & (place < ends)


def uniform(
    shape: Sequence[int], generator: torch.Generator | None, device: torch.device
) -> Tensor:
    """Return uniform draws in [0, 1), made on the generator's device and moved to ``device``."""
    source = torch.device("cpu") if generator is None else generator.device
    return torch.rand(tuple(shape), generator=generator, device=source).to(device)


def _frame(tokenizer: Any) -> tuple[int, int]:
    """Return the numbers of special tokens before and after a sentence."""
    plain, framed = (
        tokenizer("a", add_special_tokens=added)["input_ids"] for added in (False, True)
    )
    for prefix in range(len(framed) - len(plain) + 1):
        if framed[prefix : prefix + len(plain)] == plain:
            return prefix, len(framed) - len(plain) - prefix
    raise GradlabError("the tokenizer changes a sentence's own tokens where it adds special ones")
