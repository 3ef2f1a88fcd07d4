"""Multipliers and gaps on bounds with at most one total."""
