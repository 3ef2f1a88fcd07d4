"""From a loss under constraints to a certified minimiser."""
