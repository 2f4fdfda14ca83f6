"""Reading and writing model folders of transformers and sentence-transformers."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pickle
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from gradlab.encoder import adapters
from gradlab.errors import GradlabError, check_whole
from gradlab.files import atomic_folder, reading
from gradlab.progress_bars import waiting

# Names of modules that every version of sentence-transformers since 2.0 can load.
_TRANSFORMER = "sentence_transformers.models.Transformer"
_LAYERS = "sentence_transformers.models.WeightedLayerPooling"
_POOLING = "sentence_transformers.models.Pooling"
# Files with the settings of the transformer module, in the order of sentence-transformers, which
# reads the first that exists; the later ones are of old versions.
_SETTINGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
# Files of which a model folder has at least one.
_MODEL_FILES = ("config.json", "modules.json", adapters.FILE)
# Entries of a module in modules.json.
_MODULE = ("type", "path")
# A vocabulary that fills less of the embedding matrix belongs to another model; published models
# leave at most a few hundred rows free.
_SMALLEST_SHARE = 0.9
# Names of pooling modes in files of sentence-transformers, and the poolers that they are here.
_STORED_POOLERS = {"cls": "cls", "cls_token": "cls", "mean": "mean", "lasttoken": "last"}
# Modules that gradlab replaces, or whose effect cosines do not show (Normalize).
_UNDERSTOOD = {"Transformer", "WeightedLayerPooling", "Pooling", "Normalize"}


def load_pretrained(
    name: str, pooler: str | None, dropout: float | None, attention: str | None
) -> tuple[Any, Any, str, int | None]:
    """Return the model in float32, tokenizer, pooler, and stored input length in tokens or None.

    An adapter is added to the weights of its model. A model's own code is never run, and pickled
    weights are read with torch's restricted unpickler. A tokenizer that does not belong to the
    model is refused, because the run would train on [UNK].

    Raises:
        GradlabError: see :meth:`gradlab.encoder.model.Encoder.load`.
    """
    check_place(name)
    # Loading takes seconds, from the hub minutes; of several processes on a machine, one says so.
    with waiting(f"Loading {name}", visible=os.environ.get("LOCAL_RANK", "0") == "0"), _quiet():
        from transformers import AutoConfig, AutoTokenizer

        try:
            place = _local_copy(name)
            pooler, subfolder, stored = _read_stored(place, pooler)
            adapter = _read_json(place, adapters.FILE, subfolder)
            base, inside = _base_of_adapter(place, adapter) if adapter else (place, subfolder)
            options = {"subfolder": inside, "trust_remote_code": False}
            config = AutoConfig.from_pretrained(base, **options)
            if getattr(config, "is_encoder_decoder", False):
                raise GradlabError(
                    f"{name!r} is an encoder-decoder; take an encoder such as bert-base-uncased"
                )
            if dropout is not None:
                _set_dropout(config, dropout)
            tokenizer_place = base
            if _find(place, "tokenizer_config.json", subfolder):  # some adapters have none
                tokenizer_place, options["subfolder"] = place, subfolder
            tokenizer = AutoTokenizer.from_pretrained(tokenizer_place, **options)
            if stored.get("do_lower_case"):
                _lower_case(tokenizer)
            model = _load_model(base, config, inside, attention)
            if adapter:
                model = adapters.merge_adapter(model, place, subfolder, adapter)
        except GradlabError:
            raise
        except pickle.UnpicklingError as error:
            raise GradlabError(
                f"cannot load the model {name!r}: its weights are a pickle that holds more than "
                "tensors, and could run code; take weights in safetensors"
            ) from error
        except Exception as error:  # libraries raise anything on damaged files
            raise GradlabError(f"cannot load the model {name!r}: {_reason(error)}") from error
    _check_tokenizer(name, tokenizer, model)
    _check_weights(name, model)
    length = stored.get("max_seq_length")
    if length is not None:
        check_whole(f"the max_seq_length of {name!r}", length, 1)
    return model, tokenizer, pooler or "cls", length


def save_pretrained(encoder: Any, folder: str | os.PathLike[str]) -> None:
    """Write ``encoder`` so that transformers, sentence-transformers and gradlab load it alike."""
    with atomic_folder(folder) as place:
        try:
            with _quiet():
                encoder.model.save_pretrained(place)
                encoder.tokenizer.save_pretrained(place)
            _write_modules(encoder, place)
        except SafetensorError as error:  # wraps system errors, such as "no space left"
            raise OSError(str(error)) from error


def check_place(name: str) -> None:
    """Raise GradlabError if ``name`` is a path without a model; hub names are not looked up."""
    folder = Path(name).expanduser()
    with reading(f"the model {name[:100]!r}"):
        folder.exists()  # refuses names of more than 255 bytes
    if folder.is_dir():
        if not any((folder / file).is_file() for file in _MODEL_FILES):
            raise GradlabError(f"{name!r} is not a model folder: it has no config.json")
    elif folder.exists():
        raise GradlabError(f"{name!r} is a file; a model is a folder or a hub name")
    elif name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise GradlabError(f"there is no model folder {name!r}")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the progress bars of transformers and its notes about unused heads."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _local_copy(name: str) -> str:
    """Return ``name``, or its cached folder if the hub is unreachable; GradlabError if not cached.

    Otherwise the libraries would try an unreachable hub five times per file, half a minute in all.
    """
    if Path(name).expanduser().is_dir():
        return name
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    if not constants.HF_HUB_OFFLINE and _answers(constants.ENDPOINT):
        return name
    try:
        return str(snapshot_download(name, local_files_only=True))
    except LocalEntryNotFoundError as error:
        raise GradlabError(
            f"cannot load the model {name!r}: there is no such folder, and as a hub name it is not "
            f"in the cache, while {constants.ENDPOINT} does not answer or HF_HUB_OFFLINE is set"
        ) from error


def _answers(url: str) -> bool:
    """Return whether a server answers within five seconds, through a proxy if there is one."""
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=5).close()
    except (urllib.error.HTTPError, http.client.HTTPException):  # which is an answer
        return True
    except urllib.error.URLError as error:
        # As is a certificate unknown here: the client of the hub may have other certificates.
        return isinstance(error.reason, ssl.SSLError)
    except OSError:
        return False
    return True


def _reason(error: Exception) -> str:
    """Return an error's message in one line; an unusual error is named."""
    described = isinstance(error, OSError | ValueError | RuntimeError | SafetensorError)
    text = " ".join(str(error).split())[:300]
    return text if described and text else f"{type(error).__name__}: {text}".rstrip(": ")


