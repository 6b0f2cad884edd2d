"""Paths: cables, belts and tendons that run through sites and around shapes, and the muscles that pull on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from calibody.errors import ModelError, nearest
from calibody.model.elements import FORCE, SCALAR, SIGNAL, Actuator, Number, Transmission, _coerce, _not_negative, _not_skewed

if TYPE_CHECKING:
    from calibody.model.model import Model

UNITS = {"s": "m", "f": "N", "i": "kg"}
"""What a force on a path, and a law of it, is in; as `Joint.units`."""
WRAPPED = ("sphere", "cylinder")
"""Kinds of geometries that a path can run around."""


@dataclass(frozen=True)
class Wrap:
    """A sphere or a cylinder that a path runs around, between two sites. `side` names a site on whose side it passes; a site inside the shape means that the path runs through it, as through a ring."""

    geometry: str
    side: str = ""


@dataclass(frozen=True)
class Pulley:
    """A block: from here to the next, lengths count 1/divisor, and so does the force. It begins a piece of its own: the path goes on at the next site."""

    divisor: float


@dataclass(frozen=True)
class Path:
    """A line `through` sites (by name), around shapes (`Wrap`) and over blocks (`Pulley`), of the length z, with a law like a transmission's:

        f = -stiffness y(z - springref) - damping z' - (friction + stribeck exp(-(z'/stribeck_rate)^2)) sign(z') + actuators on it

    pulls along it, with `damping_skew` and `friction_skew` as of a joint; `armature` is an inertia on z. A cable that only pulls, relaxed up to the length L, has `springref = L/2, backlash = L`.
    """

    KIND: ClassVar[str] = "path"
    NUMBERS: ClassVar[Mapping[str, Number]] = Transmission.NUMBERS

    name: str
    through: Sequence[str | Wrap | Pulley]
    stiffness: float = 0.0
    springref: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    friction_rate: float = 0.0
    stribeck: float = 0.0
    stribeck_rate: float = 0.1
    armature: float = 0.0
    backlash: float = 0.0
    damping_skew: float = 0.0
    friction_skew: float = 0.0

    def __post_init__(self) -> None:
        _coerce(self)
        _not_skewed(self)
        _not_negative(self, "friction", "friction_rate", "stribeck", "armature", "backlash")
        if self.stribeck_rate <= 0.0:
            raise ModelError(f"path.{self.name}.stribeck_rate is {self.stribeck_rate:g}; give a rate above zero.")
        object.__setattr__(self, "through", tuple(self.through) if not isinstance(self.through, str) else (self.through,))
        for part in self.through:
            if not isinstance(part, (str, Wrap, Pulley)):
                raise ModelError(f"path.{self.name}.through has {part!r}; give names of sites, cb.Wrap(GEOMETRY) and cb.Pulley(DIVISOR).")
            if isinstance(part, Pulley) and not 0.0 < part.divisor < 1e150:
                raise ModelError(f"path.{self.name}.through has a pulley with the divisor {part.divisor!r}; give a number above zero.")
        if not self.pieces:
            raise ModelError(f"path.{self.name}.through is {self.through!r}; give at least two sites that follow one another.")

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """From site to site."""
        out, divisor, before, around = [], 1.0, "", None
        for part in self.through:
            if isinstance(part, Pulley):
                if around is not None:
                    raise ModelError(f'path.{self.name} has nothing after the geometry "{around.geometry}"; give the site where it goes on.')
                divisor, before = part.divisor, ""
            elif isinstance(part, Wrap):
                if not before or around is not None:
                    raise ModelError(f'path.{self.name} has no site before the geometry "{part.geometry}"; a shape stands between two sites.')
                around = part
            else:
                if before:
                    out.append(Piece(before, part, around, divisor))
                before, around = part, None
        if around is not None:
            raise ModelError(f'path.{self.name} has nothing after the geometry "{around.geometry}"; give the site where it goes on.')
        return tuple(out)

    @property
    def placed_by(self) -> frozenset[tuple[str, str]]:
        """Kind and name of the sites and shapes whose places its length depends on (a side only chooses)."""
        sites = {("site", name) for piece in self.pieces for name in (piece.start, piece.end)}
        return frozenset(sites | {("geometry", piece.around.geometry) for piece in self.pieces if piece.around is not None})

    def check(self, model: Model) -> None:
        """A sentence for what the model does not have, or cannot be run around."""
        sites, shapes = model.tables["site"], model.tables["geometry"]
        for part in self.through:
            name = part if isinstance(part, str) else part.side if isinstance(part, Wrap) else ""
            if name and name not in sites:
                raise ModelError(f'path.{self.name} runs through the site "{name}", which the model does not have{nearest(name, sites) or "."}')
            if isinstance(part, Wrap):
                if part.geometry not in shapes:
                    raise ModelError(
                        f'path.{self.name} runs around the geometry "{part.geometry}", which the model does not have{nearest(part.geometry, shapes) or "."}'
                    )
                if shapes[part.geometry].kind not in WRAPPED:
                    raise ModelError(
                        f'path.{self.name} runs around the {shapes[part.geometry].kind} "{part.geometry}"; it can run around spheres and cylinders.'
                    )


@dataclass(frozen=True)
class Piece:
    """Of a path: from one site to the next, around a shape or straight."""

    start: str
    end: str
    around: Wrap | None
    divisor: float


@dataclass(frozen=True)
class Muscle(Actuator):
    """A muscle on a path (or on a joint or transmission): an actuator whose control is the activation a, between 0 and 1. With the length z of what it acts on, `L = (gear z - slack_length)/optimal_length` and `V = gear z'/(optimal_length vmax)`,

        force = -gear peak_force (a FL(L) FV(V) + FP(L))

    FL is a bump of two parabolas on each side, 0 at `lmin` and `lmax` and 1 at L = 1; FV is 0 for V <= -1, 1 at rest, and `fvmax` from V = fvmax - 1 on; FP, of tissue that is stretched, begins at L = 1, is `fpmax`/2 at (1 + lmax)/2 and straight beyond: the muscle of MuJoCo.
    """

    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "peak_force": Number(SCALAR, "{f}", FORCE, signed=False, linear=True),
        "optimal_length": Number(SCALAR, "{s}", FORCE, signed=False),
        "slack_length": Number(SCALAR, "{s}", FORCE),
        "lmin": Number(SCALAR, "", FORCE),
        "lmax": Number(SCALAR, "", FORCE),
        "vmax": Number(SCALAR, "1/s", FORCE, signed=False),
        "fpmax": Number(SCALAR, "", FORCE, signed=False),
        "fvmax": Number(SCALAR, "", FORCE, signed=False),
        "gear": Number(SCALAR, "", FORCE),
        "delay": Number(SCALAR, "s", SIGNAL, signed=False),
        "time_constant": Number(SCALAR, "s", SIGNAL, signed=False),
    }

    gain: float = field(default=0.0, init=False)
    bias: float = field(default=0.0, init=False)
    stiffness: float = field(default=0.0, init=False)
    damping: float = field(default=0.0, init=False)
    control_range: tuple[float, float] | None = (0.0, 1.0)
    peak_force: float = 1.0
    optimal_length: float = 1.0
    slack_length: float = 0.0
    lmin: float = 0.5
    lmax: float = 1.6
    vmax: float = 1.5
    fpmax: float = 1.3
    fvmax: float = 1.2

    def __post_init__(self) -> None:
        super().__post_init__()
        _not_negative(self, "peak_force", "fpmax")
        for name, good in (
            ("optimal_length", self.optimal_length > 0.0),
            ("vmax", self.vmax > 0.0),
            ("fvmax", self.fvmax > 1.0),
            ("lmin", self.lmin < 1.0),
            ("lmax", self.lmax > 1.0),
        ):
            if not good:
                wanted = {"fvmax": "above 1", "lmin": "below 1", "lmax": "above 1"}.get(name, "above zero")
                raise ModelError(f"actuator.{self.name}.{name} is {getattr(self, name):g}; it must be {wanted}.")
