"""Linear complementarity problems: `lcp` (Lemke's method), `mlcp` (free unknowns eliminated first), `cone` and `single` (friction cones), `derivative` (active sets). No physics here."""
