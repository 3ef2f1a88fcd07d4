"""Slow and independent: exact fractions, channels by enumeration, counted operations."""
