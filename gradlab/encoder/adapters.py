"""Folders that hold an adapter of peft (LoRA) in place of a model's weights."""

from __future__ import annotations

from typing import Any

from gradlab.errors import GradlabError

FILE = "adapter_config.json"
# Settings of an adapter that make peft import a module that the file names.
_IMPORTS = ("megatron_config", "auto_mapping")


def base_model(name: str, settings: dict[str, Any]) -> str:
    """Return the folder or hub name of the model that an adapter belongs to.

    Raises:
        GradlabError: another kind of adapter than LoRA; no base model; an adapter that names code.
    """
    kind, base = settings.get("peft_type"), settings.get("base_model_name_or_path")
    if kind != "LORA":
        raise GradlabError(
            f"{name!r} is an adapter of the kind {kind!r:.40}, and gradlab reads LORA; merge it "
            "into its model with peft, and save that"
        )
    if not isinstance(base, str) or not base:
        raise GradlabError(f"{FILE} of {name!r} names no base_model_name_or_path")
    for setting in _IMPORTS:
        if settings.get(setting):
            raise GradlabError(
                f"{FILE} of {name!r} has a {setting}, which names code; gradlab runs none. Merge "
                "the adapter into its model with peft, and save that"
            )
    return base


def merge_adapter(model: Any, name: str, subfolder: str, settings: dict[str, Any]) -> Any:
    """Return a model with an adapter of peft added to its weights, as an ordinary model.

    The sum is that of inference with the adapter, up to rounding.

    Raises:
        GradlabError: peft is not installed; the adapter belongs to another model.
    """
    try:
        from peft import LoraConfig, get_peft_model, load_peft_weights, set_peft_model_state_dict
    except ImportError:
        raise GradlabError(
            f"{name!r} holds an adapter, and reading it needs peft, which is not installed; "
            "pip install peft"
        ) from None
    place: dict[str, Any] = {"subfolder": subfolder} if subfolder else {}
    adapted = get_peft_model(model, LoraConfig.from_pretrained(name, **place))
    weights = load_peft_weights(name, device="cpu", **place)
    report: Any = set_peft_model_state_dict(adapted, weights)
    absent = sorted(key for key in report.missing_keys if "lora_" in key)
    if wrong := [*absent, *sorted(report.unexpected_keys)]:
        raise GradlabError(
            f"the adapter in {name!r} does not fit {settings['base_model_name_or_path']!r} "
            f"({len(wrong)} tensors, such as {wrong[0]}); save it from a model of AutoModel"
        )
    return adapted.merge_and_unload()
