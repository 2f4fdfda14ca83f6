"""The command ``gradlab explain``."""

from __future__ import annotations

import dataclasses
import json

import click

from gradlab.cli.options import option


@click.command()
@click.argument("symptom", nargs=-1)
@option("--json as_json", "Print JSON, of all symptoms or of the one asked for.", False)
def command(symptom: tuple[str, ...], as_json: bool) -> None:
    """Explain a training symptom: likely causes, how to check, what to do, and who else met it."""
    from gradlab.diagnosis.symptoms import find_symptoms, symptoms

    descriptions = find_symptoms(" ".join(symptom)) if symptom else list(symptoms().values())
    if as_json:
        plain = [dataclasses.asdict(description) for description in descriptions]
        click.echo(json.dumps(plain[0] if symptom else plain, indent=2, ensure_ascii=False))
    elif symptom:
        for other in descriptions[1:]:
            click.echo(f"Not sure: this fits best, and next {other.name} ({other.title}).\n")
        click.echo(str(descriptions[0]))
    else:
        width = max(len(description.name) for description in descriptions)
        click.echo("\n".join(f"{text.name:{width}}  {text.title}" for text in descriptions))
