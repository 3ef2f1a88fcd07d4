"""Experiments: what the papers drew, and how fast this library is."""
