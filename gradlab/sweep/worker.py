"""A worker, which claims runs one by one, trains and evaluates them, and records the results."""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradlab.errors import Diverged, GradlabError, counted
from gradlab.evaluate.embed import Encode
from gradlab.settings.objects import import_object
from gradlab.sweep.flat_settings import configure, settings_text
from gradlab.sweep.spec import Spec
from gradlab.sweep.trials import RUNNING, Run, Trials
from gradlab.train.config import TrainConfig

PATIENCE = 5  # seconds between checks of the other workers


class LostRun(BaseException):
    """The run was given to another worker, because this worker was silent for too long.

    No error of the training, which goes on there.
    """


def run_folder(output: Path, run: Run) -> Path:
    """Return the folder of a run within the sweep's, named after varied settings, seed and key."""
    words = settings_text({**run.point.varied, "seed": run.seed}).replace(", ", "_")
    words = re.sub(r"[^\w.=+-]+", "-", words)[:80].strip("-")
    return output / "runs" / f"{words}_{run.key[:8]}"


def work(trials: Trials, output: Path, say: Callable[[str], None], *, wait: bool = True) -> None:
    """Make runs until none is left to claim; with ``wait``, until no other worker has a run either.

    When interrupted, release the current run, so that any worker can continue it.
    """
    announced = False
    while True:
        if run := trials.claim():
            _make(trials, run, output, say)
            announced = False
            continue
        running = sum(run.state == RUNNING for run in trials.runs())
        if not running or not wait:
            return
        if not announced:
            ours = "this worker takes over any whose worker dies"
            say(f"Waiting: other workers have {counted(running, 'run')}; {ours}.")
        announced = True
        time.sleep(min(trials.heartbeat, PATIENCE))


def carry_out(
    spec: Spec, run: Run, output: Path, holds_run: Callable[[], bool]
) -> tuple[float, dict[str, float]]:
    """Train and evaluate a run, or continue it in its folder; return its metric and measurements.

    Raises LostRun if ``holds_run`` returns False, Diverged if the metric is not finite, and
    GradlabError where training raises it.
    """
    from gradlab.train import Callback, train
    from gradlab.train.run_folder import RunFolder, finished

    folder = RunFolder(run_folder(output, run))
    config = configure(run.settings, str(folder.path))
    folder.wait()  # a worker that was silent for too long leaves the run after its current step
    begun = folder.manifest_file.exists()
    result = finished(config) if begun else None
    if result is None:
        callbacks = [
            callback for name in spec.callbacks for callback in import_object(name)(run, output)
        ]

        class Owner(Callback):
            def on_step(self, trainer: Any, output: Any) -> None:
                if not holds_run():
                    raise LostRun

        result = train(config, resume=begun, callbacks=[*callbacks, Owner()])
    results = measure(folder, result)
    if run.point.evaluate:
        results |= _evaluate(run.point.evaluate, folder, config)
    value = results.get(spec.metric)
    if value is None:
        measured = ", ".join(results)
        raise GradlabError(f"the run did not measure {spec.metric!r}; it measured {measured}")
    if not math.isfinite(value):
        raise Diverged(f"{spec.metric} is {value}: the embeddings are constant or infinite now")
    return value, {name: number for name, number in results.items() if math.isfinite(number)}


def measure(folder: Any, result: Any) -> dict[str, float]:
    """Return best and last score of a training, and each entry's last value in its metrics file."""
    from gradlab.monitor.metrics import HISTOGRAM, read_metrics

    results: dict[str, float] = {}
    if result.scores:
        last, name = result.scores[max(result.scores)], result.selection
        best = last if result.best_step is None else result.best_score
        results |= {name: best, f"{name}_last": last, "best_step": float(result.best_step or 0)}
    results |= {
        "steps": float(result.steps),
        "seconds": folder.read_manifest()["results"]["seconds"],
    }
    rows = read_metrics(folder.metrics_file)
    return results | {
        f"{group}/{name}": value for _, group, name, value in rows if group != HISTOGRAM
    }


def encode_of(place: str | Path, config: TrainConfig, pooler: str | None = None) -> Encode:
    """Return the ``encode`` of an encoder in a folder, on a run's device and in its precision.

    In float32, scoring the seven STS sets takes longer than a short training in bfloat16.
    """
    from gradlab.encoder.model import Encoder
    from gradlab.train.hardware import encode_in

    encoder = Encoder.load(place, pooler, device=config.device)
    return encode_in(encoder, config.precision, progress=False)


def _make(trials: Trials, run: Run, output: Path, say: Callable[[str], None]) -> None:
    """Make a claimed run, record how it ended, and delete files a finished run no longer needs."""
    from gradlab.train.run_folder import RunFolder

    say(f"Run: {run.title()}")
    try:
        with trials.alive(run) as holds_run:
            value, results = carry_out(trials.spec, run, output, holds_run)
        if not trials.finish(run, value, results):
            raise LostRun
    except LostRun:
        say(f"Lost: {run.title()}; another worker has it, because this one was silent for too long")
    except KeyboardInterrupt:
        trials.release(run)
        raise
    except Exception as error:  # any error is recorded, and the other runs go on
        kind = "" if isinstance(error, GradlabError) else f"{type(error).__name__}: "
        words = kind + " ".join(str(error).split())[:1000]
        diverged = isinstance(error, Diverged)
        trials.fail(run, words, diverged)
        say(f"{'Diverged' if diverged else 'Failed'}: {run.title()}: {words}")
    else:
        folder = RunFolder(run_folder(output, run))
        encoders = () if trials.spec.keep_encoders else (folder.best, folder.encoder)
        for unused in (folder.checkpoints, *encoders):
            shutil.rmtree(unused, ignore_errors=True)
        say(f"Finished: {run.title()}: {trials.spec.metric} {value:.4f}")


def _evaluate(tasks: tuple[str, ...], folder: Any, config: Any) -> dict[str, float]:
    import torch

    from gradlab.evaluate import evaluate

    place = folder.best if folder.best.exists() else folder.encoder
    # The classifiers get as many processes as this worker has threads, its share of the cores.
    result = evaluate(
        encode_of(place, config), config.eval_data, tasks, jobs=torch.get_num_threads()
    )
    if result.not_evaluated:  # an average over fewer tasks is not comparable
        task, why = next(iter(result.not_evaluated.items()))
        raise GradlabError(f"{task} could not be evaluated: {why}")
    return {**result.averages, **result.sts, **result.transfer()}
