"""Certificates of programs that cvxpy has compiled, from any multipliers of their cones."""
