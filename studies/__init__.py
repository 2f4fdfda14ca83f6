"""Studies that gradlab is used for: what the papers claim, and what their components do. Run them
in a checkout.
"""
