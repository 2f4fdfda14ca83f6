"""Figures: ``draw`` takes the tables of ``compute``, other functions an axis; importing draws
nothing.
"""
