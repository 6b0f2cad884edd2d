"""Importing the kernels turns on the persistent compilation cache: the second run of these tests compiles nothing."""

import calibody.mechanics.kernels  # noqa: F401
