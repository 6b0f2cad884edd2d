"""Forces that a model does not know and noise of unknown size: their likelihood, how it is maximised, and error bars that follow."""
