"""Tokens of a training file: made once, kept as flat files on disk, found again by content.

The cache is keyed by the content of file and tokenizer, and by all settings of reading. Each of its
files has a checksum; what is damaged is made anew.
"""

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

from gradlab.data.training_file import TrainingFile
from gradlab.errors import GradlabError, counted
from gradlab.files import atomic_folder, one_at_a_time, recover_folder
from gradlab.progress_bars import progress_bar

# Increase when the files or their meaning change; caches in an older format are then ignored.
FORMAT = 4
# Seconds to wait for another process that tokenises the same file; then this one does it as well.
PATIENCE = 600.0
_BATCH = 4096


@dataclass(frozen=True)
class Tokens:
    """Token ids of many sentences, special tokens included, read from disk on demand."""

    # Ids of all sentences, one after the other (a read-only memory map).
    ids: NDArray[np.integer[Any]]
    offsets: NDArray[np.int64]  # (N + 1,) start of each sentence; the last entry is the end
    data_hash: str  # SHA-256 of the file of sentences
    notes: str = ""  # what was noticed in the file, for display

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[np.integer[Any]]:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    def take(self, rows: Iterable[int]) -> list[NDArray[np.integer[Any]]]:
        """Return the token ids of several sentences."""
        offsets = self.offsets
        return [self.ids[offsets[row] : offsets[row + 1]] for row in rows]


def tokenize(
    file: TrainingFile, tokenizer: Any, max_length: int, *, progress: bool = False
) -> tuple[Tokens, ...]:
    """Tokenise the columns of a training file, or load their tokens from the cache.

    Rows i of all columns belong together. The cache is in ``GRADLAB_CACHE_DIR``, or in the user's
    cache folder. If several processes need a file, all but the first wait.

    Args:
        file: the rows.
        tokenizer: a Hugging Face tokenizer; fast tokenizers use all cores.
        max_length: number of tokens to which sentences are cut, special tokens included.
        progress: whether to show a progress bar.

    Raises:
        GradlabError: the file cannot be read, holds no sentence or too many faulty rows; a row has
            tokens in some of the columns only; or the cache cannot be written.
    """
    data_hash = hash_files(file.table.files)
    key = [FORMAT, data_hash, fingerprint(tokenizer), max_length, _settings_of(file)]
    folder = cache_folder() / "tokens" / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
    if (cached := _load(folder)) is not None:
        return cached
    waiting = "Another process is tokenising this file; waiting for it." if progress else ""
    with _first_of_all(cache_folder() / "locks" / folder.name, waiting) as admitted:
        if admitted:
            recover_folder(folder)  # clean up after a killed process
        cached = _load(folder)  # another process may have done it meanwhile
        if cached is None:
            file.count_rows(progress)
            with atomic_folder(folder) as temporary:
                _write_all(temporary, file, tokenizer, max_length, data_hash, progress)
            cached = _load(folder)
    if cached is None:
        raise GradlabError(f"the token cache {str(folder)!r} cannot be read back; check the disk")
    return cached


def cache_folder() -> Path:
    """Return the folder for tokenised files: ``GRADLAB_CACHE_DIR``, or the user's cache folder."""
    if configured := os.environ.get("GRADLAB_CACHE_DIR"):
        return Path(configured)
    import platformdirs

    return Path(platformdirs.user_cache_dir("gradlab"))


