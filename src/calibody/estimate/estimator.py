"""What an estimator is: its options as a value, and what it does with a model, recordings and unknowns.

An estimator is one file beside its siblings with a frozen dataclass derived from `AbstractEstimator`: every field is an option with its unit, its
usual range and when to change it, `__post_init__` refuses what does not fit (`refuse_unless`, `refuse_unless_one_of`), and what is heavy is imported when it is
used, because experiment files are read with these classes. One line in `ESTIMATORS` (`fit.py`) makes its name a short form and its options
keys of `[method]`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from calibody.errors import CalibodyError, either, shown
from calibody.solve.globalisation import GLOBALISATIONS

if TYPE_CHECKING:
    from calibody.estimate.identifiability import Identifiability
    from calibody.estimate.result import Result
    from calibody.estimate.unknowns import Unknown
    from calibody.model import Model
    from calibody.recording.recording import Recording
    from calibody.solve.gauss_newton import Iteration

    Unknowns = Mapping[str, Unknown | float | None]
    """By path: an `Unknown`, an initial value, or None for the model's value."""
    Report = Callable[[Iteration], None]
    """Called with every iteration."""


class Checkpoint(Protocol):
    """Keeps what is solved while an estimator goes on, so that a fit that was stopped need not solve it again."""

    def solved(self, stage: str) -> Any | None:
        """What an earlier attempt has kept of a stage; None if nothing."""

    def keep(self, stage: str, state: Any) -> None: ...


class AbstractEstimator(ABC):
    name: ClassVar[str]
    """Its short form, in `fit(method=...)` and experiment files."""

    @abstractmethod
    def estimate(
        self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns, report: Report | None = None, start: Mapping[str, float] | None = None
    ) -> Result:
        """Parameters, motion and forces; `start` has values, as a result reports them, to begin from instead of the initial ones."""

    @abstractmethod
    def foresee(self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns) -> Identifiability:
        """What the data will be able to tell, at the initial values and without a fit."""

    @abstractmethod
    def refuse(self, model: Model, recordings: Sequence[Recording], unknowns: Unknowns) -> None:
        """A sentence where `estimate` would give one instead of a result: its own way up to the first step, so that `calibody check` refuses what a fit refuses."""


class OptionError(CalibodyError):
    """An option of an estimator does not fit; `option` is its name, for a file to say the line."""

    def __init__(self, option: str, value: object, remedy: str) -> None:
        super().__init__(option, value, remedy)
        self.option = option

    def __str__(self) -> str:
        option, value, remedy = self.args
        return f"{option} = {shown(value)}; {remedy}"


def refuse_unless(fits: object, option: str, value: object, expected: str) -> None:
    if not fits:
        raise OptionError(option, value, f"give {expected}.")


def refuse_unless_one_of(choices: Sequence[str], option: str, value: object) -> None:
    refuse_unless(isinstance(value, str) and value in choices, option, value, either(choices))


def refuse_globalisation(globalisation: object, back_projection: object) -> None:
    """The options of estimators that solve by Gauss-Newton (`solve/natural.py`)."""
    refuse_unless_one_of(GLOBALISATIONS, "globalisation", globalisation)
    refuse_unless(isinstance(back_projection, bool), "back_projection", back_projection, "true or false")
