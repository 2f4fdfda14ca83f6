"""Is a training that is killed resumed to the same bits, with one and two processes?

    python tests/manual/kills.py [--repeats 10] [--seed 0] [--processes 1 2]

For each signal (SIGKILL, SIGTERM) and each number of processes, a tiny encoder is trained and the
signal sent to all processes at a random moment of the training: SIGTERM to one of them only in
every second run. The run is resumed until it ends, and its weights are compared with those of an
undisturbed run. After a SIGTERM the processes must have written a checkpoint of the step at which
they stopped, and the manifest must say that the run has ended. No unfinished file may be left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ["OMP_NUM_THREADS"] = "1"

from tests.processes import gradlab_command, start  # noqa: E402
from tests.tiny_models import make_bert  # noqa: E402
from tests.train_helpers import same_weights, write_sentences  # noqa: E402

STEPS = 120
SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM}


def launch(folder: Path, count: int, log: Path, *arguments: str) -> list[Any]:
    """Start ``gradlab train`` in ``count`` processes that find each other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return [
        start(
            gradlab_command, "train", *arguments, log=log, RANK=str(rank), LOCAL_RANK=str(rank),
            WORLD_SIZE=str(count), LOCAL_WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port, GRADLAB_CACHE_DIR=str(folder / "cache"),
        )
        for rank in range(count)
    ]  # fmt: skip


def wait(processes: list[Any]) -> list[int]:
    for process in processes:
        process.join(300)
        process.kill()
    return [process.exitcode for process in processes]


def steps_of(run: Path) -> int:
    """The last step whose loss is recorded; 0 before the first."""
    try:
        lines = (run / "metrics.csv").read_text().splitlines()[1:]
    except OSError:
        return 0
    return max((int(line.partition(",")[0]) for line in lines if ",train," in line), default=0)


def disturbed(
    folder: Path, name: str, count: int, number: int, draw: random.Random, settings: list[str]
) -> str:
    """Train, kill at a random moment, resume to the end; return what is wrong, or ""."""
    run, log = folder / f"{name}-{count}-{number}", folder / f"{name}-{count}-{number}.log"
    processes = launch(folder, count, log, *settings, "--output", str(run))
    target = draw.randrange(1, STEPS - 20)
    while steps_of(run) < target and all(process.is_alive() for process in processes):
        time.sleep(0.005)
    time.sleep(draw.random() / 50)
    only_one = name == "SIGTERM" and number % 2 == 1
    for process in processes[-1:] if only_one else processes:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself, as its code will show
            os.kill(process.pid, SIGNALS[name])
    codes = wait(processes)
    problems = []
    if name == "SIGTERM":
        checkpoints = [int(place.name[-8:]) for place in (run / "checkpoints").glob("step-*")]
        stopped = f"Stopped after step {max(checkpoints, default=0)};"
        status = json.loads((run / "manifest.json").read_text())["status"]
        if codes != [130] * count or stopped not in log.read_text() or status != "ended":
            problems.append(f"codes {codes}, checkpoints {checkpoints}, status {status}")
    codes = wait(launch(folder, count, log, "--resume", "--output", str(run)))
    if codes != [0] * count:
        problems.append(f"resumed with codes {codes}")
    elif not same_weights(run, folder / f"undisturbed-{count}"):
        problems.append("other weights")
    unfinished = [path.name for path in run.rglob(".*") if path.is_file() and path.name != ".lock"]
    if unfinished:
        problems.append(f"left {', '.join(unfinished)}")
    if log.read_text().count(f"Trained {STEPS} steps") != 1:
        problems.append("the end is not printed once")
    if "Traceback" in log.read_text() and name == "SIGTERM":
        problems.append("a traceback")
    return "; ".join(problems)


def main() -> int:
    """Run all cases; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    draw, failures = random.Random(options.seed), 0
    with tempfile.TemporaryDirectory(prefix="gradlab-kills-") as place:
        folder = Path(place)
        settings = [
            "--model", str(make_bert(folder / "model")),
            "--train-file", str(write_sentences(folder)), "--max-steps", str(STEPS),
            "--batch-size", "8", "--max-length", "16", "--save-every", "7", "--log-every", "1",
            "--diagnostics-every", "10", "--device", "cpu", "--precision", "float32",
        ]  # fmt: skip
        for count in options.processes:
            undisturbed = folder / f"undisturbed-{count}"
            log = folder / f"undisturbed-{count}.log"
            codes = wait(launch(folder, count, log, *settings, "--output", str(undisturbed)))
            assert codes == [0] * count, log.read_text()
            for name in SIGNALS:
                wrong = []
                for number in range(options.repeats):
                    if problem := disturbed(folder, name, count, number, draw, settings):
                        wrong.append(f"run {number}: {problem}")
                failures += len(wrong)
                print(
                    f"{name}, {count} process{'es' if count > 1 else ''}: "
                    f"{options.repeats - len(wrong)} of {options.repeats} as undisturbed",
                    *wrong, sep="\n  ", flush=True,
                )  # fmt: skip
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
