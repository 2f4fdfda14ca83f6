"""Train a tiny encoder with each tracker that is installed, and print what arrived.

    python tests/manual/trackers.py

Weights & Biases runs offline; trackio writes to a folder of its own.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


def main() -> None:
    place = Path(tempfile.mkdtemp(prefix="trackers-"))
    os.environ |= {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(place),
        "WANDB_SILENT": "true",
        "TRACKIO_DIR": str(place / "trackio"),
    }
    import gradlab
    from tests.sentence_training import columns_of, losses, make_trainer
    from tests.tiny_models import make_bert

    make_bert(place / "bert")
    for name in ("tensorboard", "wandb", "trackio"):
        if importlib.util.find_spec(name) is None:
            print(f"{name}: not installed")
            continue
        trainer = make_trainer(
            place / "bert",
            place / name,
            lambda model: losses.MultipleNegativesRankingLoss(model),
            columns_of(48),
            max_steps=6,
            learning_rate=1e9,
            report_to=name,
        )
        watch = gradlab.watch(trainer, every=1)
        with warnings.catch_warnings(record=True) as record:
            warnings.simplefilter("always")
            trainer.train()
        down = [str(w.message) for w in record if "leaves it out" in str(w.message)]
        print(f"\n{name} {importlib.import_module(name).__version__}: {down or 'no error'}")
        print(f"  grade {watch.judgement.grade}; records {len(watch.to_frame())}")
        READERS[name](place)


def tensorboard(place: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (events,) = (place / "tensorboard").rglob("events.out.tfevents*")
    tracked = EventAccumulator(str(events))
    tracked.Reload()
    print("  numbers:", [n for n in tracked.Tags()["scalars"] if "gradlab" in n][:3])
    print("  texts:", [n for n in tracked.Tags()["tensors"] if "gradlab" in n])


def wandb(place: Path) -> None:
    import wandb

    run = wandb.run
    names = [name for name in dict(run.summary) if "gradlab" in name]
    print("  summary:", [name for name in names if "verdicts" in name or "grade" in name])
    print("  numbers:", [name for name in names if "dissipation" in name])
    run.finish()


def trackio(place: Path) -> None:
    import sqlite3

    for file in (place / "trackio").rglob("*.db"):
        with sqlite3.connect(file) as base:
            tables = [row[0] for row in base.execute("select name from sqlite_master")]
            for table in ("metrics", "alerts"):
                if table in tables:
                    rows = [str(row) for row in base.execute(f"select * from {table}")]
                    own = [row for row in rows if "gradlab" in row]
                    print(f"  {table}: {len(own)} rows; last {own[-1][:300] if own else ''}")


READERS = {"tensorboard": tensorboard, "wandb": wandb, "trackio": trackio}

if __name__ == "__main__":
    main()
