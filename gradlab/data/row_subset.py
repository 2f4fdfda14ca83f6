"""Copies of some rows of a training file, in the format of the file.

Rows are copied as they stand, with all columns; only a JSON array is written anew.
"""

from __future__ import annotations

import codecs
import itertools
import json
from collections.abc import Collection, Iterator
from pathlib import Path

from gradlab.data.arrow_rows import is_saved
from gradlab.data.beir import is_beir
from gradlab.data.json_rows import is_array, read_values
from gradlab.data.separated_values import find_dialect, records
from gradlab.data.suffixes import ARROW, JSON, PARQUET, SEPARATED, form_of
from gradlab.data.table import Table, open_text
from gradlab.errors import GradlabError, require_package
from gradlab.files import atomic_folder, atomic_path
from gradlab.progress_bars import no_bars_of_datasets


def check_copy(source: Path, output: Path) -> None:
    """Raise `GradlabError` unless rows of one file can be copied to the other.

    They are different files of the same format and compression.
    """
    if source.resolve() == output.resolve():
        raise GradlabError(
            f"{output} is the training file itself; give another name, which keeps what is left out"
        )
    if is_beir(source):
        raise GradlabError("rows of a folder in BEIR's layout are not copied; write a .jsonl file")
    ending = form_of(source)[0]
    if not is_saved(source) and form_of(output)[0] != ending:
        raise GradlabError(
            f"{output} must have the ending of {source.name}, {ending or 'none'}: "
            "rows are copied as they are"
        )


def copy_rows(table: Table, output: Path, numbers: Collection[int]) -> Path:
    """Copy the rows with these ``numbers``, from 1, into a file of the same format.

    Raises:
        GradlabError: a file that cannot be written.
    """
    source = table.path
    if is_saved(source):
        return _copy_saved(table, output, sorted(numbers))
    ending = form_of(source)[0]
    if ending in (*PARQUET, *ARROW):
        return _copy_arrow(table, output, sorted(numbers))
    encoding = "utf-8" if codecs.lookup(table.encoding).name == "utf-8" else table.encoding
    with (
        atomic_path(output) as path,
        form_of(path)[1](path, "wt", encoding=encoding, newline="\n") as file,
    ):
        if ending in JSON and is_array(source, table.encoding):
            rows = enumerate(read_values(source, table.encoding, array=True), start=1)
            texts = [
                json.dumps(row, ensure_ascii=False) for number, row in rows if number in numbers
            ]
            file.write("[\n" + ",\n".join(texts) + "\n]\n")
        else:
            for record in _records(table, ending, numbers):
                file.write(record.removesuffix("\n") + "\n")
    return output


def _records(table: Table, ending: str, numbers: Collection[int]) -> Iterator[str]:
    """Yield the text of the header, if there is one, and of the rows with these numbers."""
    with open_text(table.path, table.encoding) as file:
        texts: Iterator[str] = iter(file)
        if ending in SEPARATED:
            texts = records(file, find_dialect(table.path, ending, table.encoding))
            yield next(texts)
        for number, text in zip(itertools.count(1), texts, strict=False):
            if number in numbers:
                yield text


def _copy_arrow(table: Table, output: Path, numbers: list[int]) -> Path:
    import pyarrow
    from pyarrow import parquet

    places = [number - 1 for number in numbers]
    if form_of(table.path)[0] in PARQUET:
        with atomic_path(output) as path:
            parquet.write_table(parquet.read_table(table.path).take(places), path)
        return output
    from gradlab.data.arrow_rows import read_batches

    rows = pyarrow.Table.from_batches(read_batches(table.path)).take(places)
    with (
        atomic_path(output) as path,
        pyarrow.OSFile(str(path), "wb") as file,
        pyarrow.ipc.new_stream(file, rows.schema) as writer,
    ):
        writer.write_table(rows)
    return output


def _copy_saved(table: Table, output: Path, numbers: list[int]) -> Path:
    """Copy rows of a dataset that was saved to disk, with the library that saved it."""
    datasets = require_package("datasets")
    with no_bars_of_datasets(), atomic_folder(output) as folder:
        dataset = datasets.load_from_disk(str(table.files[0].parent))
        dataset.select([number - 1 for number in numbers]).save_to_disk(str(folder))
    return output
