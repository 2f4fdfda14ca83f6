"""Published settings of `TrainConfig`: one TOML file per recipe, with the source of each value.

>>> from gradlab.train.recipes import recipe
>>> recipe("mocose", "bert-base")["momentum_end"]
Choice(value=0.95, source='MoCoSE (Cao et al. 2022), section 4.1')
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gradlab.errors import GradlabError, check_known
from gradlab.files import read_packaged
from gradlab.settings import parse_call

BACKBONES = ("bert-base", "bert-large", "roberta-base", "roberta-large")
OURS = "ours"
_LARGE = 1024  # hidden size of the large models


class Choice(NamedTuple):
    """Value of a setting and its source; sources that begin with "ours" are unpublished."""

    value: Any
    source: str


Choices = dict[str, Choice]


@functools.cache
def recipe_names() -> tuple[str, ...]:
    """Return the names of all recipes, from the TOML files in this folder."""
    return tuple(sorted(file.stem for file in Path(__file__).parent.glob("*.toml")))


def recipe(
    name: str, backbone: str, *, loss: str | None = None, batch_size: int | None = None
) -> Choices:
    """Return the settings of a recipe, each with its source; GradlabError for an unknown name.

    A loss or batch size other than the recipe's changes further settings: the unified paper has
    settings for each loss, and ESimCSE's queue is a multiple of the batch.
    """
    check_known("recipe", name, recipe_names())
    check_known("backbone", backbone, BACKBONES)
    content = read_packaged("gradlab.train.recipes", f"{name}.toml")
    choices: Choices = {}
    if "extends" in content:
        source = content["source_of_extended"]
        inherited = recipe(content["extends"], backbone)
        choices = {key: Choice(one.value, source) for key, one in inherited.items()}
    own = {**content["settings"], **content.get(backbone, {})}
    batch = batch_size or own["batch_size"]["value"]
    for key, one in own.items():
        value, source = one.get("value"), one["source"]
        if "per_batch" in one:
            value = int(one["per_batch"] * batch)
        if one.get("found_on", backbone) != backbone:
            source = f"{OURS}: {source}, found on {one['found_on']}"
        choices[key] = Choice(value, source)
    if loss not in (None, choices["loss"].value):
        choices["loss"] = Choice(loss, "given")
        choices["loss_settings"] = Choice({}, "the loss's published settings")
    if content.get("loss_presets"):
        choices |= _of_preset(choices["loss"].value, backbone)
    return choices


def choices_for(content: Mapping[str, Any]) -> tuple[str, Choices]:
    """Return the backbone of settings with a "recipe", and what the recipe chooses for them."""
    check_known("recipe", content["recipe"], recipe_names())
    backbone = content.get("backbone")
    if backbone is None:
        backbone = backbone_of(content["model"]) if "model" in content else BACKBONES[0]
    given = {name: content.get(name) for name in ("loss", "batch_size")}
    return backbone, recipe(content["recipe"], backbone, **given)


def complete(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings completed from their "recipe"; those of the loss are completed one by one."""
    backbone, choices = choices_for(content)
    settings = {name: choice.value for name, choice in choices.items()}
    of_loss = dict(content.get("loss_settings") or {})
    named = parse_call(content.get("loss") or "infonce")[1]
    if "preset" not in {**of_loss, **named}:
        theirs = {
            key: value for key, value in settings["loss_settings"].items() if key not in named
        }
        of_loss = theirs | of_loss
    return settings | dict(content) | {"backbone": backbone, "loss_settings": of_loss}


def backbone_of(model: str) -> str:
    """Return the entry of :data:`BACKBONES` that a model resembles, by its type and its width."""
    file = Path(model) / "config.json"
    try:
        if file.is_file():  # avoids transformers, which takes seconds to import
            config = json.loads(file.read_text(encoding="utf-8"))
        else:
            from transformers import AutoConfig

            config = AutoConfig.from_pretrained(model).to_dict()
    except (OSError, ValueError) as error:
        raise GradlabError(
            f"cannot read the configuration of {model!r} to choose the recipe's settings; "
            "name its --backbone"
        ) from error
    family = "roberta" if "roberta" in str(config.get("model_type")) else "bert"
    return f"{family}-{'large' if config.get('hidden_size', 0) >= _LARGE else 'base'}"


def recipe_table(name: str, choices: Choices) -> str:
    """Return a recipe as a text table of settings, values and sources, in order of ``choices``."""
    rows = [(one, _text(choice.value), choice.source) for one, choice in choices.items()]
    widths = [max(len(row[place]) for row in rows) for place in range(2)]
    lines = [f"{one:<{widths[0]}}  {value:<{widths[1]}}  {source}" for one, value, source in rows]
    return "\n".join([f"Recipe {name}", *lines])


def _of_preset(loss: str, backbone: str) -> Choices:
    """Return batch size, learning rate and hyper-parameters of any loss preset for this family."""
    from gradlab.losses.registry import loss_class

    preset = loss_class(loss).presets.get(backbone.split("-")[0])
    if preset is None or preset.batch_size is None or preset.learning_rate is None:
        return {}
    large = backbone.endswith("large")
    source = f"{OURS}: {preset.source}, of the base model" if large else preset.source
    return {
        "batch_size": Choice(preset.batch_size, source),
        "learning_rate": Choice(preset.learning_rate, source),
        "loss_settings": Choice(dict(preset.hyperparameters), source),
    }


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items()) or "-"
    return str(value)
