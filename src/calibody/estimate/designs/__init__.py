"""What to record next: excitations, their limits, and the error bars to be expected."""
