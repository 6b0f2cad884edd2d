"""Signals and recordings: clocks, channels, units, noise."""
