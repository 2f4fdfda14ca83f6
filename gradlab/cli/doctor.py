"""The command ``gradlab doctor``."""

from __future__ import annotations

import inspect

import click

from gradlab.cli.exit_code import end_with, fail_option, json_option, print_json, worst
from gradlab.errors import GradlabError


@click.command()
@click.argument("target", required=False)
@json_option
@fail_option("bad")
def command(target: str | None, as_json: bool, fail_on: str) -> None:
    """Check this machine, and a model or a training set-up, for what is known to go wrong.

    TARGET is the folder or hub name of a model, or names a trainer: module:Name or file.py:Name,
    where Name is a trainer or a function without arguments that makes one.
    """
    from gradlab.diagnosis import doctor
    from gradlab.monitor.start_watching import is_trainer
    from gradlab.settings.objects import import_object

    subject = target
    if target is not None and ":" in target:
        subject = import_object(target)
        if callable(subject) and not is_trainer(subject):
            try:
                inspect.signature(subject).bind()
            except TypeError:
                raise GradlabError(
                    f"{target} is neither a trainer nor a function without arguments that makes "
                    "one; of a loss, gradlab decompose and gradlab audit tell more"
                ) from None
            subject = subject()
    diagnosis = doctor(subject)
    grade = worst(verdict.grade for verdict in diagnosis.verdicts)
    if as_json:
        print_json(grade, {"headline": diagnosis.headline} | diagnosis.to_dict())
    else:
        click.echo(str(diagnosis))
    end_with(grade, fail_on)
