"""Cells of the simulation: users report through an oracle; estimates are processed and measured."""
