"""Components of a loss over distributions of angles, exactly or by Monte Carlo."""

from gradlab.quantities import OF_ANGLES as QUANTITIES
from gradlab.simulation.grid_and_result import AngleGrid, SimulationResult
from gradlab.simulation.simulating import simulate
from gradlab.simulation.sphere import sample_views

__all__ = ["QUANTITIES", "AngleGrid", "SimulationResult", "sample_views", "simulate"]
