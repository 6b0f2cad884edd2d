"""Rotations, poses and pseudo-inertia on tuples of scalars: the same code serves floats, numpy arrays and traced values."""
