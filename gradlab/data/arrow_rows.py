"""Parquet, Arrow files, and datasets that Hugging Face's `datasets` saved to disk.

A saved dataset is a folder of Arrow files and ``state.json``, which lists them; a dictionary of
splits has a folder for each split. pyarrow reads them; nothing in them is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gradlab.data.table import Table, explained
from gradlab.errors import GradlabError, listed
from gradlab.files import read_object

_ROWS = 8192  # that are converted at a time


def is_saved(path: Path) -> bool:
    """Return whether a folder holds a saved dataset, or a dictionary of splits."""
    try:
        return any((path / name).is_file() for name in ("state.json", "dataset_dict.json"))
    except OSError:
        return False


def open_saved(path: Path) -> Table:
    """Return the columns of a saved dataset; of a dictionary of splits, those of ``train``."""
    folder, split = path, ""
    if (path / "dataset_dict.json").is_file():
        listing = read_object(path / "dataset_dict.json", "the splits of ")
        splits = listing.get("splits")
        if not isinstance(splits, list) or not all(isinstance(name, str) for name in splits):
            raise GradlabError(f"{path}/dataset_dict.json lists no splits")
        if "train" not in splits and len(splits) != 1:
            folders = listed([str(path / name) for name in splits])
            raise GradlabError(f"{path} has no split 'train'; name a split's folder: {folders}")
        split = "train" if "train" in splits else splits[0]
        folder = _inside(path, split)
    state = read_object(folder / "state.json", "the state of the dataset ")
    entries = state.get("_data_files")
    try:
        files = [_inside(folder, entry["filename"]) for entry in entries]  # type: ignore[union-attr]
    except (TypeError, KeyError) as error:
        raise GradlabError(f"{folder}/state.json lists no files of data") from error
    form = "a saved dataset" + (f", split {split!r}" if split else "")
    return _open_arrow(path, files, form)


def open_arrow(path: Path) -> Table:
    """Return the columns of a file in Arrow's format, of streams or of files."""
    return _open_arrow(path, [path], "Arrow")


def open_parquet(path: Path) -> Table:
    """Return the columns of a Parquet file."""
    from pyarrow import parquet

    with arrow_errors("a Parquet file"), explained(path), parquet.ParquetFile(path) as file:
        names = tuple(file.schema_arrow.names)

    def rows(columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        with arrow_errors("a Parquet file"), parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS, columns=list(dict.fromkeys(columns))):
                yield from _tuples(batch, columns)

    return Table(path, "Parquet", names, rows, (path,))


def read_batches(file: Path) -> Iterator[Any]:
    """Yield the record batches of a file, of which an empty one carries the schema."""
    import pyarrow

    with pyarrow.memory_map(str(file)) as source:
        try:
            reader = pyarrow.ipc.open_stream(source)
            yield pyarrow.RecordBatch.from_pylist([], schema=reader.schema)
            yield from reader
        except pyarrow.ArrowInvalid:
            source.seek(0)
            file_reader = pyarrow.ipc.open_file(source)
            yield pyarrow.RecordBatch.from_pylist([], schema=file_reader.schema)
            for number in range(file_reader.num_record_batches):
                yield file_reader.get_batch(number)


class arrow_errors:  # used as a context manager
    """Turn pyarrow's errors into a ValueError that says which format was expected."""

    def __init__(self, form: str) -> None:
        self.form = form

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import pyarrow

        if isinstance(error, pyarrow.ArrowException):
            raise ValueError(f"damaged or not {self.form}: {error}") from error


def _inside(folder: Path, name: Any) -> Path:
    """Return a file of a folder; GradlabError if the name leads out of it."""
    if not isinstance(name, str) or Path(name).name != name:
        raise GradlabError(f"{folder} names {name!r:.60}, which is no file in that folder")
    return folder / name


def _open_arrow(path: Path, files: Sequence[Path], form: str) -> Table:
    names: tuple[str, ...] = ()
    with explained(path), arrow_errors("Arrow data"):
        for file in files[:1]:
            names = tuple(next(read_batches(file)).schema.names)

    def rows(columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        with arrow_errors("Arrow data"):
            for file in files:
                for batch in read_batches(file):
                    for start in range(0, batch.num_rows, _ROWS):
                        yield from _tuples(batch.slice(start, _ROWS), columns)

    return Table(path, form, names, rows, tuple(files))


def _tuples(batch: Any, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    batch = batch.select(list(dict.fromkeys(columns)))
    batch.validate(full=True)  # offsets of a damaged file would be read outside its memory
    return zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
