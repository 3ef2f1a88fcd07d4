"""Linear, quadratic and cone programs, and the solvers that take them."""