def _base_of_adapter(name: str, adapter: dict[str, Any]) -> tuple[str, str]:
    """Return folder and sub-folder of an adapter's model; GradlabError if it is not there."""
    base = adapters.base_model(name, adapter)
    try:
        check_place(base)
        return _local_copy(base), ""
    except GradlabError as error:
        raise GradlabError(f"{name!r} is an adapter, and its model is missing: {error}") from error


def _load_model(name: str, config: Any, subfolder: str, attention: str | None) -> Any:
    from transformers import AutoModel

    options = {"config": config, "subfolder": subfolder, "output_loading_info": True}
    options |= {} if attention is None else {"attn_implementation": attention}
    try:
        # Without BERT's own pooling layer, which would stay untrained, as no gradient reaches it.
        model, report = AutoModel.from_pretrained(name, add_pooling_layer=False, **options)
    except TypeError:  # architectures without that layer
        model, report = AutoModel.from_pretrained(name, **options)
    if missing := sorted(key for key in report["missing_keys"] if "pooler" not in key):
        raise GradlabError(
            f"the weights of {name!r} lack {len(missing)} tensors ({missing[0]}, ...)"
        )
    return model.to(torch.float32)


def _check_tokenizer(name: str, tokenizer: Any, model: Any) -> None:
    """Raise GradlabError unless the tokenizer can pad, and its vocabulary is that of the model.

    Without tokenizer files, transformers makes a tokenizer whose only tokens are special ones.
    """
    vocabulary = tokenizer.get_vocab()
    if not vocabulary.keys() - set(tokenizer.all_special_tokens):
        raise GradlabError(
            f"{name!r} has no tokenizer, only special tokens; save the model's tokenizer there "
            "(tokenizer.json, or vocab.txt)"
        )
    if tokenizer.pad_token_id is None:
        raise GradlabError(
            f"the tokenizer of {name!r} has no padding token; set one and save it with the model"
        )
    try:
        table = model.get_input_embeddings()
    except NotImplementedError:  # a model of characters
        return
    rows, largest = getattr(table, "num_embeddings", None), max(vocabulary.values())
    if rows is not None and not _SMALLEST_SHARE * rows <= largest + 1 <= rows:
        raise GradlabError(
            f"the tokenizer of {name!r} has ids up to {largest}, and the model has {rows} token "
            "embeddings; save the tokenizer that belongs to the model"
        )


