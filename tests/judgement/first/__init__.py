"""The first half of the set, whose cases may fix limits."""
