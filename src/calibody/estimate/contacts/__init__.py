"""Impacts and contact that lasts, in fits: where they are, the equations that they add, and what changes while a fit is on its way."""
