"""What an augmentation must know of a tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import GradlabError
from gradlab.train.tokens import encoder_of

_NO_LIMIT = 2**20  # tokenizers without a limit say 1e30

Ids = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Vocabulary:
    """Special tokens, and the way between ids and text.

    Attributes:
        prefix, suffix: special tokens that a sequence begins and ends with ([CLS] and [SEP], <s> and </s>).
        longest: tokens of the longest sequence, special tokens included; None for no limit.
        mask: id of the mask token; None where there is none.
        ordinary: ids of the tokens that are neither special nor BERT's unused ones, ascending.
        encode: text -> ids without special tokens; None without a tokenizer.
        decode: ids without special tokens -> text; None without a tokenizer.
    """

    prefix: int = 1
    suffix: int = 1
    longest: int | None = None
    mask: int | None = None
    ordinary: Ids | None = None
    encode: Callable[[str], Ids] | None = None
    decode: Callable[[Ids], str] | None = None

    @classmethod
    def of(cls, tokenizer: Any, longest: int | None = None) -> Self:
        """Read a Hugging Face tokenizer.

        Raises:
            GradlabError: if ``longest`` leaves no room for a token.
        """
        special = set(tokenizer.all_special_ids)
        prefix, suffix = _frame(tokenizer)
        if longest is not None and longest <= prefix + suffix:
            raise GradlabError(f"{longest} tokens leave no room beside {prefix + suffix} special ones")
        ids = encoder_of(tokenizer, longest or min(tokenizer.model_max_length, _NO_LIMIT))

        def encode(text: str) -> Ids:
            whole = np.array(ids([text])[0], dtype=np.int64)
            return whole[prefix : len(whole) - suffix]

        def decode(tokens: Ids) -> str:
            return str(tokenizer.decode(tokens.tolist(), clean_up_tokenization_spaces=False))

        vocabulary = tokenizer.get_vocab().items()
        words = [one for piece, one in vocabulary if one not in special and not piece.startswith("[unused")]
        mask = tokenizer.mask_token_id
        return cls(prefix, suffix, longest, mask, np.array(sorted(words)), encode, decode)


def _frame(tokenizer: Any) -> tuple[int, int]:
    """How many special tokens are put before and behind a sentence."""
    plain, framed = (tokenizer("a", add_special_tokens=added)["input_ids"] for added in (False, True))
    for prefix in range(len(framed) - len(plain) + 1):
        if framed[prefix : prefix + len(plain)] == plain:
            return prefix, len(framed) - len(plain) - prefix
    raise GradlabError("the tokenizer changes a sentence's own tokens where it adds special ones")
