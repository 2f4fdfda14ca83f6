"""``gradlab evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gradlab.cli.options import data_option, device_option, mirrored, pooler_option
from gradlab.errors import GradlabError
from gradlab.evaluate import downstream, evaluate, task_names

EPILOG = """\b
Examples:
  gradlab evaluate --model bert-base-uncased --pooler first_last --data SentEval/data/downstream
  gradlab evaluate --model runs/arccon/encoder --data SentEval/data/downstream --tasks STS-B SICK-R --split dev
  gradlab evaluate --model runs/arccon/encoder --data SentEval/data/downstream --tasks transfer \\
      --classifier adam --output arccon.json

Tasks: sts (STS12 to STS16, STS-B, SICK-R), transfer (MR, CR, SUBJ, MPQA, SST-2, TREC, MRPC), all, or any of their
names. Tasks whose files are not in the folder are left out, and listed below the table.

Nothing but text files is read from the data folder; the field gets them with SentEval's download script.
"""


@click.command(epilog=EPILOG)
@click.option("--model", required=True, metavar="PATH_OR_NAME",
              help="A model folder (of gradlab, sentence-transformers or transformers) or a hub name.")  # fmt: skip
@data_option
@click.option(
    "--tasks", multiple=True, metavar="sts|transfer|all|NAME...", help="What to evaluate.  [default: sts]"
)
@click.argument("more_tasks", nargs=-1, metavar="[TASK]...")
@pooler_option
@click.option(
    "--max-length", type=click.IntRange(2), help="Tokens read of a sentence.  [default: the model's limit]"
)
@mirrored(evaluate, "split", "aggregation", "classifier", "folds", "seed", "jobs")
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    help="Sentences a forward pass (default: 32 on a CPU, 128 elsewhere).",
)
@device_option
@click.option("--format", "style", type=click.Choice(["text", "markdown", "latex"]), default="text",
              show_default=True, help="Format of the table.")  # fmt: skip
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.json",
              help="Also write every score, with settings and versions, as JSON; kept up to date after each task.")  # fmt: skip
def command(model: str, data: Path, output: Path | None, style: str, **options: Any) -> None:
    """Evaluate a sentence encoder on STS and transfer tasks, as the field does, or on a retrieval task by mteb.

    Prints Spearman's correlation and accuracy times 100 with their averages, and names pooler and split. A --data folder
    with corpus.jsonl, queries.jsonl and qrels/test.tsv (BEIR's layout) is a retrieval task: nDCG at 10 and others.
    """
    from gradlab.evaluate.retrieval import evaluate_retrieval, is_retrieval_folder
    from gradlab.files import check_writable, write_json

    # What can be wrong at no cost comes before a model is loaded.
    asked = [*options.pop("tasks"), *options.pop("more_tasks")]
    retrieval = is_retrieval_folder(data)
    if retrieval and asked:
        raise GradlabError(f"{str(data)!r} is one retrieval task; leave --tasks out")
    tasks = task_names(asked or "sts")
    if not retrieval:
        downstream(data)
    if output is not None:
        check_writable(output)

    from gradlab.encoder import Encoder

    batch_size = options.pop("batch_size")
    settings = {name: options.pop(name) for name in ("pooler", "max_length", "device")}
    encoder = Encoder.load(model, **settings)
    if retrieval:
        scores = evaluate_retrieval(lambda sentences: encoder.encode(sentences, batch_size), data)
        for name, score in scores.items():
            click.echo(f"{name:<16}{score:.4f}")
        if output is not None:
            write_json(
                output, {"model": model, "pooler": encoder.pooler, "task": str(data), "scores": scores}
            )
            click.echo(f"\nWrote {output}")
        return
    result = evaluate(
        lambda sentences: encoder.encode(sentences, batch_size),
        data,
        tasks,
        name=model,
        pooler=encoder.pooler,
        output=output,
        **options,
    )
    click.echo(result.table(style))
    if output is not None:
        click.echo(f"\nWrote {output}")
