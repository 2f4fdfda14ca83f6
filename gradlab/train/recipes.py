"""Published settings as presets of `TrainConfig`, each value with where it comes from.

>>> from gradlab.train.recipes import recipe
>>> recipe("mocose", "bert-base")["momentum_end"]
Choice(value=0.95, source='MoCoSE (Cao et al. 2022), section 4.1')
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gradlab.errors import GradlabError, nearest
from gradlab.settings import parse_call

BACKBONES = ("bert-base", "bert-large", "roberta-base", "roberta-large")
OURS = "ours"
_LARGE = 1024  # hidden size of the large models

_SIMCSE = "SimCSE (Gao et al. 2021), its published settings"
_SIMCSE_CODE = "SimCSE (Gao et al. 2021), its published training script"
_UNIFIED = "unified gradient paradigm (Li et al. 2024)"
_ESIMCSE = "ESimCSE (Wu et al. 2022)"
_MOCOSE = "MoCoSE (Cao et al. 2022)"


class Choice(NamedTuple):
    """A setting's value and where it was published; a source that begins with "ours" says that it was not."""

    value: Any
    source: str


class Asked(NamedTuple):
    """What a recipe must know to choose: the backbone, and the loss and batch size if the user names them."""

    backbone: str
    loss: str | None = None
    batch_size: int | None = None

    @property
    def family(self) -> str:
        """bert or roberta."""
        return self.backbone.split("-")[0]

    @property
    def is_large(self) -> bool:
        """Whether it is one of the large models."""
        return self.backbone.endswith("large")


Choices = dict[str, Choice]


def recipe_names() -> tuple[str, ...]:
    """Names of all recipes."""
    return tuple(_RECIPES)


def recipe(name: str, backbone: str, *, loss: str | None = None, batch_size: int | None = None) -> Choices:
    """The settings of a recipe, by name, with their sources.

    Args:
        name: one of :func:`recipe_names`.
        backbone: one of :data:`BACKBONES`.
        loss: the loss, where it is not the recipe's own; the unified paper has settings for each of its modified losses.
        batch_size: where it is not the recipe's own; ESimCSE's queue is a multiple of it.

    Raises:
        GradlabError: an unknown recipe, backbone or loss.
    """
    check_recipe(name)
    if backbone not in BACKBONES:
        raise GradlabError(
            f"backbone must be one of {', '.join(BACKBONES)}, not {backbone!r}.{nearest(backbone, BACKBONES)}"
        )
    return _RECIPES[name](Asked(backbone, loss, batch_size))


def check_recipe(name: str) -> None:
    """Raise GradlabError unless there is a recipe of this name."""
    if name not in _RECIPES:
        raise GradlabError(
            f"unknown recipe {name!r}; there are {', '.join(_RECIPES)}.{nearest(str(name), _RECIPES)}"
        )


