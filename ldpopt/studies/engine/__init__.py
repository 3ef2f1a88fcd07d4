"""The loop behind studies and figures: cells of simulated trials, computed anywhere, kept on disk.

A cell is one data set, oracle and budget with its candidates and measures (``cell``); what is
measured is kept as values or as moments (``moments``). ``run`` computes the cells that a ``store``
does not have, under keys that follow from the sources that make the numbers (``provenance``).
"""
