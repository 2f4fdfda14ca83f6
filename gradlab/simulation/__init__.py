"""Components of a loss over distributions of angles, exactly or by Monte Carlo."""

from gradlab.simulation.result import SimulationResult
from gradlab.simulation.run import QUANTITIES, simulate

__all__ = ["QUANTITIES", "SimulationResult", "simulate"]
