"""Shooting on the variational stepper: windows, how they are condensed, and the adjoint."""
