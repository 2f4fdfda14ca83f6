"""Checks and measurements of gradlab on a GPU, in one command."""

from gradlab.gpu_check.machine import RATES, Case, Machine
from gradlab.gpu_check.running import PARTS, failed, gpu_check, plan

__all__ = ["PARTS", "RATES", "Case", "Machine", "failed", "gpu_check", "plan"]
