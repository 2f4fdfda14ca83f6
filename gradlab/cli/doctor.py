"""The command ``gradlab doctor``."""

from __future__ import annotations

import inspect
import json
import sys

import click

from gradlab.cli.options import option
from gradlab.errors import GradlabError


@click.command()
@click.argument("target", required=False)
@option("--json as_json", "Print JSON.", False)
def command(target: str | None, as_json: bool) -> None:
    """Check this machine, and a model or a training set-up, for what is known to go wrong.

    TARGET is the folder or hub name of a model, or names a trainer: module:Name or file.py:Name,
    where Name is a trainer or a function without arguments that makes one.
    """
    from gradlab.diagnosis import doctor
    from gradlab.monitor.trainers import is_trainer
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
    verdicts = doctor(subject)
    click.echo(
        json.dumps(verdicts.to_dict(), indent=2, ensure_ascii=False) if as_json else str(verdicts)
    )
    if not verdicts.healthy:
        sys.exit(1)