def hash_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_files(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of a file, or of the hashes of several; GradlabError if one is absent."""
    try:
        hashes = [hash_file(path) for path in paths]
    except OSError as error:
        raise GradlabError(f"cannot read {error.filename}: {error.strerror}") from error
    return hashes[0] if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()


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
    encode = cutting_encoder_of(tokenizer, max_length)
    return lambda batch: encode(batch)[0]


def cutting_encoder_of(
    tokenizer: Any, max_length: int
) -> Callable[[Sequence[str]], tuple[list[list[int]], int]]:
    """Return a function from sentences to token ids as `encoder_of`, and how many were cut."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:

        def encode_slowly(batch: Sequence[str]) -> tuple[list[list[int]], int]:
            ids = tokenizer(list(batch), truncation=True, max_length=max_length)["input_ids"]
            # Some of these may just have that length.
            return ids, sum(len(row) >= max_length for row in ids)

        return encode_slowly
    # The call of transformers builds a dictionary per sentence and takes three times as long.
    copy = type(backend).from_str(backend.to_str())
    copy.no_padding()
    copy.enable_truncation(max_length, direction=tokenizer.truncation_side)
    encode_batch = getattr(copy, "encode_batch_fast", copy.encode_batch)

    def encode(batch: Sequence[str]) -> tuple[list[list[int]], int]:
        encodings = encode_batch(list(batch))
        full = [encoding for encoding in encodings if len(encoding) == max_length]
        return [encoding.ids for encoding in encodings], sum(bool(e.overflowing) for e in full)

    return encode


def _settings_of(file: TrainingFile) -> list[Any]:
    """Return what decides, beside its content, how a file is read."""
    roles = file.roles
    columns = [roles.anchor, roles.positive, *roles.negatives]
    reading = [file.positives_per_row, file.negatives_per_row, file.faulty_rows]
    return [columns, reading, file.table.form, file.table.encoding]


@contextlib.contextmanager
def _first_of_all(lock: Path, waiting: str) -> Iterator[bool]:
    """Yield True to one process at a time, and False to one that could not wait for its turn.

    A lock must not keep a file from ever being trained on: its holder may hang, and some file
    systems have none.
    """
    with contextlib.ExitStack() as stack:
        admitted = True
        try:
            refusal = "another process tokenises this file, and does not finish"
            stack.enter_context(one_at_a_time(lock, waiting, refusal, patience=PATIENCE))
        except GradlabError:
            admitted = False
        yield admitted


def _write_all(
    folder: Path,
    file: TrainingFile,
    tokenizer: Any,
    max_length: int,
    data_hash: str,
    progress: bool,
) -> None:
    """Write tokens of all columns into a folder, with what is known of them and checksums."""
    bar = {"desc": "Tokenising (once)", "unit": " sentences", "leave": True}
    rows = iter(progress_bar(file.rows(), progress, **bar))
    columns = file.columns
    empty, cuts, count = _write(folder, rows, columns, tokenizer, max_length)
    if not count:
        raise GradlabError(f"the training file {str(file.path)!r} holds no sentence")
    notes = [file.summary()]
    if empty:
        notes.append(f"{counted(empty, 'row')} without a token left out")
    notes += [
        f"{100 * cut / count:.1f}% of the texts in {name!r} are cut at {max_length} tokens"
        for name, cut in zip(columns, cuts, strict=True)
        if cut
    ]
    checksums = {path.name: hash_file(path) for path in sorted(folder.iterdir())}
    content = {
        "data_hash": data_hash,
        "notes": "; ".join(notes),
        "columns": len(columns),
        "checksums": checksums,
    }
    record = {"content": content, "checksum": _checksum(content)}
    (folder / "about.json").write_text(json.dumps(record), encoding="utf-8")


def _write(
    folder: Path,
    sentences: Iterator[tuple[str, ...]],
    columns: Sequence[str],
    tokenizer: Any,
    max_length: int,
) -> tuple[int, list[int], int]:
    """Write ids and offsets of columns.

    Returns:
        number of rows left out because they have no tokens; number of texts that were cut, by
        column; number of rows written.
    """
    dtype = np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.int32)
    encode = cutting_encoder_of(tokenizer, max_length)
    lengths, empty = [array.array("i") for _ in columns], 0
    cuts = [0] * len(columns)
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context((folder / f"ids-{place}.{dtype.name}").open("wb"))
            for place in range(len(columns))
        ]
        while batch := tuple(itertools.islice(sentences, _BATCH)):
            encoded, cut = zip(*(encode(texts) for texts in zip(*batch, strict=True)), strict=True)
            cuts = [total + added for total, added in zip(cuts, cut, strict=True)]
            rows = [row for row in zip(*encoded, strict=True) if any(row)]
            empty += len(batch) - len(rows)
            if partly := [row for row in rows if not all(row)]:
                text = tokenizer.decode(next(filter(None, partly[0])))
                column = columns[partly[0].index([])]
                raise GradlabError(
                    f"column {column!r} has no tokens in the row of {text!r:.60}; remove the row"
                )
            for file, sizes, ids in zip(files, lengths, zip(*rows, strict=True), strict=False):
                sizes.extend(map(len, ids))
                np.fromiter(itertools.chain.from_iterable(ids), dtype).tofile(file)
    for place, sizes in enumerate(lengths if lengths[0] else ()):
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        np.save(folder / f"offsets-{place}.npy", offsets)
    return empty, cuts, len(lengths[0])


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _load(folder: Path) -> tuple[Tokens, ...] | None:
    """Return the tokens of each column in a folder, or None if it is absent or damaged."""
    try:
        record = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        content = record["content"]
        if record["checksum"] != _checksum(content):
            return None
        for name, checksum in content["checksums"].items():
            if hash_file(folder / name) != checksum:
                return None
        columns = []
        for place in range(content["columns"]):
            offsets = np.load(folder / f"offsets-{place}.npy", allow_pickle=False)
            path = next(folder.glob(f"ids-{place}.*"))
            ids = np.memmap(path, dtype=np.dtype(path.suffix[1:]), mode="r")
            columns.append(Tokens(ids, offsets, content["data_hash"], content["notes"]))
        return tuple(columns)
    except Exception:  # whatever the damage, the tokens are made anew
        return None
