"""Studies that use gradlab: what the papers claim, and what their components do.

Run them in a checkout.
"""
