"""How a setting is declared, named, parsed and checked; objects and classes by name."""
