"""Recognises losses of other libraries as gradlab losses, whose components have a closed form."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gradlab.errors import listed
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.monitor.setting_advice import RATED, WITH_OWN_NEGATIVES

POOLS = {
    "query_to_doc": "other",
    "query_to_query": "same",
    "doc_to_query": "positive_other",
    "doc_to_doc": "positive_same",
}
HARDNESS = {"in_batch_negatives": "in_batch", "hard_negatives": "hard", "all_negatives": "other"}
# Functions that compare by cosine, and functions that do so if the model normalises embeddings.
COSINES = {"cos_sim", "pytorch_cos_sim", "pairwise_cos_sim"}
DOTS = {"dot_score", "pairwise_dot_score"}
COMPARISONS = ("similarity_fct", "distance_metric")  # attributes of losses
MOST_CLASSED = 64  # rows whose classes are compared, three at a time
# Losses that mine triplets from labels, with their settings.
MINING = {
    "BatchAllTripletLoss": {"mining": "all", "mean_over": "active"},
    "BatchHardTripletLoss": {"mining": "hard"},
    "BatchSemiHardTripletLoss": {"mining": "semi_hard", "mean_over": "positives"},
}


def recognise(loss: Any, columns: int = 2) -> Loss | str:
    """Return the gradlab loss that ``loss`` computes on so many columns, or why there is none.

    The reason is a clause for losses of sentence-transformers, and empty for other unknown losses.

    Recognised are gradlab's own losses (by name, as objects, blockwise, or as losses of
    sentence-transformers), and the losses in `MAKERS` of sentence-transformers that compare by
    cosine, also in a gradient cache. Reductions and factors are those of the library. For their
    inputs see `seen_by`.

    Raises:
        GradlabError: an unknown name.
    """
    if isinstance(loss, str | Loss):
        registered = get_loss(loss)
        return registered if registered.closed_form else ""
    for attribute in ("definition", "loss"):  # EmbeddingLoss; BlockwiseLoss
        held = getattr(loss, attribute, None)
        if isinstance(held, Loss):
            return held
    loss = _within_cache(loss)
    name = type(loss).__name__
    if not type(loss).__module__.startswith("sentence_transformers."):
        return ""
    plain = name.removeprefix("Cached").replace("Symmetric", "")
    if plain in MAKERS:
        return MAKERS[plain](loss, columns)
    return f"{name} {UNKNOWN[name]}" if name in UNKNOWN else f"gradlab has no formula of {name}"


def seen_by(loss: Any, columns: Sequence[Tensor], labels: Tensor | None) -> dict[str, Any]:
    """Return the fields of a `Snapshot` that a loss sees in columns and labels.

    Columns are embedded. Labels are a teacher's scores or embeddings, graded similarities, or
    classes. A single column with classes is a batch of one view, in which the next sentence of a
    class stands for the positive.
    """
    if not isinstance(recognise(loss, len(columns)), Loss):
        return {}
    plain = _within_cache(loss)
    plain = plain.loss if type(plain).__name__ == "MatryoshkaLoss" else plain
    name, anchors, further = type(plain).__name__, columns[0], columns[1:]
    if name in MINING and labels is not None:
        return _one_view(anchors, labels.view(-1), lonely=name == "BatchHardTripletLoss")
    if name in ("EmbedDistillLoss", "MSELoss") and labels is not None:
        taught = list(labels.unbind(1)) if labels.ndim == 3 else [labels, labels]
        # With one column, the sentence is compared with the teacher's embedding.
        return {
            "positives": further[0] if further else taught[0],
            "context": {"teacher": (taught * 2)[:2]},
        }
    if name == "CoSENTLoss" and labels is not None:
        return {"positives": further[0], "context": {"scores": labels.view(-1).double()}}
    if name in ("MarginMSELoss", "DistillKLDivLoss", "TripletLoss"):
        context: dict[str, Any] = {"own_negatives": torch.stack(list(further[1:]), dim=1)}
        if name != "TripletLoss" and labels is not None:
            scores = labels.reshape(len(anchors), -1)
            if scores.shape[1] < len(further):  # margins of the positive over the negatives
                scores = torch.cat([torch.zeros_like(scores[:, :1]), -scores], dim=1)
            context["teacher"] = scores.double()
        return {"positives": further[0], "in_batch_negatives": False, "context": context}
    return {}


def share_in_order(loss: Any, columns: Sequence[Tensor], labels: Tensor | None) -> float | None:
    """Return how many comparisons of a batch are in the right order, by cosine; ties count half.

    With a score or label for each pair, two pairs with different labels are compared: the one with
    the higher label should have the higher cosine. With negatives of its own, an anchor's positive
    should have a higher cosine than each of them. With classes of single texts, a text of the class
    should be nearer than one of another. It needs no components of the loss.

    Args:
        loss: the loss, whose kind says what its labels mean.
        columns: embeddings of each column, (N, D).
        labels: the labels of the batch.

    Returns:
        A share, of which chance gives 1/2; None for other losses, and where nothing is compared.
    """
    names = {base.__name__ for base in type(getattr(loss, "loss", loss)).__mro__}
    names |= {base.__name__ for base in type(loss).__mro__}
    if any(rows.shape != columns[0].shape for rows in columns):
        return None
    if len(columns) == 1 and labels is not None:
        return classes_in_order(columns[0], labels)
    unit = [torch.nn.functional.normalize(rows.double(), dim=1) for rows in columns]
    cosines = [(unit[0] * rows).sum(1) for rows in unit[1:]]
    if (
        names & RATED
        and len(cosines) == 1
        and labels is not None
        and labels.numel() == len(unit[0])
    ):
        score = labels.reshape(-1).double()
        higher = score[:, None] > score
        first, second = cosines[0][:, None].expand_as(higher), cosines[0].expand_as(higher)
        differences = (first - second)[higher]
    elif names & WITH_OWN_NEGATIVES and len(cosines) > 1:
        differences = torch.cat([cosines[0] - negative for negative in cosines[1:]])
    else:
        return None
    return _share_above_zero(differences)


def classes_in_order(rows: Tensor, labels: Tensor) -> float | None:
    """Return how often a row of the class is nearer than one of another class, by cosine.

    Args:
        rows: embeddings, (N, D), of which the first `MOST_CLASSED` are compared.
        labels: whole numbers, (N,); None is returned for others.
    """
    if labels.is_floating_point() or labels.numel() != len(rows):
        return None
    unit = torch.nn.functional.normalize(rows[:MOST_CLASSED].double(), dim=1)
    of_rows, cosines = labels.reshape(-1)[:MOST_CLASSED].to(unit.device), unit @ unit.T
    alike = of_rows[:, None] == of_rows
    mates = alike & ~torch.eye(len(unit), dtype=torch.bool, device=unit.device)
    # Of each anchor, every mate (second axis) with every row of another class (third axis).
    compared = mates[:, :, None] & ~alike[:, None, :]
    return _share_above_zero((cosines[:, :, None] - cosines[:, None, :])[compared])


def depends_on_lengths(loss: Any, rows: Tensor) -> bool:
    """Return whether a loss compares embeddings, (N, D), by more than their directions."""
    for holder in (loss, getattr(loss, "loss", None)):
        for function in (getattr(holder, name, None) for name in COMPARISONS):
            if callable(function):
                with contextlib.suppress(Exception):
                    plain = torch.as_tensor(function(rows, rows))
                    return not torch.allclose(plain, torch.as_tensor(function(2 * rows, rows)))
    return False


def _share_above_zero(differences: Tensor) -> float | None:
    """Return the share of differences above 0, ties as halves; None without finite ones."""
    if not len(differences) or not bool(differences.isfinite().all()):
        return None
    return float(((differences > 0).double() + (differences == 0).double() / 2).mean())


def _within_cache(loss: Any) -> Any:
    """Return the loss that a gradient cache computes in pieces, or the loss itself."""
    held = getattr(loss, "loss", None)
    # A loss that changes another one, as MatryoshkaLoss does, has its cache.
    cached = getattr(loss, "uses_gradient_cache", False) and type(loss).__name__ not in MAKERS
    return held if cached and callable(held) else loss


def _one_view(rows: Tensor, labels: Tensor, lonely: bool) -> dict[str, Any]:
    """Compare rows with each other; a row alone in its class is its own positive if ``lonely``."""
    same = labels[:, None] == labels
    mates = same & ~torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    alone = ~mates.any(dim=1)
    places = torch.arange(len(rows), device=rows.device)
    ahead = torch.where(mates, (places - places[:, None]) % len(rows), len(rows)).argmin(dim=1)
    relation = mates.long() - (~same).long() + torch.diag((alone & lonely).long())
    return {"positives": rows[torch.where(alone, places, ahead)], "context": {"relation": relation}}


def _compares(loss: Any) -> str:
    """Return '' if a loss compares by cosine, else a clause that says how it compares."""
    name = getattr(loss.similarity_fct, "__name__", type(loss.similarity_fct).__name__)
    layers = list(loss.model.children()) if isinstance(loss.model, torch.nn.Module) else []
    normalizes = [type(layer).__name__ for layer in layers[-1:]] == ["Normalize"]
    if name in COSINES or (name in DOTS and normalizes):
        return ""
    unit = " of embeddings that the model does not normalize" if name in DOTS else ""
    return f"{type(loss).__name__} compares by {name}{unit}, and the closed form is that of cosines"


def _kl(loss: Any, columns: int) -> Loss | str:
    # Older versions have one for both.
    student = getattr(loss, "student_temperature", loss.temperature)
    teacher = getattr(loss, "teacher_temperature", loss.temperature)
    temperatures: dict[str, Any] = {
        "temperature": float(student),
        "teacher_temperature": float(teacher),
    }
    return _compares(loss) or get_loss("kl", **temperatures, times_tau_squared=float(student) != 1)


def _embed_distill(loss: Any, columns: int) -> Loss | str:
    name, kind = type(loss).__name__, loss.distance_metric
    if loss.projection is not None:
        return f"{name} compares a learned projection of the embeddings"
    if kind == "l2":
        return f"{name} is known with the metrics cosine and mse, not l2"
    if columns > 2:
        return f"{name} is known for one or two columns, not {columns}"
    of_column = get_loss("embedding_distillation", distance=kind)
    of_columns = get_loss("symmetric", loss=of_column) if columns == 2 else of_column
    return (
        of_columns
        if kind == "cosine"
        else _times(1 / loss.model.get_embedding_dimension(), of_columns)
    )


def _gor(loss: Any, columns: int) -> Loss | str:
    if columns != 2:
        return f"GlobalOrthogonalRegularizationLoss is known for two columns, not {columns}"
    square, mean = float(loss.second_moment_weight or 0), float(loss.mean_weight or 0)
    if min(square, mean) < 0:
        return "GlobalOrthogonalRegularizationLoss is known with weights that are not negative"
    # Without the second moment: a mean square is never above 1.
    threshold = 1 / loss.model.get_embedding_dimension() if square else 1.0
    plain = get_loss("gor", threshold=threshold, mean_weight=mean / (square or 1))
    twice = 2 if loss.aggregation == "sum" else 1
    return _compares(loss) or _times((square or 1) * twice, get_loss("symmetric", loss=plain))


def _triplet(loss: Any, columns: int) -> Loss | str:
    metrics = vars(sys.modules[type(loss).__module__].TripletDistanceMetric)
    if loss.distance_metric is not metrics["COSINE"]:
        return "TripletLoss is known with TripletDistanceMetric.COSINE only"
    return get_loss("triplet", margin=float(loss.triplet_margin))


def _mined(loss: Any, columns: int) -> Loss | str:
    name = type(loss).__name__
    if getattr(loss.distance_metric, "__name__", "") != "cosine_distance":
        return f"{name} is known with cosine_distance only"
    margin = float(loss.margin if hasattr(loss, "margin") else loss.triplet_margin)
    mined = get_loss("triplet", margin=margin, **MINING[name])
    return get_loss("pool", loss=mined, negatives="same")


def _matryoshka(loss: Any, columns: int) -> Loss | str:
    """Return the sum over prefixes that MatryoshkaLoss is; prefixes without weight are left out."""
    changed = recognise(loss.loss, columns)
    if not isinstance(changed, Loss):
        return f"MatryoshkaLoss has prefixes of a loss of which {changed or 'nothing is known'}"
    if type(loss.loss).__name__.removeprefix("Cached") not in OF_PREFIXES:
        return f"MatryoshkaLoss is known with {listed(OF_PREFIXES)}, not {type(loss.loss).__name__}"
    if 0 < getattr(loss, "n_dims_per_step", -1) < len(loss.matryoshka_dims):
        return "MatryoshkaLoss draws some of its prefixes in each step (n_dims_per_step)"
    pairs = zip(loss.matryoshka_dims, loss.matryoshka_weights, strict=True)
    weighed = [(int(size), float(weight)) for size, weight in pairs if weight]
    if not weighed or min(weight for _, weight in weighed) < 0:
        return "MatryoshkaLoss is known with weights above 0"
    sizes, weights = zip(*weighed, strict=True)
    return get_loss("per_prefix", loss=changed, dims=list(sizes), weights=list(weights))


def _times(factor: float, loss: Loss) -> Loss:
    return loss if factor == 1 else get_loss("sum", losses=[loss], weights=[factor])


def _ranking(loss: Any, columns: int) -> Loss | str:
    unknown = "MultipleNegativesRankingLoss is known with cosines and the direction query_to_doc"
    directions = getattr(loss, "directions", None)
    if directions is None:  # older versions
        directions = ("query_to_doc",) if "Symmetric" not in type(loss).__name__ else ()
    chosen = set(directions)
    if getattr(loss.similarity_fct, "__name__", "") != "cos_sim" or not chosen <= set(POOLS):
        return unknown
    plain = hardened = get_loss("infonce", temperature=1 / loss.scale)
    mode = getattr(loss, "hardness_mode", None)
    if mode is not None and loss.hardness_strength:
        if mode not in HARDNESS:
            return unknown
        strength = float(loss.hardness_strength)
        hardened = get_loss("hardness", loss=plain, alpha=strength, on=HARDNESS[mode])
    if chosen == {"query_to_doc"}:
        return hardened
    if getattr(loss, "partition_mode", "joint") == "per_direction":
        if chosen != {"query_to_doc", "doc_to_query"}:
            return unknown
        # The library hardens the logits of one direction only.
        return get_loss("symmetric", loss=hardened, reverse="" if hardened is plain else plain)
    if "query_to_doc" not in chosen:
        return unknown
    pools = "+".join(pool for direction, pool in POOLS.items() if direction in chosen)
    positive = "twice" if "doc_to_query" in chosen else "once"
    return get_loss("pool", loss=hardened, negatives=pools, positive=positive)


def _guided(loss: Any, columns: int) -> Loss | str:
    if type(loss.similarity_fct).__name__ != "CosineSimilarity":
        return "GISTEmbedLoss is known with cosines"
    pools = ["other"]
    pools += ["same"] if getattr(loss, "contrast_anchors", True) else []
    pools += ["positive_same"] if getattr(loss, "contrast_positives", True) else []
    inner = get_loss("infonce", temperature=loss.temperature)
    if len(pools) > 1:
        inner = get_loss("pool", loss=inner, negatives="+".join(pools), extra_negatives="anchors")
    margin = float(getattr(loss, "margin", 0.0))
    kind = getattr(loss, "margin_strategy", "absolute")
    return get_loss("mask", loss=inner, by="guide", margin=margin, margin_kind=kind)


# (loss, number of columns) -> gradlab loss. Cached losses compute the same value in pieces.
MAKERS: dict[str, Callable[[Any, int], Loss | str]] = {
    "MultipleNegativesRankingLoss": _ranking,
    "GISTEmbedLoss": _guided,
    "MarginMSELoss": lambda loss, _: _compares(loss) or get_loss("margin_mse"),
    "DistillKLDivLoss": _kl,
    "EmbedDistillLoss": _embed_distill,
    "MSELoss": _embed_distill,
    "GlobalOrthogonalRegularizationLoss": _gor,
    "CoSENTLoss": lambda loss, _: _compares(loss) or get_loss("cosent", temperature=1 / loss.scale),
    "TripletLoss": _triplet,
    "MatryoshkaLoss": _matryoshka,
    **dict.fromkeys(MINING, _mined),
}
# Losses whose prefixes are known.
OF_PREFIXES = ("MultipleNegativesRankingLoss", "CoSENTLoss", "TripletLoss")
# Why there is no closed form, after the name of the loss.
UNKNOWN = {
    "AnglELoss": "compares angles between complex numbers, which are no function of cosines",
    "BatchHardSoftMarginTripletLoss": "takes a softplus of the hardest triplet, not a margin",
}
