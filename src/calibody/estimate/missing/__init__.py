"""What a model or a file lacks: scores, suspects, mistakes, and what they would move."""
