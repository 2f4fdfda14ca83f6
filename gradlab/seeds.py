"""Seeds and states of a process's random generators: seeding, saving, restoring and isolating."""

from __future__ import annotations

import base64
import contextlib
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.errors import GradlabError

if TYPE_CHECKING:
    import torch


def random_generator(seed: int | np.random.Generator) -> np.random.Generator:
    """Return numpy's generator for a seed; a generator is returned unchanged.

    Raises:
        GradlabError: the seed is negative or not a whole number.
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise GradlabError(
            f"seed must be a whole number of at least 0 or a generator, not {seed!r}"
        ) from error


def seed_everything(seed: int, rank: int = 0) -> None:
    """Seed the generators of Python, numpy and torch; each rank gets its own stream."""
    import torch

    words = np.random.SeedSequence([seed, rank]).generate_state(3)
    random.seed(int(words[0]))
    np.random.seed(int(words[1]))  # noqa: NPY002 - callbacks may draw from the global generator
    torch.manual_seed(int(words[2]))


def random_state() -> dict[str, Any]:
    """Return the state of all generators in a form that JSON can store."""
    import torch

    generator: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    generator["state"]["key"] = generator["state"]["key"].tolist()
    state = {
        "python": random.getstate(),
        "numpy": generator,
        "torch": _to_text(torch.get_rng_state()),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = _to_text(torch.cuda.get_rng_state())
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    """Restore the generators to a state from :func:`random_state`.

    Raises:
        GradlabError: the state does not come from :func:`random_state`.
    """
    import torch

    try:
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words), gauss))
        generator = {**state["numpy"], "state": dict(state["numpy"]["state"])}
        generator["state"]["key"] = np.array(generator["state"]["key"], dtype=np.uint32)
        np.random.set_state(generator)  # noqa: NPY002
        torch.set_rng_state(_from_text(state["torch"]))
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(_from_text(state["cuda"]))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise GradlabError(
            f"the saved state of the random generators cannot be used: {error}"
        ) from error


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Restore all generators and torch's number of threads after the block."""
    import torch

    of_python, threads = random.getstate(), torch.get_num_threads()
    of_numpy = np.random.get_state()  # noqa: NPY002
    on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    try:
        with torch.random.fork_rng([torch.cuda.current_device()] if on_gpu else []):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002
        torch.set_num_threads(threads)


def _to_text(state: torch.Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode("ascii")


def _from_text(text: str) -> torch.Tensor:
    import torch

    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
