"""From ``package.module:Name`` and settings to a loss."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from gradlab.errors import GradlabError, first_line, nearest
from gradlab.losses.base import Loss
from gradlab.losses.models import PREFIX, model_loss
from gradlab.losses.registry import is_own, loss_class, parse_hyperparameters, read_loss
from gradlab.settings import parse_call, read_json
from gradlab.settings.objects import import_object


def resolve_loss(text: str, settings: Mapping[str, Any]) -> Any:
    """The loss that ``text`` names, made with ``settings``, which come before those in the text.

    Args:
        text: the name of a gradlab loss; ``package.module:Name``; or ``path/to/file.py:Name``, each also with settings, as
            in ``file.py:Name(temperature=0.1)``. A module of the current folder is found too. ``Name`` is a loss function of
            two views, a loss object, or a class or factory, which is called with the settings; a function keeps them as
            keywords. Classes of sentence-transformers get a placeholder for their model, and for a guide.
        settings: read as JSON where they are JSON, as an object where they have the form ``module:Name`` (a class is then
            made without arguments), and as text otherwise.

    Raises:
        GradlabError: it cannot be found, imported or made.
    """
    if not is_own(text):
        try:
            loss_class(text)
        except GradlabError as error:
            raise GradlabError(f"{error} Any other loss is given as package.module:Name") from None
        return read_loss(text, settings)
    target, own = parse_call(text)
    if target.startswith(PREFIX):
        return model_loss(text, settings)
    found, given = import_object(target), {**own, **settings}
    if inspect.isclass(found) and issubclass(found, Loss):
        texts = {name: str(value) for name, value in given.items()}
        return found.build(**parse_hyperparameters(found, texts))
    values = {name: _value(value) for name, value in given.items()}
    if inspect.isclass(found):
        return _make(found, values, target)
    if not callable(found):
        raise GradlabError(f"{target} is {type(found).__name__}, not a loss: it cannot be called")
    if inspect.isfunction(found):
        count = _open_parameters(found, values)
        if count > 3:
            raise GradlabError(
                f"{target} wants {count} arguments; a loss takes anchors, positives and perhaps extra negatives"
            )
        if count == 1:
            raise GradlabError(
                f"{target} wants one argument; a loss takes anchors and positives, a maker of losses is given its settings, "
                "as in file.py:make(margin=0.3)"
            )
        return _with_keywords(found, values, target) if count else _make(found, values, target)
    if values:
        raise GradlabError(
            f"{target} is a finished loss object; settings can only be given to a class or function"
        )
    return found


def _value(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    value = read_json(text)
    if not isinstance(value, str) or value != text or ":" not in text:
        return value
    found = import_object(text)
    return found() if inspect.isclass(found) else found


def _open_parameters(function: Any, values: Mapping[str, Any]) -> int:
    """How many positional arguments a function still wants; 2 where it takes any number."""
    count = 0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return 2
        positional = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        count += positional and parameter.default is parameter.empty and parameter.name not in values
    return count


def _make(factory: Any, values: dict[str, Any], target: str) -> Any:
    # Losses of sentence-transformers, and those of gradlab.integrations, which are made as theirs.
    if factory.__module__.startswith("sentence_transformers.") or hasattr(
        factory, "compute_loss_from_embeddings"
    ):
        # The signature of a deprecated class is hidden by that of its `__new__`.
        wanted = inspect.signature(factory.__init__ if inspect.isclass(factory) else factory).parameters
        values = {**{name: _placeholder_model() for name in ("model", "guide") if name in wanted}, **values}
    try:
        return factory(**values)
    except Exception as error:
        raise GradlabError(
            f"{target}({', '.join(values)}) raised {type(error).__name__}: {first_line(error)}"
        ) from error


def _with_keywords(function: Any, values: dict[str, Any], target: str) -> Any:
    if not values:
        return function
    parameters = inspect.signature(function).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        for name in values:
            if name not in parameters:
                raise GradlabError(f"{target} has no argument {name!r}.{nearest(name, parameters)}")
    loss: Any = functools.partial(function, **values)
    loss.__name__ = f"{function.__name__}({', '.join(f'{n}={v}' for n, v in values.items())})"
    return loss


def _placeholder_model() -> Any:
    """What sentence-transformers' losses hold as their model: decompose calls them on embeddings only.

    It has what losses with a guide look at when they are made: a tokenizer, of one word.
    """
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    class Placeholder(torch.nn.Module):
        tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # of transformers
            tokenizer_object=Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        )
        max_seq_length = 1

        def __getitem__(self, index: int) -> torch.nn.Module:
            return self

    return Placeholder()
