"""What every test relies on: float64, programs that are compiled quickly, hypothesis without chance, the reference data, and a compilation cache inside the repository."""

import os
from pathlib import Path

import jax
import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[1]
os.environ.setdefault("CALIBODY_CACHE", str(REPOSITORY / ".cache"))  # also for the processes that tests start
os.environ.setdefault("CALIBODY_COMPILE", "quick")  # hundreds of mechanisms, each simulated briefly: half of the suite's time was compiling
jax.config.update("jax_enable_x64", True)

pytest_plugins = ["running"]

settings.register_profile("calibody", derandomize=True, deadline=None)
settings.load_profile("calibody")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data: `CALIBODY_SHARED`, or `shared` beside the repository."""
    folder = Path(os.environ.get("CALIBODY_SHARED") or REPOSITORY.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f'no reference data: "{folder.name}" is not beside the repository and CALIBODY_SHARED is not set')
    return folder
