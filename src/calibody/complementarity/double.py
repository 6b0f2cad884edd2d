"""jax in double precision, for the modules of this package that compile; the others do not wait for it."""

import jax as jax

jax.config.update("jax_enable_x64", True)
