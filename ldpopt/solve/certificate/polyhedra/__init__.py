"""Multipliers of any rows, and of curved sets that are stated in cvxpy."""
