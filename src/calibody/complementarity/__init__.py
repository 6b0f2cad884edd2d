"""Linear complementarity problems: `lcp` (Lemke's method), `mlcp` (free unknowns eliminated first), `derivative` (active sets). No physics here."""

import jax

jax.config.update("jax_enable_x64", True)