def complete(content: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a configuration, those that are not given taken from its recipe.

    Args:
        content: as `TrainConfig.from_dict` takes it, with a "recipe"; what it names comes before the recipe. Of the
            loss's own settings those given come before the recipe's, one by one.

    Raises:
        GradlabError: see :func:`recipe` and :func:`backbone_of`.
    """
    check_recipe(content["recipe"])
    backbone = content.get("backbone") or backbone_of(content["model"])
    choices = recipe(
        content["recipe"], backbone, loss=content.get("loss"), batch_size=content.get("batch_size")
    )
    settings = {name: choice.value for name, choice in choices.items()}
    of_loss = dict(content.get("loss_settings") or {})
    named = parse_call(content.get("loss") or "infonce")[1]
    if "preset" not in {**of_loss, **named}:
        theirs = {key: value for key, value in settings["loss_settings"].items() if key not in named}
        of_loss = theirs | of_loss
    return settings | dict(content) | {"backbone": backbone, "loss_settings": of_loss}


def backbone_of(model: str) -> str:
    """Which of :data:`BACKBONES` a model is like, by its configuration: RoBERTas by their type, large ones by their width.

    Raises:
        GradlabError: if its configuration cannot be read.
    """
    file = Path(model) / "config.json"
    try:
        if file.is_file():
            config = json.loads(file.read_text(encoding="utf-8"))
        else:
            from transformers import AutoConfig

            config = AutoConfig.from_pretrained(model).to_dict()
    except (OSError, ValueError) as error:
        raise GradlabError(
            f"cannot read the configuration of {model!r} to choose the recipe's settings; name its --backbone"
        ) from error
    family = "roberta" if "roberta" in str(config.get("model_type")) else "bert"
    return f"{family}-{'large' if config.get('hidden_size', 0) >= _LARGE else 'base'}"


def _simcse(given: Asked) -> Choices:
    rate = {"bert-base": 3e-5, "bert-large": 1e-5, "roberta-base": 1e-5, "roberta-large": 3e-5}
    return {
        **_frame(_SIMCSE_CODE),
        **_infonce(given, _SIMCSE_CODE),
        "batch_size": Choice(64 if given.family == "bert" else 512, _SIMCSE),
        "learning_rate": Choice(rate[given.backbone], _SIMCSE),
    }


def _unified(given: Asked) -> Choices:
    loss = given.loss or "modified_mhe"
    batch, rate, of_loss = _unified_loss(given, loss)
    return {
        **_frame(f"{OURS}: as SimCSE, which the paper builds on"),
        "epochs": Choice(1, f"{_UNIFIED}, A.3"),
        "pooler": Choice("cls_mlp", f"{_UNIFIED}, A.3"),
        "loss": Choice(loss, f"{OURS}: the first row of Table 4" if given.loss is None else "given"),
        "loss_settings": of_loss,
        "batch_size": batch,
        "learning_rate": rate,
    }


def _unified_loss(given: Asked, loss: str) -> tuple[Choice, Choice, Choice]:
    """Batch size, learning rate and the loss's settings: a row of Table 4 or 5, or those of section 3.2."""
    from gradlab.losses.registry import loss_class

    found = loss_class(loss)
    preset = found.presets.get(given.family)
    if preset is not None and preset.batch_size is not None and preset.learning_rate is not None:
        note = ", of the base model" if given.is_large else ""
        source = f"{OURS}: {preset.source}{note}" if given.is_large else preset.source
        return (
            Choice(preset.batch_size, source),
            Choice(preset.learning_rate, source),
            Choice(dict(preset.hyperparameters), source),
        )
    source = f"{_UNIFIED}, A.4"
    if given.backbone != "bert-base":
        source = f"{OURS}: {source}, of BERT-base"
    return Choice(128, source), Choice(1e-5, source), Choice({}, "the loss's published settings")


def _esimcse(given: Asked) -> Choices:
    batch = given.batch_size or 64
    swept = "" if given.backbone == "bert-base" else ", found on BERT-base"
    return {
        **_frame(f"{OURS}: as SimCSE, which the paper builds on"),
        **_infonce(given, f"{_ESIMCSE}, section 4.2"),
        "epochs": Choice(1, f"{_ESIMCSE}, section 4.2"),
        "pooler": Choice("cls_mlp", f"{_ESIMCSE}, section 4.2; left out afterwards as in SimCSE"),
        "batch_size": Choice(64, f"{_ESIMCSE}, section 4.2"),
        "learning_rate": Choice(3e-5 if given.backbone == "bert-base" else 1e-5, f"{_ESIMCSE}, section 4.2"),
        "dropout": Choice(0.15 if given.is_large else 0.1, f"{_ESIMCSE}, section 4.2"),
        "eval_every": Choice(125, f"{_ESIMCSE}, section 4.2"),
        "augment": Choice("subword_repetition(rate=0.32)", f"{_ESIMCSE}, section 3.1 and Table 9{swept}"),
        "augment_views": Choice("second", f"{_ESIMCSE}, section 3.1"),
        "queue_size": Choice(batch * 5 // 2, f"{_ESIMCSE}, Table 11: 2.5 times the batch{swept}"),
        "queue_initial": Choice(0, f"{OURS}: the paper does not say how the queue begins"),
        "in_batch_negatives": Choice(True, f"{_ESIMCSE}, Eq. 7"),
        "momentum": Choice(0.995, f"{_ESIMCSE}, section 4.2"),
        "momentum_schedule": Choice("constant", f"{_ESIMCSE}, Eq. 6"),
        "momentum_dropout": Choice(False, f"{_ESIMCSE}, section 1"),
        "momentum_use": Choice("queue", f"{_ESIMCSE}, section 3.2"),
        "momentum_modules": Choice("embeddings,encoder,head", f"{_ESIMCSE}, Eq. 6; the MLP with it is ours"),
    }


def _mocose(given: Asked) -> Choices:
    section = f"{_MOCOSE}, section 4.1"
    untested = "" if given.family == "bert" else f"{OURS}: no RoBERTa in the paper; as "
    return {
        **_frame(f"{OURS}: as SimCSE, whose preparation of the data the paper follows"),
        **_infonce(given, f"{OURS}: not in the paper; as SimCSE"),
        "epochs": Choice(1, section),
        "pooler": Choice("cls_mlp", f"{_MOCOSE}, section 3: a pooler of fully connected layers; as one layer and tanh it is ours"),
        "batch_size": Choice(32 if given.is_large else 64, f"{untested}{section}"),
        "learning_rate": Choice(1e-5 if given.is_large else 3e-5, f"{untested}{section}"),
        "weight_decay": Choice(1e-6, section),
        "dropout": Choice(0.1, f"{_MOCOSE}, section 3"),
        "eval_every": Choice(100, section),
        "fgsm": Choice(5e-9, f"{_MOCOSE}, section 3 and Table 9"),
        "fgsm_gradient": Choice("step", f"{_MOCOSE}, section 3; the authors' code takes that of the previous step"),
        "pooler_activation": Choice("tanh", f"{OURS}: as SimCSE; the authors' code has none"),
        "head_initial": Choice("identity", f"{OURS}: not in the paper; the authors' code begins the pooler with BERT's own weights, and "
                               "projection and predictor at random, which undoes a small encoder"),
        "projection_layers": Choice(1, f"{_MOCOSE}, Table 4"),
        "predictor_layers": Choice(2, f"{_MOCOSE}, Table 4"),
        "queue_size": Choice(512, section),
        "queue_initial": Choice(128, f"{_MOCOSE}, section 5.6"),
        "in_batch_negatives": Choice(False, f"{_MOCOSE}, Eq. 3; the authors' code has them too"),
        "momentum": Choice(0.75, section),
        "momentum_end": Choice(0.95, section),
        "momentum_schedule": Choice("cosine", f"{section}; the authors' code goes to 1 over a fixed 15,000 steps"),
        "momentum_dropout": Choice(True, f"{_MOCOSE}, section 3"),
        "momentum_use": Choice("positives", f"{_MOCOSE}, section 3"),
        "keys_gradient": Choice(False, f"{_MOCOSE}, section 3: the target branch is not trained; the authors' code detaches no keys"),
        "momentum_modules": Choice("encoder,head,projection", f"{_MOCOSE}, section 3: one embedding layer for both branches"),
    }  # fmt: skip


def _frame(source: str) -> Choices:
    """What SimCSE does and all recipes do unless they say otherwise."""
    return {
        "epochs": Choice(1, source),
        "max_length": Choice(32, source),
        "pooler": Choice("cls_mlp", source),
        "schedule": Choice("linear", source),
        "warmup_steps": Choice(0, source),
        "weight_decay": Choice(0.0, source),
        "clip": Choice(1.0, source),
        "eval_every": Choice(125, source),
    }


def _infonce(given: Asked, source: str) -> Choices:
    """InfoNCE at .05, or another loss if it is asked for."""
    if given.loss not in (None, "infonce"):
        return {
            "loss": Choice(given.loss, "given"),
            "loss_settings": Choice({}, "the loss's published settings"),
        }
    return {"loss": Choice("infonce", source), "loss_settings": Choice({"temperature": 0.05}, source)}


_RECIPES: dict[str, Callable[[Asked], Choices]] = {
    "unified": _unified,
    "simcse": _simcse,
    "esimcse": _esimcse,
    "mocose": _mocose,
}


def recipe_table(name: str, choices: Choices) -> str:
    """A recipe as a table of settings, values and sources, in the order of ``choices``."""
    rows = [(one, _text(choice.value), choice.source) for one, choice in choices.items()]
    widths = [max(len(row[place]) for row in rows) for place in range(2)]
    lines = [f"{one:<{widths[0]}}  {value:<{widths[1]}}  {source}" for one, value, source in rows]
    return "\n".join([f"Recipe {name}", *lines])


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items()) or "-"
    return str(value)
