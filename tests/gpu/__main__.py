"""``python -m tests.gpu``: check gradlab on an NVIDIA GPU, and measure how fast it is there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import torch

from gradlab.cli.commands import run
from gradlab.files import read_object
from tests.gpu.predictions import table
from tests.gpu.running import check_gpu, failed, plan
from tests.gpu.write_times import times


@click.command(
    epilog="""\b
Examples:
  python -m tests.gpu
  python -m tests.gpu --estimate
  python -m tests.gpu --section gradients --section blockwise
  python -m tests.gpu --section training --model FOLDER --train-file FILE
  python -m tests.gpu --device cpu
  python -m tests.gpu --predict
  python -m tests.gpu --times gpu-check/results.json

Without an NVIDIA GPU it says so and does nothing. With one, it compares the GPU with the CPU
(closed forms, gradients, decomposition, blockwise losses, processes, audits, resumed runs) and
measures the loss and training beside other libraries, as far as they are installed. Results are
kept after each case, as results.json and page.md; the same command goes on where it stopped. Exit
code 1 if a check fails."""
)
@click.option(
    "--section", "sections", multiple=True, metavar="NAME",
    help="A section to run; repeatable. Default: all.",
)  # fmt: skip
@click.option("--output", default="gpu-check", show_default=True, help="Folder of the results.")
@click.option(
    "--device", default="cuda", show_default=True,
    help="cuda, cuda:N, or cpu to try the check out on tiny sizes.",
)  # fmt: skip
@click.option("--model", help="An encoder to train. Default: BERTs with random weights.")
@click.option("--train-file", help="A text file of sentences, one a line. Default: synthetic ones.")
@click.option("--estimate", "only_plan", is_flag=True, help="Print the expected minutes, and stop.")
@click.option("--predict", is_flag=True, help="Print the expected times of an H100, and stop.")
@click.option(
    "--times", "times_of", metavar="FILE",
    help="Print gradlab/scale/gpu_times.toml as results.json of an earlier check has it, and stop.",
)  # fmt: skip
def command(
    sections: tuple[str, ...],
    output: str,
    device: str,
    only_plan: bool,
    predict: bool,
    times_of: str | None,
    **options: Any,
) -> None:
    """Check gradlab on an NVIDIA GPU, and measure how fast it is there."""
    if only_plan:
        click.echo(plan(sections))
        return
    if predict or times_of is not None:
        click.echo(table() if times_of is None else times(read_object(Path(times_of))), nl=False)
        return
    if device.startswith("cuda") and not torch.cuda.is_available():
        click.echo(
            f"No GPU: torch {torch.__version__} finds no CUDA device, so nothing was checked."
        )
        return
    results = check_gpu(output, sections, device=device, **options)
    failures = failed(results)
    click.echo(f"{len(results['cases'])} cases, {len(failures)} failed; see {output}/page.md")
    for name in failures:
        case = results["cases"][name]
        reason = case.get("note") or f"error {case['error']}, tolerance {case['tolerance']}"
        click.echo(f"  {name}: {reason}")
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(run(command))
