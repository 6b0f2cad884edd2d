"""How a posterior is drawn, as a value: the arguments of `posterior`, and the keys of `[posterior]` in experiment files. Light, because files are read with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calibody.estimate.estimator import refuse_unless, refuse_unless_one_of

SAMPLERS = ("auto", "importance", "hmc", "smc", "svgd", "csvgd")
STEIN = ("svgd", "csvgd")
AUTO = "auto"
BLOCK = 16
"""Draws that a process makes at a time."""
FEWEST = 32
"""Draws from which weights can be judged at all (a fifth of them is their tail)."""


@dataclass(frozen=True)
class Sampling:
    samples: int = 400
    """Draws. 400 say a 90 % interval to a tenth of its width; k-hat means little below 100."""
    starts: int = 8
    """Further fits that look for other explanations; 0: none. More where several explanations are likely, none where a fit takes long and there can be only one."""
    sampler: str = "auto"
    """ "auto": importance sampling and, where its weights cannot be trusted, chains; "importance", "hmc": one of them; "smc": tempered from a far wider distribution, which takes longest; "svgd", "csvgd": particles of Stein's method, by single and by multiple shooting, for those who want them."""
    windows: int | str = AUTO
    """Of "csvgd": pieces in which every run is shot; "auto": one every ten steps, as of `cb.Shooting`."""
    iterations: int = 200
    """Of "svgd" and "csvgd": most steps of all particles, of which there are `samples`; every one linearises a motion. They end sooner where the particles come to rest."""
    seed: int = 0
    """Of the random numbers: the same seed gives the same draws."""
    processes: int = 0
    """Processes at work; 0: one per core."""

    def __post_init__(self) -> None:
        refuse_unless(_whole(self.samples, FEWEST), "samples", self.samples, f"a number of draws, {FEWEST} or more")
        refuse_unless(_whole(self.starts, 0), "starts", self.starts, "a number of further fits, or 0")
        refuse_unless(_whole(self.windows, 2) or self.windows == AUTO, "windows", self.windows, 'a number of windows, 2 or more, or "auto"')
        refuse_unless(_whole(self.iterations, 1), "iterations", self.iterations, "a number of iterations, 1 or more")
        refuse_unless(_whole(self.seed, 0), "seed", self.seed, "a whole number, 0 or more")
        refuse_unless(_whole(self.processes, 0), "processes", self.processes, "a number of processes, or 0 for all cores")
        refuse_unless_one_of(SAMPLERS, "sampler", self.sampler)


def _whole(given: Any, least: int) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= least
