"""Checks gradlab on an NVIDIA GPU, and measures its speed there: ``python -m tests.gpu``."""
