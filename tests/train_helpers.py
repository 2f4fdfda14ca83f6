"""Small training runs for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from gradlab.train import TrainConfig
from tests.tiny_models import make_sentences


def write_sentences(folder: Path, count: int = 200) -> Path:
    path = folder / "sentences.txt"
    path.write_text("\n".join(make_sentences(count)), encoding="utf-8")
    return path


def write_stsb(folder: Path, pairs: int = 30) -> Path:
    """STS-B dev in SentEval's layout: pairs of made-up sentences, scored by the words that they share."""
    place = folder / "senteval" / "STS" / "STSBenchmark"
    place.mkdir(parents=True, exist_ok=True)
    first, second = make_sentences(pairs, seed=11), make_sentences(pairs, seed=12)
    rows = []
    for place_in_set, (one, other) in enumerate(zip(first, second, strict=True)):
        words = one.split()
        kept = words[: place_in_set % (len(words) + 1)]
        mixed = " ".join(kept + other.split()[len(kept) :])
        score = 5 * len(kept) / len(words)
        rows.append(f"main\tmade-up\t2020\t{place_in_set:04d}\t{score:.3f}\t{one}\t{mixed}")
    (place / "sts-dev.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder / "senteval"


def small_config(start: Path, folder: Path, output: str = "run", **changes: Any) -> TrainConfig:
    settings = {
        "model": str(start),
        "train_file": str(write_sentences(folder)),
        "output": str(folder / output),
        "max_length": 16,
        "batch_size": 8,
        "max_steps": 6,
        "learning_rate": 1e-3,
        "save_every": 2,
        "log_every": 1,
        "diagnostics_every": 3,
        "device": "cpu",
        "precision": "float32",  # the same on every machine
    }
    return TrainConfig.from_dict(settings | changes)


def final_weights(output: str | Path) -> dict[str, torch.Tensor]:
    return load_file(Path(output) / "encoder" / "model.safetensors")


def same_weights(one: str | Path, other: str | Path) -> bool:
    first, second = final_weights(one), final_weights(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
