"""Do twenty training steps of every recipe end with the same weights, bitwise, in another checkout?

    python tests/manual/same_weights.py OTHER_CHECKOUT

Each recipe is trained in both checkouts on one thread of a processor, in float32, from one tiny
encoder; the recipe of the unified paper with each of its losses too, MoCoSE's also with heads that
begin at random. Of those that differ it is said in what their settings do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from safetensors.torch import load_file  # noqa: E402
from torch import equal  # noqa: E402

from gradlab.train.recipes import recipe_names  # noqa: E402
from tests.tiny_models import make_bert  # noqa: E402
from tests.train_helpers import write_sentences  # noqa: E402

STEPS = 20
LOSSES = ("baseline", "modified_mhe", "modified_mhs", "modified_barlow_twins", "modified_vicreg")
# Written down the same by both, or of no influence on the weights.
BESIDE = ("output", "model", "train_file")
TRAIN = """
import json, sys
from gradlab.train import TrainConfig, train
for content in json.load(sys.stdin):
    known = TrainConfig.__dataclass_fields__  # of the other checkout
    try:
        train(TrainConfig.from_dict({name: value for name, value in content.items()
            if name in known}))
    except Exception as error:
        print(content["output"], type(error).__name__, error)
"""


def trained(checkout: Path, runs: list[dict[str, object]]) -> str:
    """Train runs in a checkout; what failed, a line each."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        [sys.executable, "-c", TRAIN], input=json.dumps(runs), env=environment, cwd=checkout,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return process.stdout if process.returncode == 0 else process.stderr


def main() -> int:
    """Train and compare; 1 if weights differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("other", type=Path)
    checkouts = {"here": ROOT, "there": parser.parse_args().other.resolve()}
    names: list[tuple[str, dict[str, str]]] = [(recipe, {}) for recipe in recipe_names()]
    names += [("unified", {"loss": loss}) for loss in LOSSES] + [
        ("mocose", {"head_initial": "random"})
    ]
    different = 0
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        model, sentences = make_bert(folder / "bert"), write_sentences(folder)
        for name, checkout in checkouts.items():
            runs = []
            for place, (recipe, own) in enumerate(names):
                runs.append(
                    {
                        "recipe": recipe, "backbone": "bert-base", "model": str(model),
                        "train_file": str(sentences), "output": str(folder / name / str(place)),
                        "max_steps": STEPS, "batch_size": 16, "max_length": 16,
                        "learning_rate": 1e-3, "precision": "float32", "device": "cpu",
                        "diagnostics_every": 10, "seed": 7, **own,
                    }
                )  # fmt: skip
            if failed := trained(checkout, runs):
                print(f"{name}: {failed}")
        for number, (recipe, own) in enumerate(names):
            places = [folder / name / str(number) for name in checkouts]
            name = f"{recipe}{''.join(f', {key}={value}' for key, value in own.items())}"
            if not all((place / "encoder").exists() for place in places):
                print(f"{name}: not in both")
                continue
            weights, other_weights = (
                load_file(place / "encoder" / "model.safetensors") for place in places
            )
            configs = [
                json.loads((place / "manifest.json").read_text())["config"] for place in places
            ]
            same = weights.keys() == other_weights.keys() and all(
                equal(weights[key], other_weights[key]) for key in weights
            )
            settings = [
                f"{key}: {value!r}, there {configs[1].get(key)!r}"
                for key, value in configs[0].items()
                if not same and key not in BESIDE and value != configs[1].get(key)
            ]
            different += not same
            print("; ".join([f"{name}: {'the same' if same else 'DIFFERENT'}", *settings]))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
