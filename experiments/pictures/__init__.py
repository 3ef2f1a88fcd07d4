"""How the figures look."""
