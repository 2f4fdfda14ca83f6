"""The rule of `gradlab.flow` for the explorer's Play: its constants, for ``flow.js``."""

from __future__ import annotations

import inspect

from gradlab.flow import course, flowing, integration


def flow_constants() -> dict[str, float]:
    """Return the constants of a flow with default settings, by their names in ``flow.js``."""
    defaults = inspect.signature(flowing.flow).parameters
    return {
        "steps": defaults["steps"].default,
        "tolerance": defaults["tolerance"].default,
        "largest_angle": integration.LARGEST_ANGLE,
        "relative_error": integration.RELATIVE_ERROR,
        "growth": integration.GROWTH,
        "steep": integration.STEEP,
        "jump_angle": integration.JUMP_ANGLE,
        "smallest_jump_angle": integration.SMALLEST_JUMP_ANGLE,
        "near_jump": integration.NEAR_JUMP,
        "at_rest": flowing.AT_REST,
        "slow": flowing.SLOW,
        "window": flowing.WINDOW,
        "stuck": flowing.STUCK,
        "stopped": course.STOPPED,
        "density": course.DENSITY,
        "sparsest": course.SPARSEST,
    }