def _check_weights(name: str, model: Any) -> None:
    """Raise GradlabError if a weight is NaN or infinite."""
    for key, weights in model.named_parameters():
        if not torch.isfinite(weights).all():
            raise GradlabError(
                f"the weights of {name!r} are not finite ({key}); take an intact copy of the model"
            )


def _set_dropout(config: Any, probability: float) -> None:
    """Set every dropout probability of the encoder; the names of all of them contain "drop"."""
    # Of whole layers, and of heads.
    excluded = re.compile("layerdrop|layer_drop|classifier|summary")
    for key, current in config.to_dict().items():
        is_dropout = ("dropout" in key or key.endswith("_pdrop")) and not excluded.search(key)
        if is_dropout and type(current) in (int, float):
            setattr(config, key, probability)


def _lower_case(tokenizer: Any) -> None:
    """Make a tokenizer lower-case its input, as sentence-transformers does if the folder asks."""
    from tokenizers import normalizers

    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise GradlabError("the model lower-cases before a slow tokenizer; save it with a fast one")
    stages = [normalizers.Lowercase(), *filter(None, [backend.normalizer])]
    backend.normalizer = normalizers.Sequence(stages)


def _read_stored(name: str, pooler: str | None) -> tuple[str | None, str, dict[str, Any]]:
    """Return the pooler (``pooler`` unless None), the transformer's sub-folder and its settings."""
    modules = _read_json(name, "modules.json", kind=list)
    if not modules:
        return pooler, "", {}
    paths = _module_paths(name, modules)
    about = _read_json(name, "config_sentence_transformers.json")
    unknown = sorted(set(paths) - _UNDERSTOOD)
    prompt = (about.get("prompts") or {}).get(about.get("default_prompt_name"))
    dimension = about.get("truncate_dim")
    for present, effect in (
        (unknown, f"has a {''.join(unknown[:1])} module after its pooling"),
        (prompt, f"puts {prompt!r} before each sentence"),
        (dimension, f"keeps the first {dimension} dimensions of each embedding"),
    ):
        if present:
            raise GradlabError(
                f"{name!r} {effect}, which gradlab would ignore; load it with "
                "sentence-transformers and pass its encode method"
            )
    subfolder = paths.get("Transformer", "")
    settings = (_read_json(name, file, subfolder) for file in _SETTINGS)
    return pooler or _stored_pooler(name, paths), subfolder, next(filter(None, settings), {})


def _module_paths(name: str, modules: list[Any]) -> dict[str, str]:
    """Return the sub-folder of each kind of module; GradlabError for another form of the file."""
    paths = {}
    for module in modules:
        kind, path = (module.get(key) if isinstance(module, dict) else None for key in _MODULE)
        inside = isinstance(path, str) and not {"..", "/", "~"} & {*Path(path).parts, path[:1]}
        if not isinstance(kind, str) or not inside:
            raise GradlabError(
                f"modules.json of {name!r} is a list of modules, each with a type and a path "
                f"inside the folder, not {module!r:.80}"
            )
        paths[kind.rsplit(".", 1)[-1]] = str(path)
    return paths


