"""Components of a loss over distributions of angles, exactly or by Monte Carlo."""

from gradlab.simulation.grid import QUANTITIES, simulate
from gradlab.simulation.result import SimulationResult

__all__ = ["QUANTITIES", "SimulationResult", "simulate"]
