"""Estimation: parameters, motion and forces from recordings."""
