"""Benchmarks: every speed is a ratio within one run on one machine, with its target beside it."""
