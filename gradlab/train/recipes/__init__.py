"""Published settings of `TrainConfig`: one TOML file per recipe, with the source of each value.

>>> from gradlab.train.recipes import recipe
>>> recipe("mocose", "bert-base")["momentum_end"]
RecipeValue(value=0.95, source='MoCoSE (Cao et al. 2022), section 4.1')
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


class RecipeValue(NamedTuple):
    """Value of a setting and its source; sources that begin with "ours" are unpublished."""

    value: Any
    source: str


Recipe = dict[str, RecipeValue]


@functools.cache
def recipe_names() -> tuple[str, ...]:
    """Return the names of all recipes, from the TOML files in this folder."""
    return tuple(sorted(file.stem for file in Path(__file__).parent.glob("*.toml")))


def recipe(
    name: str, backbone: str, *, loss: str | None = None, batch_size: int | None = None
) -> Recipe:
    """Return the settings of a recipe, each with its source; GradlabError for an unknown name.

    A loss or batch size other than the recipe's changes further settings: the unified paper has
    settings for each loss, and ESimCSE's queue is a multiple of the batch.
    """
    check_known("recipe", name, recipe_names())
    check_known("backbone", backbone, BACKBONES)
    content = read_packaged("gradlab.train.recipes", f"{name}.toml")
    choices: Recipe = {}
    if "extends" in content:
        source = content["source_of_extended"]
        inherited = recipe(content["extends"], backbone)
        choices = {key: RecipeValue(choice.value, source) for key, choice in inherited.items()}
    own = {**content["settings"], **content.get(backbone, {})}
    batch = batch_size or own["batch_size"]["value"]
    for key, entry in own.items():
        value, source = entry.get("value"), entry["source"]
        if "per_batch" in entry:
            value = int(entry["per_batch"] * batch)
        if entry.get("found_on", backbone) != backbone:
            source = f"{OURS}: {source}, found on {entry['found_on']}"
        choices[key] = RecipeValue(value, source)
    if loss not in (None, choices["loss"].value):
        choices["loss"] = RecipeValue(loss, "given")
        choices["loss_settings"] = RecipeValue({}, "the loss's published settings")
    if content.get("loss_presets"):
        choices |= _of_preset(choices["loss"].value, backbone)
    return choices


def choices_for(content: Mapping[str, Any]) -> tuple[str, Recipe]:
    """Return the backbone of settings with a "recipe", and what the recipe chooses for them."""
    check_known("recipe", content["recipe"], recipe_names())
    backbone = content.get("backbone")
    if backbone is None:
        backbone = backbone_of(content["model"]) if "model" in content else BACKBONES[0]
    changed = {name: content.get(name) for name in ("loss", "batch_size")}
    return backbone, recipe(content["recipe"], backbone, **changed)


def complete(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings completed from their "recipe"; those of the loss are completed one by one."""
    backbone, choices = choices_for(content)
    settings = {name: choice.value for name, choice in choices.items()}
    of_loss = dict(content.get("loss_settings") or {})
    call_settings = parse_call(content.get("loss") or "infonce")[1]
    if "preset" not in {**of_loss, **call_settings}:
        of_recipe = {
            key: value
            for key, value in settings["loss_settings"].items()
            if key not in call_settings
        }
        of_loss = of_recipe | of_loss
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


def recipe_table(name: str, choices: Recipe) -> str:
    """Return a recipe as a text table of settings, values and sources, in order of ``choices``."""
    rows = [(setting, _text(choice.value), choice.source) for setting, choice in choices.items()]
    widths = [max(len(row[place]) for row in rows) for place in range(2)]
    lines = [f"{name:<{widths[0]}}  {text:<{widths[1]}}  {source}" for name, text, source in rows]
    return "\n".join([f"Recipe {name}", *lines])


def _of_preset(loss: str, backbone: str) -> Recipe:
    """Return batch size, learning rate and hyper-parameters of any loss preset for this family."""
    from gradlab.losses.registry import loss_class

    preset = loss_class(loss).presets.get(backbone.split("-")[0])
    if preset is None or preset.batch_size is None or preset.learning_rate is None:
        return {}
    large = backbone.endswith("large")
    source = f"{OURS}: {preset.source}, of the base model" if large else preset.source
    return {
        "batch_size": RecipeValue(preset.batch_size, source),
        "learning_rate": RecipeValue(preset.learning_rate, source),
        "loss_settings": RecipeValue(dict(preset.hyperparameters), source),
    }


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={entry}" for key, entry in value.items()) or "-"
    return str(value)
