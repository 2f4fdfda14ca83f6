"""The rule of `gradlab.flow` for the explorer's Play: its constants, for ``flow.js``."""

from __future__ import annotations

import inspect

from gradlab.flow import curves, flowing, runge_kutta


def flow_constants() -> dict[str, float]:
    """Return the constants of a flow with default settings, by their names in ``flow.js``."""
    defaults = inspect.signature(flowing.flow).parameters
    return {
        "steps": defaults["steps"].default,
        "tolerance": defaults["tolerance"].default,
        "largest_angle": runge_kutta.LARGEST_ANGLE,
        "relative_error": runge_kutta.RELATIVE_ERROR,
        "growth": runge_kutta.GROWTH,
        "steep": runge_kutta.STEEP,
        "jump_angle": runge_kutta.JUMP_ANGLE,
        "smallest_jump_angle": runge_kutta.SMALLEST_JUMP_ANGLE,
        "near_jump": runge_kutta.NEAR_JUMP,
        "at_rest": flowing.AT_REST,
        "slow": flowing.SLOW,
        "window": flowing.WINDOW,
        "stuck": flowing.STUCK,
        "stopped": curves.STOPPED,
        "density": curves.DENSITY,
        "sparsest": curves.SPARSEST,
    }
