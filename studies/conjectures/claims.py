"""The claims of ``claims.toml``, with their numbers by seed from the tables of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from gradlab import get_loss
from gradlab.gradient import LEMMA_STEP
from studies.conjectures.conditions import BASELINE, NO_DISSIPATION, baseline
from studies.conjectures.conjecture3 import DYNAMIC
from studies.conjectures.results import Frames, paired
from studies.conjectures.settings import MARGIN, RATIO, TEMPERATURE
from studies.conjectures.verdicts import Claim

# From here on a share has no room left to grow.
CEILING = 0.99
# Step sizes of the lemma at which triples are counted: the paper's, and one at which steps fail.
STEPS = (LEMMA_STEP, 0.3)


def claims_of(tables: Frames, settings: Mapping[str, Any]) -> list[Claim]:
    """Return the claims of all conjectures whose tables are there, for a study's settings."""
    claims = []
    if "conjecture1-angles" in tables:
        claims += _first(tables, settings)
    if "conjecture2-share" in tables:
        claims += _second(tables, settings)
    if "conjecture3-minimum-ratio" in tables:
        claims += _third(tables, settings)
    return claims


def _first(tables: Frames, settings: Mapping[str, Any]) -> list[Claim]:
    gaps = by_seed(tables["conjecture1-angles"], "gap")
    claims = [
        Claim.declared("gap", gaps(NO_DISSIPATION, BASELINE)),
        Claim.declared("dissipation", scores(tables)(BASELINE, NO_DISSIPATION)),
    ]
    # At m = 1 the gate hardly ever closes: those trainings are the ones without dissipation, and
    # would count twice.
    largest = max((margin for margin in settings["margins"] if margin < 1), default=MARGIN)
    if largest > MARGIN:
        gain = scores(tables)(BASELINE, baseline(margin=largest).name)
        claims.append(Claim.declared("margin", gain, first=MARGIN, second=largest))
    return claims


def _second(tables: Frames, settings: Mapping[str, Any]) -> list[Claim]:
    table = tables["conjecture2-share"]
    at_training = table[table.temperature == TEMPERATURE].set_index("seed")
    tuned, untuned = (at_training[at_training.encoder == name] for name in ("tuned", "untuned"))
    gated, before = (rows[rows.anchors == "gated"] for rows in (tuned, untuned))
    whole = tuned[tuned.anchors == "all"]
    measured = {
        "projection": gated.projection,
        "share": gated.share,
        "projection-of-all": whole.projection,
        "share-of-all": whole.share,
        "tuning": gated.projection - before.projection,
    }
    claims = [
        Claim.declared(name, values.dropna().to_list(), temperature=TEMPERATURE)
        for name, values in measured.items()
    ]
    temperatures = settings["temperatures"]
    middle = min(temperatures, key=lambda temperature: abs(temperature - 0.3))
    for temperature in dict.fromkeys((middle, max(temperatures))):
        if temperature != TEMPERATURE:
            gain = scores(tables)(BASELINE, baseline(temperature=temperature).name)
            named = {"first": TEMPERATURE, "second": temperature}
            claims.append(Claim.declared("temperature", gain, **named))
    return claims


def _third(tables: Frames, settings: Mapping[str, Any]) -> list[Claim]:
    claims = []
    # Without a dynamic loss the table has no rows and is not there; its claims stay, unmeasured.
    closer = tables.get("conjecture3-closer", pd.DataFrame({"condition": [], "step": []}))
    for loss in DYNAMIC:
        for step in STEPS:
            rows = closer[(closer.condition == loss) & (closer.step == step)]
            for name in ("closer", "lemma"):
                gains, at_ceiling = [], False
                if len(rows):
                    gains = (rows[f"{name}_own"] - rows[f"{name}_one"]).to_list()
                    at_ceiling = bool(rows[f"{name}_one"].min() > CEILING)
                title = get_loss(loss).title
                claims.append(Claim.declared(name, gains, at_ceiling, loss=title, step=step))
    # What training with a larger ratio does, above the baseline's ratio and below it.
    largest, smallest = max(settings["ratios"]), min(settings["ratios"])
    ends = tables["training"].groupby(["condition", "seed"], as_index=False).positive_cosine.last()
    cosines = by_seed(ends, "positive_cosine")
    pairs = {"larger-ratio": (largest, RATIO), "smaller-ratio": (RATIO, smallest)}
    for name, (first, second) in pairs.items():
        if first <= second and name == "smaller-ratio":
            continue  # a claim that decides stays, unmeasured, where there is nothing to compare
        names = baseline(ratio=first).name, baseline(ratio=second).name
        differences = cosines(*names) if first > second else []
        claims += [
            Claim.declared(name, differences, first=first, second=second),
            Claim.declared("ratio", scores(tables)(*names), first=first, second=second),
        ]
    return claims


def scores(tables: Frames) -> Any:
    """Return `by_seed` of STS-B dev, over the runs that did not diverge."""
    runs = tables["runs"]
    return by_seed(runs[runs.diverged.isna()], "stsb_dev")


def by_seed(table: pd.DataFrame, column: str) -> Any:
    """Return a function of two conditions: their differences, for the seeds that have both."""
    wide = table.pivot(index="seed", columns="condition", values=column)

    def differences(plus: str, minus: str) -> list[float]:
        if plus not in wide or minus not in wide:
            return []
        return paired(wide[plus], wide[minus])

    return differences
