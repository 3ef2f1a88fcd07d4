"""Weak duality with a residual, its rounding, and what is known of loss and set."""
