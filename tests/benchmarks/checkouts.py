"""Processor time of components, losses, simulation, blocks and a training step, of two checkouts.

    python tests/benchmarks/checkouts.py OTHER_CHECKOUT --model FOLDER_OF_A_SMALL_BERT
    python tests/benchmarks/checkouts.py OTHER_CHECKOUT --only components simulate

Each checkout has a process of its own with one thread, and both take turns, so that they see the
same load. A ratio is the median over turns of here / other; ratios of each pair of processes tell
how far it can be trusted, since a process may have unlucky memory.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

CHECKOUT = Path(__file__).resolve().parents[2]
PLAIN = ("infonce", "arccon", "mpt", "supcon", "mhe", "vicreg", "symmetric(infonce)")
SIDES = ("infonce", "symmetric(infonce)", "sum(infonce, gor)", "supcon")
BLOCKWISE = ("infonce", "symmetric(infonce)")


def names(with_model: bool) -> list[str]:
    """Return the tasks: a kind, a size and a loss."""
    tasks = [f"components {size} {loss}" for size in (64, 512) for loss in ("infonce", "arccon")]
    tasks += [f"both-sides {size} {loss}" for size in (64, 512) for loss in SIDES]
    tasks += [f"plain {size} {loss}" for size in (64, 512) for loss in PLAIN]
    tasks += ["simulate 64 arccon"]
    tasks += [f"blockwise {size} {loss}" for size in (512, 4096, 16384) for loss in BLOCKWISE]
    return tasks + ["training 8 infonce", "training 64 infonce"] * with_model


def unit_rows(size: int, dtype: torch.dtype, dimensions: int = 128) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(size, dimensions, dtype=dtype), dim=1)


def evaluation(kind: str, size: int, loss: str) -> Callable[[], object]:
    """Return a function that does a task once."""
    import gradlab

    torch.manual_seed(0)
    if kind == "simulate":
        return functools.partial(gradlab.simulate, loss)
    if kind in ("components", "both-sides"):
        rows = [unit_rows(size, torch.float64).numpy() for _ in "ab"]
        side = "both" if kind == "both-sides" else "anchors"
        return lambda: gradlab.components(loss, *rows, side=side)
    criterion = gradlab.blockwise(loss) if kind == "blockwise" else gradlab.get_loss(loss)
    leaves = [unit_rows(size, torch.float32).requires_grad_() for _ in "ab"]

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        criterion(*leaves).backward()

    return run


def seconds_of(kind: str, size: int, loss: str, model: str) -> Iterator[float]:
    """Yield the processor seconds of a task, each time that it is asked."""
    if kind == "training":
        yield from steps(model, size, loss)
        return
    run = evaluation(kind, size, loss)
    began = time.process_time()
    run()
    repeats = max(1, round(0.03 / max(time.process_time() - began, 1e-5)))
    while True:
        began = time.process_time()
        for _ in range(repeats):
            run()
        yield (time.process_time() - began) / repeats


def steps(model: str, size: int, loss: str) -> Iterator[float]:
    """Train in a thread that stops after each step, and yield each step's processor seconds."""
    import threading

    from gradlab.train import Callback, TrainConfig, train

    asked, finished, noted = threading.Semaphore(0), threading.Semaphore(0), [0.0]

    class Stop(Callback):
        began = 0.0

        def on_step(self, trainer, output):
            noted[0] = time.process_time() - self.began
            finished.release()
            asked.acquire()
            self.began = time.process_time()

    folder = Path(tempfile.mkdtemp())
    sentences = (f"sentence number {i} is about topic {i % 7}" for i in range(64))
    (folder / "t.txt").write_text("\n".join(sentences))
    config = TrainConfig(
        model=model, train_file=str(folder / "t.txt"), output=str(folder / "run"), max_steps=10_000,
        batch_size=size, diagnostics_every=0, log_every=10**6, save_every=10**6, device="cpu",
        loss=loss, precision="float32", threads=1,
    )  # fmt: skip

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            train(config, callbacks=[Stop()])

    answers, sys.stdout = sys.stdout, io.StringIO()
    threading.Thread(target=run, daemon=True).start()
    finished.acquire()
    sys.stdout = answers
    for _ in range(3):  # warm
        asked.release()
        finished.acquire()
    while True:
        asked.release()
        finished.acquire()
        yield noted[0]


def serve(model: str) -> None:
    """Answer each line of input, a task, with its processor seconds."""
    import gradlab

    torch.set_num_threads(1)
    # As a process that trains has freed: until then glibc maps each larger array anew.
    torch.empty(2**22)
    answers = os.fdopen(os.dup(1), "w")  # training redirects the standard streams of its process
    print(json.dumps(str(gradlab.__file__)), file=answers, flush=True)
    clocks: dict[str, Iterator[float]] = {}
    for line in sys.stdin:
        task = line.rstrip("\n")
        if task not in clocks:
            kind, size, loss = task.split(" ", 2)
            clocks[task] = seconds_of(kind, int(size), loss, model)
        print(json.dumps(next(clocks[task])), file=answers, flush=True)
    os._exit(0)  # the thread of a training waits


class Worker:
    """A process that does tasks with one checkout."""

    def __init__(self, folder: Path, model: str) -> None:
        command = [sys.executable, __file__, str(folder), "--serve", "--model", model]
        environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._folder = folder

    def wait(self) -> None:
        """Wait until the process is ready, and check that it has imported its checkout."""
        imported = Path(self._answer()).resolve()
        assert imported.is_relative_to(self._folder), (imported, self._folder)

    def seconds(self, task: str) -> float:
        self.process.stdin.write(f"{task}\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a worker has ended; write its task to --serve to see why")
        return json.loads(line)


def measure(task: str, workers: tuple[Worker, Worker], turns: int) -> list[tuple[float, float]]:
    """Return the seconds of both checkouts in each turn."""
    for worker in workers:
        worker.seconds(task)
    times = []
    for turn in range(3 if "16384" in task else turns):
        order = (0, 1) if turn % 2 else (1, 0)
        measured = {at: workers[at].seconds(task) for at in order}
        times.append((measured[0], measured[1]))
    return times


def cells(pairs: list[list]) -> tuple[str, ...]:
    """Return milliseconds of both checkouts, the ratio, and the ratios of the pairs."""
    of_pairs = [statistics.median(own / beside for beside, own in pair) for pair in pairs]
    turns = [seconds for pair in pairs for seconds in pair]
    beside, own = (1000 * statistics.median(column) for column in zip(*turns, strict=True))
    return (
        f"{beside:.3g}",
        f"{own:.3g}",
        f"{statistics.median(of_pairs):.3f}",
        f"{min(of_pairs):.2f} to {max(of_pairs):.2f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("--model", default="", help="a small encoder, for the training step")
    parser.add_argument("--only", nargs="+", default=[], help="words of tasks")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.model)
        return
    tasks = names(bool(options.model))
    if options.only:
        tasks = [task for task in tasks if any(word in task for word in options.only)]
    other, model = options.other.resolve(), options.model
    pairs = [(Worker(other, model), Worker(CHECKOUT, model)) for _ in range(options.pairs)]
    for worker in (worker for pair in pairs for worker in pair):
        worker.wait()
    print("| task | CPU ms, other | here | here / other | of pairs |\n|---|--:|--:|--:|---|")
    for task in tasks:
        times = [measure(task, pair, options.turns) for pair in pairs]
        print(f"| {task} | {' | '.join(cells(times))} |", flush=True)
    for worker in (worker for pair in pairs for worker in pair):
        worker.process.stdin.close()
        worker.process.wait()


if __name__ == "__main__":
    main()
