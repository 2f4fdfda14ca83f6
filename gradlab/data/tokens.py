"""Tokenising a file of sentences once: token ids in a flat file on disk, cached by content."""

from __future__ import annotations

import array
import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.data.sentences import Columns, Skipped, check_file, read_columns
from gradlab.errors import GradlabError
from gradlab.files import atomic_folder, one_at_a_time, recover_folder
from gradlab.waiting import progress_bar

# Increase when the files or their meaning change; caches in an older format are then ignored.
FORMAT = 3
_BATCH = 4096


@dataclass(frozen=True)
class Tokens:
    """Token ids of many sentences, special tokens included, read from disk on demand."""

    # Ids of all sentences, one after the other (a read-only memory map).
    ids: NDArray[np.integer[Any]]
    offsets: NDArray[np.int64]  # (N + 1,) start of each sentence; the last entry is the end
    data_hash: str  # SHA-256 of the file of sentences
    notes: str = ""  # message about skipped content, for display

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[np.integer[Any]]:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    def take(self, rows: Iterable[int]) -> list[NDArray[np.integer[Any]]]:
        """Return the token ids of several sentences."""
        offsets = self.offsets
        return [self.ids[offsets[row] : offsets[row + 1]] for row in rows]


def tokenize_pairs(
    path: str | Path,
    tokenizer: Any,
    max_length: int,
    columns: Columns,
    *,
    encoding: str = "utf-8",
    progress: bool = False,
) -> tuple[Tokens, ...]:
    """Tokenise columns of a file, or load their tokens from the cache.

    Rows i of all columns belong together. The cache (``GRADLAB_CACHE_DIR``, or the user's cache
    folder) is keyed by the content of file and tokenizer and by ``max_length``, ``columns`` and
    ``encoding``, so that a changed file is never mistaken for another. If several processes need a
    file, all but the first wait.

    Args:
        path: see :func:`gradlab.data.sentences.read_sentences`.
        tokenizer: a Hugging Face tokenizer; fast tokenizers use all cores.
        max_length: number of tokens to which sentences are cut, special tokens included.
        columns, encoding: see :func:`gradlab.data.sentences.read_columns`.
        progress: whether to show a progress bar.

    Raises:
        GradlabError: the file cannot be read or holds no sentence, a row has tokens in some of the
            columns only, or the cache cannot be written.
    """
    check_file(Path(path), encoding)
    data_hash, suffixes = hash_file(path), str(Path(path).suffixes)
    key = [FORMAT, data_hash, fingerprint(tokenizer), max_length, [*columns], encoding, suffixes]
    folder = cache_folder() / "tokens" / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    if (cached := _open(folder, len(columns))) is not None:
        return cached
    waiting = "Another process is tokenising this file; waiting for it." if progress else ""
    with one_at_a_time(cache_folder() / "locks" / folder.name, waiting):
        recover_folder(folder)  # clean up after a killed process
        if _open(folder, len(columns)) is None:  # else another process has done it meanwhile
            skipped = Skipped()
            read = read_columns(path, columns, encoding, skipped)
            bar = {"desc": "Tokenising (once)", "unit": " sentences", "leave": True}
            rows = iter(progress_bar(read, progress, **bar))
            with atomic_folder(folder) as temporary:
                empty, count = _write(temporary, rows, columns, tokenizer, max_length)
                if not count:
                    raise GradlabError(f"the training file {str(path)!r} holds no sentence")
                blank = skipped.blank + empty
                notes = f"skipped {blank:,} blank lines" if blank else ""
                about = {"data_hash": data_hash, "notes": notes}
                (temporary / "about.json").write_text(json.dumps(about), encoding="utf-8")
    if (cached := _open(folder, len(columns))) is None:
        raise GradlabError(f"the token cache {str(folder)!r} cannot be read back; check the disk")
    return cached


def cache_folder() -> Path:
    """Return the folder for tokenised files: ``GRADLAB_CACHE_DIR``, or the user's cache folder."""
    if given := os.environ.get("GRADLAB_CACHE_DIR"):
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_cache_dir("gradlab"))


def hash_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(tokenizer: Any) -> str:
    """Return a hash that differs between tokenizers that differ in their effect on a text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        content = {"vocabulary": tokenizer.get_vocab(), "class": type(tokenizer).__name__}
    else:
        content = json.loads(backend.to_str())
        # Left over from the tokenizer's last call.
        content.pop("truncation", None)
        content.pop("padding", None)
    content["side"] = tokenizer.truncation_side
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def encoder_of(tokenizer: Any, max_length: int) -> Callable[[Sequence[str]], list[list[int]]]:
    """Return a function from sentences to token ids with special tokens, cut to ``max_length``."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return lambda batch: tokenizer(list(batch), truncation=True, max_length=max_length)[
            "input_ids"
        ]
    # The call of transformers builds a dictionary per sentence and takes three times as long.
    copy = type(backend).from_str(backend.to_str())
    copy.no_padding()
    copy.enable_truncation(max_length, direction=tokenizer.truncation_side)
    encode = getattr(copy, "encode_batch_fast", copy.encode_batch)
    return lambda batch: [encoding.ids for encoding in encode(list(batch))]


def _write(
    folder: Path,
    sentences: Iterator[tuple[str, ...]],
    columns: Columns,
    tokenizer: Any,
    max_length: int,
) -> tuple[int, int]:
    """Write ids and offsets of columns; return numbers of rows left out (no tokens) and written."""
    dtype = np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.int32)
    encode = encoder_of(tokenizer, max_length)
    lengths, empty = [array.array("i") for _ in columns], 0
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context((folder / f"ids-{at}.{dtype.name}").open("wb"))
            for at in range(len(columns))
        ]
        while batch := tuple(itertools.islice(sentences, _BATCH)):
            encoded = [encode(texts) for texts in zip(*batch, strict=True)]
            rows = [row for row in zip(*encoded, strict=True) if any(row)]
            empty += len(batch) - len(rows)
            if partly := [row for row in rows if not all(row)]:
                text = tokenizer.decode(next(filter(None, partly[0])))
                column = columns[partly[0].index([])]
                raise GradlabError(
                    f"column {column!r} has no tokens in the row of {text!r:.60}; remove the row"
                )
            for file, sizes, some in zip(files, lengths, zip(*rows, strict=True), strict=False):
                sizes.extend(map(len, some))
                np.fromiter(itertools.chain.from_iterable(some), dtype).tofile(file)
    for at, sizes in enumerate(lengths if lengths[0] else ()):
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        np.save(folder / f"offsets-{at}.npy", offsets)
    return empty, len(lengths[0])


def _open(folder: Path, columns: int) -> tuple[Tokens, ...] | None:
    """Return the tokens of each column in a folder, or None if it is absent or incomplete."""
    try:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        found = []
        for at in range(columns):
            offsets = np.load(folder / f"offsets-{at}.npy", allow_pickle=False)
            file = next(folder.glob(f"ids-{at}.*"))
            ids = np.memmap(file, dtype=np.dtype(file.suffix[1:]), mode="r")
            if len(ids) != offsets[-1]:
                return None
            found.append(Tokens(ids, offsets, about["data_hash"], about["notes"]))
        return tuple(found)
    except (OSError, ValueError, KeyError, StopIteration):
        return None
