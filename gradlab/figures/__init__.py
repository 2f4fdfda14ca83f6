"""Figures: a ``draw`` takes the tables of its ``compute``, other functions an axis; nothing draws on import."""
