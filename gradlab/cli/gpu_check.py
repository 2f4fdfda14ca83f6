"""``gradlab gpu-check``."""

from __future__ import annotations

import sys

import click

EPILOG = """\b
Examples:
  gradlab gpu-check
  gradlab gpu-check --plan
  gradlab gpu-check --part gradients --part blockwise
  gradlab gpu-check --part training --model bert-base-uncased --train-file wiki1m_for_simcse.txt
  gradlab gpu-check --device cpu --output /tmp/try

Without an NVIDIA GPU it says so and does nothing. With one it compares the GPU with the CPU (gradients, decomposition,
blockwise losses, processes, resumed runs) and measures the loss and training beside other libraries, as far as they are
installed. Results are kept after each case, as results.json and page.md; the same command goes on where it stopped.
Exit code 1 if a check fails.
"""


@click.command(epilog=EPILOG)
@click.option(
    "--part", "parts", multiple=True, metavar="NAME", help="A part to run; repeatable. Default: all."
)
@click.option("--output", default="gpu-check", show_default=True, help="Folder of the results.")
@click.option("--device", default="cuda", show_default=True,
              help="cuda or cuda:N; cpu tries the check itself out, on tiny sizes.")  # fmt: skip
@click.option(
    "--model", help="An encoder to train, a folder or hub name.  [default: BERTs of random weights]"
)
@click.option("--train-file", type=click.Path(exists=True, dir_okay=False),
              help="Sentences to train on, one a line.  [default: made up]")  # fmt: skip
@click.option(
    "--plan", "only_plan", is_flag=True, help="Say how long each part is expected to take, and stop."
)
def command(
    parts: tuple[str, ...],
    output: str,
    device: str,
    model: str | None,
    train_file: str | None,
    only_plan: bool,
) -> None:
    """Check gradlab on an NVIDIA GPU, and measure how fast it is there."""
    import torch

    from gradlab.gpu_check import failed, gpu_check, plan

    if only_plan:
        click.echo(plan(parts))
        return
    if device.startswith("cuda") and not torch.cuda.is_available():
        click.echo(f"No GPU: torch {torch.__version__} finds no CUDA device, so nothing was checked.")
        return
    results = gpu_check(output, parts, device=device, model=model, train_file=train_file)
    wrong = failed(results)
    click.echo(f"{len(results['cases'])} cases, {len(wrong)} failed; see {output}/page.md")
    for name in wrong:
        found = results["cases"][name]
        why = found.get("note") or f"error {found['error']}, tolerance {found['tolerance']}"
        click.echo(f"  {name}: {why}")
    if wrong:
        sys.exit(1)
