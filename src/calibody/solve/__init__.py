"""Solvers without physics: constrained least squares whose variables are many states and few shared parameters."""
