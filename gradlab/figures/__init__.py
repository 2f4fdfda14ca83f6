"""Figures: every function takes an axis and returns ``(fig, ax)``; nothing draws on import."""
