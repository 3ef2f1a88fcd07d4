"""From a loss under constraints to a certified minimiser.

``formulation`` states the problem, ``programs`` makes it a linear or cone program, ``paths`` has
the ways to a point, ``certificate`` proves how good a point is, and ``acceptance`` decides whether
it is called optimal. ``problem`` puts them together, and ``kkt`` writes the conditions.
"""
