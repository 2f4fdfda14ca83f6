"""One run of a sweep: trained in its own folder, continued where it was left, measured."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradlab.errors import Diverged, GradlabError
from gradlab.evaluate.embed import Encode
from gradlab.settings.objects import import_object
from gradlab.sweep.board import Assignment, Run
from gradlab.sweep.settings import configure, settings_text
from gradlab.sweep.spec import Spec
from gradlab.train.config import TrainConfig


class LostRun(Exception):
    """The run was given to another worker, because this one was silent for too long."""


def run_folder(output: Path, run: Run) -> Path:
    """The folder of a run below that of the sweep: what is varied, the seed, and the key."""
    words = settings_text({**run.point.varied, "seed": run.seed}).replace(", ", "_")
    words = re.sub(r"[^\w.=+-]+", "-", words)[:80].strip("-")
    return output / "runs" / f"{words}_{run.key[:8]}"


def empty(run: Run, output: Path) -> None:
    """Delete what there is of a run that begins anew."""
    shutil.rmtree(run_folder(output, run), ignore_errors=True)


def carry_out(
    spec: Spec, claim: Assignment, output: Path, mine: Callable[[], bool]
) -> tuple[float, dict[str, Any]]:
    """Train, evaluate and measure; continue what a worker that is gone has left in the folder.

    Args:
        spec: the sweep.
        claim: the run.
        output: folder of the sweep.
        mine: says whether the run is still this worker's.

    Returns:
        The metric, and everything measured by name.

    Raises:
        LostRun: if it is this worker's no longer.
        Diverged: if loss, weights or metric are no longer finite.
        GradlabError: for bad input.
    """
    from gradlab.train import train
    from gradlab.train.loop import finished
    from gradlab.train.run_folder import RunFolder

    run = claim.run
    folder = RunFolder(run_folder(output, run))
    config = configure(run.settings, str(folder.path))
    begun = folder.manifest_file.exists()
    result = finished(config) if begun else None
    if result is None:
        own = [one for name in spec.callbacks for one in import_object(name)(run, output)]
        result = train(config, resume=begun, callbacks=[*own, _owner(mine)])
    results = measure(folder, result)
    if run.point.evaluate:
        results |= _evaluate(run.point.evaluate, folder, config)
    value = results.get(spec.metric)
    if value is None:
        raise GradlabError(f"the run did not measure {spec.metric!r}; it measured {', '.join(results)}")
    if not math.isfinite(value):
        raise Diverged(f"{spec.metric} is {value}: the embeddings have become constant, or infinite")
    return value, {name: one for name, one in results.items() if math.isfinite(one)}


def _owner(mine: Callable[[], bool]) -> Any:
    """A callback that ends a training with `LostRun` once the run is not this worker's any more."""
    from gradlab.train import Callback

    class Owner(Callback):
        def on_step(self, trainer: Any, output: Any) -> None:
            if not mine():
                raise LostRun

    return Owner()


def tidy(spec: Spec, run: Run, output: Path) -> None:
    """Delete what a finished run needs no more: checkpoints, and the encoders unless they are kept."""
    from gradlab.train.run_folder import RunFolder

    folder = RunFolder(run_folder(output, run))
    shutil.rmtree(folder.checkpoints, ignore_errors=True)
    if not spec.keep_encoders:
        for place in (folder.best, folder.encoder):
            shutil.rmtree(place, ignore_errors=True)


def measure(folder: Any, result: Any) -> dict[str, float]:
    """Best and last score of the training, and the last value of everything in the metrics file."""
    from gradlab.monitor.history import HISTOGRAM
    from gradlab.monitor.metrics import read_metrics

    results: dict[str, float] = {}
    if result.scores:
        last, name = result.scores[max(result.scores)], result.selection
        best = last if result.best_step is None else result.best_score
        results |= {name: best, f"{name}_last": last, "best_step": float(result.best_step or 0)}
    results |= {"steps": float(result.steps), "seconds": folder.read_manifest()["results"]["seconds"]}
    rows = read_metrics(folder.metrics_file)
    return results | {f"{group}/{name}": value for _, group, name, value in rows if group != HISTOGRAM}


def encode_of(place: str | Path, config: TrainConfig, pooler: str | None = None) -> Encode:
    """``encode`` of the encoder in a folder, on a run's device and in its precision.

    In float32, scoring the seven STS sets takes longer than a short training in bfloat16.
    """
    from gradlab.encoder.model import Encoder
    from gradlab.train.distributed import find_device
    from gradlab.train.machine import encode_in

    encoder = Encoder.load(place, pooler, device=find_device(config.device))
    return encode_in(encoder, config.precision, progress=False)


def _evaluate(tasks: tuple[str, ...], folder: Any, config: Any) -> dict[str, float]:
    import torch

    from gradlab.evaluate import evaluate

    place = folder.best if folder.best.exists() else folder.encoder
    # As many processes for the classifiers as this worker has threads: its share of the cores.
    result = evaluate(encode_of(place, config), config.sts, tasks, jobs=torch.get_num_threads())
    if result.not_evaluated:  # an average over fewer tasks is another number
        task, why = next(iter(result.not_evaluated.items()))
        raise GradlabError(f"{task} could not be evaluated: {why}")
    return {**result.averages, **result.sts, **result.transfer()}
