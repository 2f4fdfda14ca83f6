"""From a seed to a generator of random numbers."""

from __future__ import annotations

import numpy as np

from gradlab.errors import GradlabError


def random_generator(seed: int | np.random.Generator) -> np.random.Generator:
    """numpy's generator of this seed; a generator is passed through.

    Raises:
        GradlabError: a seed that is negative or no whole number.
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise GradlabError(
            f"seed must be a whole number of at least 0 or a generator, not {seed!r}"
        ) from error
