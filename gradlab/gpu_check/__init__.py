"""Is gradlab right on this GPU, and how fast: every check and measurement that needs one, in one command."""

from gradlab.gpu_check.machine import RATES, Case, Machine
from gradlab.gpu_check.running import PARTS, failed, gpu_check, plan

__all__ = ["PARTS", "RATES", "Case", "Machine", "failed", "gpu_check", "plan"]
