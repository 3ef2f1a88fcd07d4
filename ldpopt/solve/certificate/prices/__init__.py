"""Multipliers that follow from the gradient: of orders, trees, groups, rows and balls."""
