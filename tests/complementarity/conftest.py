"""Importing this turns on the persistent compilation cache: the second run of these tests compiles nothing."""

import calibody.mechanics.compilation  # noqa: F401
