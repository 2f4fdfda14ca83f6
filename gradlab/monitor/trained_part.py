"""Which part of an encoder is trained: few weights, no matrix, or only what stands behind it?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from gradlab.monitor.movement import nodes_of

# Numbers of the records: the share of the weights of an encoder that require a gradient; whether
# none of these is a matrix; whether all of them stand behind the first module with weights, or, by
# the graph of the loss, behind no word vectors. All are noted where they are unusual.
TRAINED, NO_MATRIX, HEAD_ONLY = "trained_share", "no_matrix_trained", "head_only_trained"
PART_NUMBERS = (TRAINED, NO_MATRIX, HEAD_ONLY)
# Share of the weights from which on it is usual; matrices of a head.
USUAL_SHARE, MATRICES_OF_HEAD = 0.5, 2
# Parts of names of weights that are added to a frozen encoder on purpose.
ADDED = ("lora_", "adapter", "prompt_encoder", "ia3_", "oft_", "vera_")
# Nodes of a graph behind which its walk does not know what was computed.
OPAQUE = ("Checkpoint", "Compiled")


def trained_part_of(encoders: Sequence[nn.Module]) -> dict[str, float]:
    """Return the numbers of the weights of encoders; none of those with adapters."""
    named = {id(w): (name, w) for model in encoders for name, w in model.named_parameters()}
    trained = [w for _, w in named.values() if w.requires_grad]
    is_adapted = any(word in name for name, _ in named.values() for word in ADDED)
    if not trained or is_adapted:
        return {}
    share = sum(w.numel() for w in trained) / sum(w.numel() for _, w in named.values())
    if share >= USUAL_SHARE:
        return {}
    return {TRAINED: share} | _without_matrix(trained) | _behind(encoders[0])


def trained_part_by_graph(value: Tensor, own: Iterable[Tensor]) -> dict[str, float]:
    """Return the numbers of the weights that a loss was computed from, without its ``own``."""
    nodes = list(nodes_of(value))
    names = [type(node).__name__ for node in nodes]
    of_loss = {id(weight) for weight in own}
    weights = [w for w in (getattr(node, "variable", None) for node in nodes)
               if isinstance(w, nn.Parameter) and id(w) not in of_loss]  # fmt: skip
    if not weights or any(word in name for name in names for word in OPAQUE):
        return {}
    matrices = sum(w.ndim > 1 for w in weights)
    reads_words = any("Embedding" in name or "Convolution" in name for name in names)
    is_head = 0 < matrices <= MATRICES_OF_HEAD and not reads_words
    return _without_matrix(weights) | ({HEAD_ONLY: 1.0} if is_head else {})


def _without_matrix(weights: Sequence[Tensor]) -> dict[str, float]:
    return {} if any(w.ndim > 1 for w in weights) else {NO_MATRIX: 1.0}


def _behind(model: nn.Module) -> dict[str, float]:
    """Return whether only modules behind the first one with weights are trained, in a sequence."""
    if not isinstance(model, nn.Sequential):
        return {}
    modules = [list(module.parameters()) for module in model]
    first, *behind = [weights for weights in modules if weights] or [[]]
    is_frozen = not any(weight.requires_grad for weight in first)
    return {HEAD_ONLY: 1.0} if behind and is_frozen else {}
