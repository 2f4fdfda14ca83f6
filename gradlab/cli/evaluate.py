"""The command ``gradlab evaluate``."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradlab.cli.options import (
    data_option,
    device_option,
    given_options,
    option,
    pooler_option,
)
from gradlab.errors import GradlabError, listed

if TYPE_CHECKING:
    from gradlab.evaluate.task_files import ScoredPairs


@click.command()
@option(
    "--model",
    "A model folder (of gradlab, sentence-transformers or transformers) or a hub name.",
    required=True,
    metavar="PATH_OR_NAME",
)
@data_option
@option(
    "--tasks",
    "What to evaluate.  [default: sts]",
    multiple=True,
    metavar="sts|transfer|all|NAME...",
)
@click.argument("more_tasks", nargs=-1, metavar="[TASK]...")
@pooler_option
@option(
    "--max-length",
    "Tokens read from each sentence.  [default: the model's limit]",
    kind=click.IntRange(2),
)
@option(
    "--split",
    "test, or dev: the development sets of STS-B and SICK-R (STS12–16 have none), and the "
    "cross-validation score of transfer tasks. With dev, no test data are used.",
    "test",
    metavar="test|dev",
)
@option(
    "--aggregation",
    "How the subsets of STS12–16 become one number: all (pairs concatenated), mean, or wmean "
    "(weighted by the number of pairs).",
    "all",
    metavar="all|mean|wmean",
)
@option(
    "--classifier",
    "For the transfer tasks: logistic (scikit-learn's logistic regression) or adam (the linear "
    "classifier trained by Adam that most papers report).",
    "logistic",
    metavar="logistic|adam",
)
@option("--folds", "Folds of the transfer tasks; papers use 10.", 10, click.IntRange(2))
@option("--seed", "Seed of the folds and of the classifier.", 1111, click.IntRange(0))
@option("--jobs", "Processes for the transfer tasks; -1 is one for each core.", -1)
@option(
    "--chunk-size",
    "Sentences encoded at a time.  [default: 32 on a CPU, else 128]",
    kind=click.IntRange(1),
)
@device_option
@option("--column", "First sentences in a file of scored pairs; unset: found by name.")
@option("--positive-column", "Second sentences in a file of scored pairs; unset: found by name.")
@option("--score-column", "Scores in a file of scored pairs; unset: found by name.")
@option("--encoding", "Encoding of a text, JSON, CSV or TSV file of scored pairs.", "utf-8")
@option("--format style", "Format of the table.", "text", ["text", "markdown", "latex"])
@option(
    "--output",
    "Also write every score, with settings and versions, as JSON; kept up to date after each task.",
    kind=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.json",
)
def command(model: str, eval_data: Path, output: Path | None, style: str, **options: Any) -> None:
    """Evaluate an encoder on STS and transfer tasks as in SentEval, or on a retrieval task by mteb.

    Prints Spearman's correlation and accuracy times 100 with their averages, and names pooler and
    split. A folder with corpus.jsonl, queries.jsonl and qrels/test.tsv (BEIR's layout) is a
    retrieval task: nDCG at 10 and others. A file with two columns of sentences and one of scores,
    in any format that training reads, gives Spearman's correlation.
    """
    from gradlab.evaluate import downstream, evaluate, task_names
    from gradlab.evaluate.embed import Embedder, as_encode
    from gradlab.evaluate.retrieval import evaluate_retrieval, is_retrieval_folder
    from gradlab.evaluate.scored_pairs import is_pair_file
    from gradlab.evaluate.sts import sts_scores
    from gradlab.files import check_writable, write_json

    # Cheap checks come before the model is loaded.
    requested_tasks = [*options.pop("tasks"), *options.pop("more_tasks")]
    retrieval, scored = is_retrieval_folder(eval_data), is_pair_file(eval_data)
    columns = [options.pop(name) for name in ("column", "positive_column", "score_column")]
    encoding = options.pop("encoding")
    if any(columns) and not scored:
        raise GradlabError(f"{str(eval_data)!r} is no file of scored pairs; leave columns out")
    if retrieval or scored:
        _check_one_task(eval_data, bool(requested_tasks), scored)
    tasks = task_names(requested_tasks or "sts")
    pairs = None
    if scored:
        pairs = _scored_pairs(eval_data, columns, encoding)
    elif not retrieval:
        downstream(eval_data)
    if output is not None:
        check_writable(output)

    from gradlab.encoder import Encoder

    encoder = Encoder.load(
        model, **{name: options.pop(name) for name in ("pooler", "max_length", "device")}
    )
    encode = functools.partial(encoder.encode, batch_size=options.pop("chunk_size"))
    about = {"model": model, "pooler": encoder.pooler, "task": str(eval_data)}
    if pairs is not None:
        correlation = sts_scores(Embedder(as_encode(encode), title="Encoding"), [pairs])["all"]
        click.echo(f"{'spearman':<16}{correlation:.4f}  ({len(pairs.gold):,} pairs)")
        record = {**about, "scores": {"spearman": correlation, "pairs": len(pairs.gold)}}
    elif retrieval:
        scores = evaluate_retrieval(encode, eval_data, options["split"])
        for name, score in scores.items():
            click.echo(f"{name:<16}{score:.4f}")
        record = {**about, "split": options["split"], "scores": scores}
    else:
        options |= {"name": model, "pooler": encoder.pooler, "output": output}
        click.echo(evaluate(encode, eval_data, tasks, **options).table(style))
        record = None  # each task has written its own
    if output is not None:
        if record is not None:
            write_json(output, record)
        click.echo(f"\nWrote {output}")


def _scored_pairs(eval_data: Path, columns: list[str | None], encoding: str) -> ScoredPairs:
    """Read a file of scored pairs, and print which of its columns were taken."""
    from gradlab.data.column_roles import Roles
    from gradlab.evaluate.scored_pairs import open_pairs, read_pairs

    file = open_pairs(eval_data, Roles(columns[0], columns[1], score=columns[2]), encoding)
    click.echo(f"{file.describe()}\n  {file.summary()}", err=True)
    return read_pairs(file)


def _check_one_task(eval_data: Path, has_tasks: bool, scored: bool) -> None:
    """Refuse options of SentEval's tasks for data that are one task by themselves."""
    of_tasks = ["aggregation", "classifier", "folds", "seed", "jobs", "style"]
    of_tasks += ["split"] * scored
    options_given = given_options()
    superfluous = ["--tasks"] * has_tasks + [
        options_given[name][0] for name in of_tasks if name in options_given
    ]
    if superfluous:
        raise GradlabError(f"{str(eval_data)!r} is one task; leave {listed(superfluous)} out")
