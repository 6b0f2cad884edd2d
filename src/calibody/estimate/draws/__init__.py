"""Posteriors: explanations, draws, bands and what is compared with them."""
