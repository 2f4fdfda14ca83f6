"""Studies that use gradlab, to be run in a checkout: what papers claim, what components do."""