def _stored_pooler(name: str, paths: dict[str, str]) -> str:
    config = _read_json(name, "config.json", paths.get("Pooling", ""))
    modes = config.get("pooling_mode")
    if modes is None:  # older files have a switch for each
        modes = [key for key, on in config.items() if key.startswith("pooling_mode_") and on]
    modes = [modes] if isinstance(modes, str) else list(map(str, modes))
    modes = [mode.removeprefix("pooling_mode_").removesuffix("_tokens") for mode in modes]
    pooler = _STORED_POOLERS.get("+".join(modes))
    if pooler == "mean" and "WeightedLayerPooling" in paths:
        pooler = "first_last" if _is_first_last(name, paths["WeightedLayerPooling"]) else None
    if pooler is None:
        mode_names = " + ".join(modes) or "nothing that its files name"
        raise GradlabError(f"{name!r} pools by {mode_names}, unknown here; name a pooler")
    return pooler


def _is_first_last(name: str, path: str) -> bool:
    config, weights = _read_json(name, "config.json", path), _find(name, "model.safetensors", path)
    if config.get("layer_start") != 1 or weights is None:
        return False
    expected = _first_last_weights(config["num_hidden_layers"])
    return torch.equal(load_file(weights)["layer_weights"], expected)


def _first_last_weights(layers: int) -> torch.Tensor:
    ends = torch.eye(layers)
    return ends[0] + ends[-1]


def _find(name: str, file: str, subfolder: str = "") -> str | None:
    from transformers.utils import cached_file

    kinds = ("missing_entries", "connection_errors", "gated_repo")
    lenient = {f"_raise_exceptions_for_{kind}": False for kind in kinds}
    path: str | None = cached_file(name, file, subfolder=subfolder, **lenient)
    return path


def _read_json(name: str, file: str, subfolder: str = "", kind: type = dict) -> Any:
    """Return the content of a JSON file of the model; an empty ``kind`` without such a file."""
    path = _find(name, file, subfolder)
    if path is None:
        return kind()
    with reading(f"{file} of the model {name!r}"):
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(content, kind):
        form = "list" if kind is list else "JSON object"
        raise GradlabError(f"{file} of the model {name!r} is not a {form}")
    return content


def _write_modules(encoder: Any, place: Path) -> None:
    """Write the files that make sentence-transformers pool as ``encoder`` does."""
    layered = encoder.pooler == "first_last"
    types = [_TRANSFORMER, *([_LAYERS] if layered else []), _POOLING]
    paths = [f"{at}_{kind.rsplit('.', 1)[-1]}" if at else "" for at, kind in enumerate(types)]
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": kind}
        for at, (path, kind) in enumerate(zip(paths, types, strict=True))
    ]
    dimension = {"word_embedding_dimension": encoder.dimension}
    pooling = {
        "pooling_mode_cls_token": encoder.pooler == "cls",
        "pooling_mode_mean_tokens": encoder.pooler in ("mean", "first_last"),
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }
    if encoder.pooler == "last":  # a switch that versions before 2.4 do not know
        pooling["pooling_mode_lasttoken"] = True
    transformer = {"max_seq_length": encoder.max_length, "do_lower_case": False}
    _write(place / "modules.json", modules)
    _write(place / "sentence_bert_config.json", transformer)
    _write(place / paths[-1] / "config.json", dimension | pooling)
    if layered:
        layers, folder = int(encoder.model.config.num_hidden_layers), place / paths[1]
        sizes = {"num_hidden_layers": layers, "layer_start": 1}
        _write(folder / "config.json", dimension | sizes)
        save_file({"layer_weights": _first_last_weights(layers)}, folder / "model.safetensors")


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
