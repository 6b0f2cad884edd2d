"""jax as calibody uses it: float64, and a persistent cache for everything that is compiled, however small. Import jax from here."""

from __future__ import annotations

import os
from pathlib import Path

import jax


def cache_folder() -> Path:
    """Where compiled kernels are kept: CALIBODY_CACHE, or `calibody` in the user's cache folder."""
    if folder := os.environ.get("CALIBODY_CACHE"):
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "calibody"


def configure() -> None:
    """Called when this module is imported."""
    jax.config.update("jax_enable_x64", True)
    try:
        folder = cache_folder() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    except OSError:
        pass  # a home that cannot be written only costs the compile time of every start


configure()
