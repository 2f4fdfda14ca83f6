"""Commands on the labelled set: measure, score, table, mutate, witnesses, sentences, explain ..."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import sys
import time

import click


@click.group(help=__doc__)
def command() -> None:
    import torch

    torch.set_num_threads(1)


def _chosen(half: str, words: tuple[str, ...]) -> list:
    from tests.judgement.case import cases

    return [case for case in cases(half) if not words or any(word in case.name for word in words)]


half = click.option("--half", default="", help="first or held_out; else both.")
words = click.argument("words", nargs=-1)


@command.command()
@half
@click.option("--tool", "tools", multiple=True, help="Measure for this tool only; repeatable.")
@words
def measure(half: str, tools: tuple[str, ...], words: tuple[str, ...]) -> None:
    """Play cases, and freeze their measurements; all, or those with one of WORDS in their name."""
    from tests.judgement import scoring
    from tests.judgement.freeze import judged

    total, failures = 0.0, 0
    for case in _chosen(half, words):
        try:
            measured, said, seconds = scoring.measure(case, tools)
        except Exception as error:
            import traceback

            failures += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            click.echo(
                f"FAILED {case.name}: {type(error).__name__}: {error} "
                f"({where.filename}:{where.lineno})"
            )
            continue
        if not measured:
            continue
        earlier = scoring.frozen(case) if tools and case.path.exists() else {}
        scoring.freeze(case, {**earlier, **measured})
        total += seconds
        frozen = scoring.frozen(case)
        frozen_verdicts = judged({name: frozen[name] for name in measured})
        differ = [verdict for verdict in said if verdict not in frozen_verdicts] + [
            verdict for verdict in frozen_verdicts if verdict not in said
        ]
        size = case.path.stat().st_size / 1e3
        click.echo(f"{seconds:5.1f} s {size:5.1f} kB {case.name}{' DIFFERS' if differ else ''}")
        for verdict in differ:
            click.echo(f"      {'live' if verdict in said else 'frozen'}: {verdict}")
    click.echo(f"{total:.0f} s of processor time")
    sys.exit(bool(failures))


@command.command("try")
@half
@click.option("--live", is_flag=True, help="Play the cases anew.")
@words
def try_(half: str, words: tuple[str, ...], live: bool) -> None:
    """Show what the tools say of cases."""
    from tests.judgement import scoring

    for case in _chosen(half, words):
        said = scoring.measure(case)[1] if live else scoring.verdicts(case)
        click.echo(f"\n== {case.half}/{case.name}: {case.cause or 'sound'}")
        for verdict in said:
            if verdict.is_alarm or verdict.subject == "headline":
                click.echo(f"  {verdict.tool:8}{verdict.grade:11}{verdict.text}")
        result = scoring.outcome(case, said)
        click.echo(
            f"  -> { {name: result[name] for name in result if name not in ('grades', 'kind')} }"
        )


@command.command()
@half
@click.option("--write", is_flag=True, help="Let the tests compare with this score from now on.")
@click.option("--first", is_flag=True,
              help="Show the first score instead; with --write, new cases get theirs.")  # fmt: skip
def score(half: str, write: bool, first: bool) -> None:
    """Score the verdicts on frozen measurements; say what differs from the score of the tests."""
    from tests.judgement import scoring
    from tests.judgement.case import HALVES, cases

    began = time.process_time()
    if first and write:
        scoring.write_first(scoring.score(cases(half)))
    outcomes = scoring.read(scoring.FIRST_SCORE) if first else scoring.score(cases(half))
    for name in HALVES:
        of_half = {key: outcome for key, outcome in outcomes.items() if key.startswith(f"{name}/")}
        if not of_half:
            continue
        kinds_of_faults = {outcome["kind"] for outcome in of_half.values() if "found" in outcome}
        click.echo(f"\n{name}: {len(of_half)} cases, faults in {len(kinds_of_faults)} kinds")
        for aspect, (count, of) in scoring.counts(of_half).items():
            low, high = scoring.interval(count, of)
            click.echo(
                f"  {aspect:16}{count:3} of {of:3}  {count / max(of, 1):5.0%}  "
                f"(95%: {low:.0%} to {high:.0%})"
            )
    for name, outcome in outcomes.items():
        marks = [aspect for aspect in ("found", "named", "first") if outcome.get(aspect)]
        marks += [
            f"{aspect} ({len(outcome[aspect])})"
            for aspect in ("false bad", "false watch", "forbidden")
            if outcome.get(aspect)
        ]
        if "found" in outcome or marks:
            click.echo(f"{name:60} {', '.join(marks) or 'missed'}")
    click.echo(f"{time.process_time() - began:.1f} s")
    if write and not first:
        earlier = scoring.read(scoring.SCORE) if scoring.SCORE.exists() and half else {}
        scoring.write(scoring.SCORE, earlier | outcomes)
    elif scoring.SCORE.exists() and not first:
        for name, earlier_outcome in scoring.read(scoring.SCORE).items():
            if name in outcomes and outcomes[name] != earlier_outcome:
                click.echo(f"differs from score.json: {name}")


@command.command()
@half
@click.option("--only", default="", help="Limits with this in their place or name.")
def mutate(half: str, only: str) -> None:
    """Halve and double each limit; list the limits whose change no case notices."""
    from pathlib import Path

    import gradlab
    from tests.judgement.case import cases
    from tests.judgement.mutation import limits
    from tests.judgement.mutation import mutate as mutants

    root, count, unnoticed = Path(gradlab.__file__).parents[1], 0, []
    of = sum(len([*limit.mutants()]) for limit in limits(root) if only in limit.where)
    click.echo(f"{of} mutants; judging all cases without one first")
    for limit, text, witness in mutants(root, cases(half), only):
        count += 1
        if not witness:
            unnoticed.append(limit)
        click.echo(
            f"{count}/{of} {limit.where}: {limit.text} -> {text}: {witness or 'NOT NOTICED'}"
        )
    places = {limit.where for limit in unnoticed}
    click.echo(
        f"{count - len(unnoticed)} of {count} mutants noticed; "
        f"limits with one that is not: {len(places)}"
    )


@command.command()
def witnesses() -> None:
    """Write which row notices each change of a limit, so that the tests ask it first."""
    from pathlib import Path

    import gradlab
    from tests.judgement.mutation import write_witnesses

    write_witnesses(Path(gradlab.__file__).parents[1])


@command.command()
@click.option("--tests", is_flag=True, help="Run the tests as well, which takes minutes.")
def sentences(tests: bool) -> None:
    """List the sentences that no case says, and with --tests those that no test says either."""
    from pathlib import Path

    import gradlab
    from tests.judgement import sentences as words
    from tests.judgement.case import cases
    from tests.judgement.mutation import ALL_TOOLS, rows

    root = Path(gradlab.__file__).parents[1]
    sayable, said = words.sentences(root), words.said_of([*cases(), *rows(ALL_TOOLS)])
    click.echo(f"{len(sayable & said)} of {len(sayable)} sentences are said of cases; never said:")
    for name in sorted(sayable - said):
        click.echo(f"  {name}")
    if tests:
        said_in_tests = words.said_in_tests(root)
        click.echo(
            f"{len(sayable & said_in_tests)} are said in tests; never said in tests nor of cases:"
        )
        for name in sorted(sayable - said - said_in_tests):
            click.echo(f"  {name}")


@command.command()
@click.option("--all", "everything", is_flag=True, help="Ask all groups of the entries as well.")
@click.option("--write", is_flag=True, help="Let the tests compare with these answers from now on.")
def explain(everything: bool, write: bool) -> None:
    """Ask `gradlab explain` the phrases that people use, each group without its own."""
    from tests.judgement import retrieval, scoring

    answers = retrieval.outcomes(everything=everything)
    first = scoring.read(retrieval.FIRST_SCORE)
    for group in dict.fromkeys(answer["group"] for answer in answers.values()):
        click.echo(f"{group:12}{retrieval.summary(answers, group)}")
        if any(answer["group"] == group for answer in first.values()):
            click.echo(f"  at first  {retrieval.summary(first, group)}")
    click.echo(retrieval.of_something_else(answers, retrieval.phrases(everything=True)))
    for phrase, answer in answers.items():
        if answer["outcome"] not in (retrieval.RIGHT, retrieval.NOT_SURE_RIGHT):
            click.echo(f"  {answer['outcome']}: {phrase!r}: {answer['answer'] or 'no answer'}")
    if write:
        scoring.write(retrieval.SCORE, retrieval.outcomes() if everything else answers)


@command.command()
@click.option("--write", is_flag=True, help="Put the table into docs/watch.md.")
def table(write: bool) -> None:
    """Show the table of docs/watch.md."""
    from tests.judgement import table as tables

    click.echo(tables.table())
    if write:
        text = tables.PAGE.read_text(encoding="utf-8")
        tables.PAGE.write_text(tables.page(text), encoding="utf-8")


@command.command()
def kinds() -> None:
    """List the kinds of faults of each half."""
    from tests.judgement.case import cases

    counts: dict[tuple[str, str], int] = {}
    for case in cases():
        if not case.is_sound:
            counts[case.half, case.kind] = counts.get((case.half, case.kind), 0) + 1
    for (name, kind), count in counts.items():
        click.echo(f"{name:10}{kind} ({count})")


if __name__ == "__main__":
    command()
