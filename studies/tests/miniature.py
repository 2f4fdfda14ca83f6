"""Train every point of every specification in studies/sweeps in miniature.

A point takes two steps of 8 sentences on a small made BERT, and is scored.

    python -m studies.tests.miniature [SPEC.toml ...]  # all by default; a line each

The exit code is 1 if any point fails.

What it shows is that each table of the papers can be run as it is written; it says nothing about
its results. Batches and queues are cut to what 256 sentences fill (proportions between them are
lost), lengths to 16 tokens, everything else is the specification's.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import sys
import tempfile
import time
from pathlib import Path

from gradlab.sweep import configure, read_spec
from gradlab.train import train
from tests.senteval_folder import make_senteval
from tests.tiny_models import make_bert, make_sentences

SPECIFICATIONS = Path(__file__).resolve().parents[1] / "sweeps"

SMALL = {
    "max_steps": 2,
    "batch_size": 8,
    "max_length": 16,
    "warmup_steps": 0,
    "eval_every": 2,
    "save_every": 2,
}
QUEUE = 16  # at most, of a specification that has a queue


def run(point: dict, files: dict, output: Path) -> None:
    """Train one point, and score it on STS-B dev."""
    settings = point | SMALL | files | {"seed": 1, "backbone": "bert-base"}
    if settings.get("queue_ages"):
        settings["batch_size"] = 4
    elif settings.get("queue_size"):
        settings["queue_size"] = min(settings["queue_size"], QUEUE)
        if settings.get("queue_initial"):
            settings["queue_initial"] = min(settings["queue_initial"], settings["queue_size"])
    result = train(configure(settings, str(output)))
    assert result.steps == 2
    assert math.isfinite(result.scores[2])


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("specs", nargs="*", type=Path)
    specs = parser.parse_args().specs or sorted(SPECIFICATIONS.glob("*.toml"))
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "sentences.txt").write_text(
            "\n".join(make_sentences(256)) + "\n", encoding="utf-8"
        )
        files = {
            "model": str(make_bert(folder / "bert")),
            "train_file": str(folder / "sentences.txt"),
            "eval_data": str(make_senteval(folder / "senteval")),
        }
        for spec in specs:
            points = read_spec(spec).with_base({"backbone": "bert-base"}).points({})
            began, ran = time.perf_counter(), 0
            for number, point in enumerate(points):
                said = io.StringIO()
                try:
                    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                        run(dict(point.settings), files, folder / f"{spec.stem}-{number}")
                    ran += 1
                except Exception as error:
                    print(f"  {spec.stem}: {point.label}: {type(error).__name__}: {error}")
            failed += len(points) - ran
            seconds = time.perf_counter() - began
            print(f"{spec.stem}: {ran} of {len(points)} points, {seconds:.0f} s", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
