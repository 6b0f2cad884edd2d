"""Estimation on the regularised stepper: states beside parameters (`shadow`), and shooting."""
