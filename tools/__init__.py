"""Checks and measurements of the code itself: no part of the installed package."""
