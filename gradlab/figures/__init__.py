"""Figures: ``draw`` takes the tables of ``compute``, other functions an axis.

Importing draws nothing.
"""
