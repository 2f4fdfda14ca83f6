"""What each function makes of the six losses of ``docs/my_losses.py``.

``python tests/manual/own_losses.py`` writes the table of docs/write-a-loss.md. It takes about
five minutes: a training, an audit on two processes and an explorer's page for each.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import gradlab  # noqa: E402
from gradlab.atlas import measure  # noqa: E402
from gradlab.explorer import heatmap_data  # noqa: E402
from gradlab.gradient.verification import paired_batch  # noqa: E402
from gradlab.train.trainer import Trainer  # noqa: E402
from tests.tiny_models import make_bert  # noqa: E402
from tests.train_helpers import small_config  # noqa: E402

NAMES = ("CrossEntropy", "hinge", "poly_nce", "LearnedMargin", "Queue", "Covariance")
FILE, PAGE = ROOT / "docs" / "my_losses.py", ROOT / "docs" / "write-a-loss.md"
BEGIN, END = "<!-- table: tests/manual/own_losses.py -->", "<!-- end of table -->"
VIEWS = paired_batch(np.random.default_rng(0), 24, 40)


def train(loss: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            small_config(make_bert(Path(folder) / "bert"), Path(folder), loss=loss, max_steps=3)
        ).run()


def watch(loss: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        watched = gradlab.watch(gradlab.get_loss(loss).original, output=folder, every=1)
        for _ in range(2):
            watched(*(torch.tensor(rows, requires_grad=True) for rows in VIEWS)).backward()
        if note := [probe.note for probe in watched.watch._probes.values() if probe.note]:
            raise gradlab.GradlabError(note[0])


def audit(loss: str) -> None:
    report = gradlab.audit(loss, uneven=False)
    if not report.passed:
        raise gradlab.GradlabError("it sees only the sentences of its own process")


CALLS: dict[str, Callable[[str], Any]] = {
    "the value": lambda loss: gradlab.get_loss(loss)(*VIEWS),
    "autograd_gradient": lambda loss: gradlab.autograd_gradient(loss, *VIEWS),
    "train": train,
    "audit": audit,
    "components": lambda loss: gradlab.components(loss, *VIEWS, side="both"),
    "decompose": lambda loss: gradlab.decompose(loss, *VIEWS).summary(),
    "verify": lambda loss: gradlab.verify(loss, batch_size=8, dim=20),
    "simulate": lambda loss: gradlab.simulate(loss, grid=3, batches=3, negatives=7, progress=False),
    "plot_curves": lambda loss: gradlab.plot_curves([loss, "infonce"]),
    "atlas": measure,
    "explore": lambda loss: gradlab.explore(loss, progress=False),
    "find_false_negatives": lambda loss: gradlab.find_false_negatives(
        embeddings=dict(zip(("anchors", "positives"), VIEWS, strict=True)), loss=loss, batch_size=12
    ),
    "watch": watch,
    "blockwise": gradlab.blockwise,
    "recombine": lambda loss: gradlab.recombine(gate=loss, weight="infonce", ratio=1.0),
    "combinators": lambda loss: gradlab.get_loss(f"symmetric({loss})"),
}


def table() -> str:
    """A row for calls that answer alike, a column a loss: yes, or the number of its answer line."""
    heatmap_data.ROWS = heatmap_data.COLUMNS = 4
    reasons: list[str] = []
    alike: dict[tuple[str, ...], list[str]] = {}
    for call, function in CALLS.items():
        cells = []
        for name in NAMES:
            try:
                function(f"{FILE}:{name}")
                cells.append("yes")
            except gradlab.GradlabError as error:
                text = str(error).replace(f"{FILE}:{name}", "*loss*").replace(name, "*loss*")
                text = re.sub(r"\b\d+\.\d+\b|(?<=as code, and ).*(?= needs formulas)", "…", text)
                reasons += [] if text in reasons else [text]
                cells.append(f"({reasons.index(text) + 1})")
            print(call, name, cells[-1], flush=True)
        alike.setdefault(tuple(cells), []).append(call)
    rows = ["| |" + "".join(f" `{name}` |" for name in NAMES), "|---|" + ":-:|" * len(NAMES)]
    rows += [
        f"| {', '.join(calls)} | " + " | ".join(cells) + " |" for cells, calls in alike.items()
    ]
    return "\n".join([*rows, "", *(f"{number}. {text}" for number, text in enumerate(reasons, 1))])


if __name__ == "__main__":
    before, _, after = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after.partition(END)[2]}", encoding="utf-8")
