"""The command ``gradlab train``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradlab.cli.options import CommandOfSettings, hyperparameters_option, option
from gradlab.errors import GradlabError, counted
from gradlab.files import read_object
from gradlab.settings import declarations, read_assignments, read_json
from gradlab.train.config import TrainConfig
from gradlab.train.recipes import BACKBONES, choices_for, recipe, recipe_names, recipe_table

if TYPE_CHECKING:
    from gradlab.train.run_folder import TrainResult


@click.command(cls=CommandOfSettings, settings=TrainConfig)
@hyperparameters_option
@option(
    "--config config_file",
    "JSON file of settings, or a run's manifest; other options override it.",
    kind=Path,
)
@option("--resume", "Continue the run in --output from its newest whole checkpoint.", False)
@option(
    "--show-recipe",
    "Show the recipe's settings and where each was published; train nothing.",
    False,
)
def command(
    assignments: tuple[str, ...],
    config_file: Path | None,
    resume: bool,
    show_recipe: bool,
    **options: Any,
) -> None:
    """Fine-tune an encoder on sentences with any loss, and record what the loss does to embeddings.

    The two views of a sentence are the sentence itself under independent dropout (unsupervised
    SimCSE), unless options or a recipe say otherwise. Options given here override the recipe's.
    """
    overrides = {name: value for name, value in options.items() if value not in (None, ())}
    if resume and config_file is not None:
        raise GradlabError("--resume takes the configuration of the run itself; leave --config out")
    if resume and "output" not in overrides:
        raise GradlabError("--resume needs --output, the folder of the run to continue")
    base = _base(overrides, assignments, config_file, resume)
    content = {**base, **overrides}
    if show_recipe:
        click.echo(_recipe_text(content))
        return
    if assignments or "loss" in overrides:
        settings = _loss_settings(_loss(content), assignments)
        if "preset" not in settings and _loss(content) == _loss(base):
            settings = {**base.get("loss_settings", {}), **settings}
        content["loss_settings"] = settings
    config = TrainConfig.from_dict(content)

    from gradlab.train.distributed import prints
    from gradlab.train.run import train
    from gradlab.train.run_folder import finished

    result = finished(config) if resume else None
    if result is not None:
        steps = counted(result.steps, "step")
        ending = f"The run has finished already, nothing is left to train: {steps}"
    else:
        try:
            result = train(config, resume=resume)
        except KeyboardInterrupt:
            if prints() and (Path(config.output) / "manifest.json").exists():
                resume_command = f"gradlab train --resume --output {shlex.quote(config.output)}"
                click.echo(f"Continue with: {resume_command}", err=True)
            raise
        ending = f"Trained {counted(result.steps, 'step')}"
    if prints():
        _print_result(result, ending)


def _base(
    overrides: dict[str, Any], assignments: tuple[str, ...], config_file: Path | None, resume: bool
) -> dict[str, Any]:
    """Return the settings that options override: of the run to continue, or of a configuration."""
    base: dict[str, Any] = {}
    whole = False  # whether every setting is in the configuration, as in a manifest
    # Code of one's own runs if the command line names it, not because a manifest does.
    code = [*assignments, *(str(overrides.get(name, "")) for name in ("loss", "augment"))]
    code += click.get_current_context().meta.get("loss_files", ())
    if resume:
        from gradlab.train.run_folder import resumable_config

        base = resumable_config(
            overrides["output"], overrides.get("device", "auto"), code
        ).to_dict()
    elif config_file is not None:
        base = read_object(config_file, "the configuration ")
        if whole := isinstance(base.get("config"), dict):
            from gradlab.train.run_folder import check_code

            check_code(base["config"], code, str(config_file))
            # A manifest names the folder of its own run; the new run needs another one.
            base = {name: value for name, value in base["config"].items() if name != "output"}
    if not isinstance(base.get("loss_settings", {}), dict):
        raise GradlabError(f"loss_settings in {str(config_file)!r} must be a table (in JSON)")
    follows = base.get("recipe")
    if (whole or follows) and overrides.get("recipe", follows) != follows:
        why = "has every setting" if whole else f"follows the recipe {follows!r}"
        raise GradlabError(
            f"a recipe fills in what is not given, but the configuration {why} already; leave "
            "--config or --recipe out"
        )
    return base


def _print_result(result: TrainResult, ending: str) -> None:
    """Print where the encoder is, and the best score if there are scores."""
    click.echo(f"{ending}; encoder in {result.output / 'encoder'}")
    if result.best_step is not None:
        from gradlab.monitor.score import readable

        before = f" (before training {result.scores[0]:.4f})" if 0 in result.scores else ""
        best = f"{result.best_score:.4f} at step {result.best_step}{before}"
        click.echo(f"Best {readable(result.selection)} {best}; in {result.output / 'best'}")


def _loss(settings: dict[str, Any]) -> str:
    """Return the name of the loss in the settings, or else in their recipe."""
    if "loss" in settings or not settings.get("recipe"):
        return str(settings.get("loss", "infonce"))
    return str(recipe(settings["recipe"], BACKBONES[0])["loss"].value)  # the same for all backbones


def _recipe_text(settings: dict[str, Any]) -> str:
    """Return the recipe of the settings as a table."""
    if not settings.get("recipe"):
        raise GradlabError(
            f"--show-recipe shows a recipe; give --recipe, one of {', '.join(recipe_names())}"
        )
    backbone, choices = choices_for(settings)
    ordered = {name: choices[name] for name in declarations(TrainConfig) if name in choices}
    return recipe_table(f"{settings['recipe']} for {backbone}", ordered)


def _loss_settings(loss: str, assignments: tuple[str, ...]) -> dict[str, Any]:
    from gradlab.losses.registry import is_own, loss_class, parse_hyperparameters

    if is_own(loss):
        return {name: read_json(text) for name, text in read_assignments(assignments).items()}
    return parse_hyperparameters(loss_class(loss), read_assignments(assignments))
