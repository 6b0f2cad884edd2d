"""What an element type is: the protocol that everything which knows forces and constraints loops over.

A twist `(w, v)` moves a link by `dH = [w]x H + v e4'`; a wrench is (torque about the world's origin, force). A `Measure` is a set of quantities
`z_r` between the links l that an element touches, any number of them:

    dz_r = sum_l W_rl . t_l         the *wrenches* W are the gradient of z
    sum_r f_r A_rl                  is what forces f on z do to the links; A = W unless the type says otherwise (`acts`)
    d(sum_r f_r A_rl)/dt_m          *turned*, a 6x6 block for two links, f held

A force element is a measure with a law `f(z_L, z_R)` over an interval and an energy; a constraint asks for z = 0, its multipliers are f. A joint's
coordinate is a measure too (`coordinate.py`), and what acts on coordinates (`CoordinateConstraint`, `CoordinateForce`) knows no links.

Wrenches often come in pairs: equal and opposite on two links. So a measure gives one wrench per *arm*, and the arm says on which links, counted as the
element names them, and with which sign. A wrench of three numbers is a torque; a block of fewer than 6x6 is the upper left corner of one.

All functions take poses (one per link) and `data` (the element's numbers) as tuples of scalars in the sense of `spatial.algebra`: floats, a batch over
elements and nodes, or what a compiled step traces.

Interval elements act between node L and node R = L + 1 and return what they contribute to the discrete equations of both nodes
(DESIGN section 3): at L `V E - (h/2) F`, at R `-V E - (h/2) F`. Node elements (constraints) see one node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from calibody.model import Model
from calibody.spatial import algebra as al

Poses = Sequence[al.Pose]
Blocks = Mapping[tuple[int, int], tuple]
"""(arm, link) -> rows of a block: how the wrench of an arm changes with the twist of a link."""
Arms = tuple[tuple[tuple[int, float], ...], ...]

EACH: Arms = (((0, 1.0),), ((1, 1.0),))
"""Two links, each with a wrench of its own."""
ON_FIRST: Arms = (((0, 1.0), (1, -1.0)),)
ON_SECOND: Arms = (((1, 1.0), (0, -1.0)),)
"""Two links: the wrench is on the first (second), its opposite on the other."""
ALONE: Arms = (((0, 1.0),),)
"""One link: the world takes the opposite."""


@dataclass(frozen=True)
class Measure:
    """Quantities between links."""

    rows: int
    arms: Arms
    value: Callable[[Poses, Any], tuple]
    """z: `rows` scalars."""
    wrenches: Callable[[Poses, Any], tuple]
    """W: for every row, for every arm, three or six numbers."""
    turned: Callable[[Poses, Any, Any], Blocks]
    """With the forces on the rows as third argument; blocks that are zero are left out."""
    acts: Callable[[Poses, Any], tuple] | None = None
    """A, like W, where it is not W."""
    apart: bool = False
    """As a constraint: every arm's wrench turns with its own link only (no blocks between links)."""

    @cached_property
    def links(self) -> int:
        """How many links it touches."""
        return 1 + max(link for arm in self.arms for link, _ in arm)


@dataclass(frozen=True)
class Ends:
    """The two sides of what holds links together (a cut joint, a rigid attachment, a loop): a point and axes (columns) fixed in each."""

    point_a: np.ndarray
    axes_a: np.ndarray
    point_b: np.ndarray
    axes_b: np.ndarray
    source: Any
    """The `Loop`, the channel of a drive that prescribes, or None of joints."""
    model: Model


@dataclass(frozen=True)
class Constraint:
    """Rows z = 0 between links."""

    name: str
    measure: Measure
    holds: Mapping[str, tuple[Any, ...]]
    """For the kinds of joints (cut, in `free`) and loops that it is part of: what tells its elements there apart (`which`)."""
    numbers: Callable[[Ends, Any], Sequence[float]]
    """`data` of one element."""
    unit: str
    """Of the multipliers: N or N m."""

    @property
    def rows(self) -> int:
        return self.measure.rows

    def unit_of(self, source: Any, model: Model) -> str:
        return self.unit


@dataclass(frozen=True)
class VelocityConstraint:
    """Rows phi = 0 on what the links do over an interval; the multipliers of node k act as forces on the rows of the measure there."""

    name: str
    measure: Measure
    """What the multipliers act through; its value does not count."""
    holds: Mapping[str, tuple[Any, ...]]
    numbers: Callable[[Ends, Any], Sequence[float]]
    slip: Callable[[Poses, Poses, Any], tuple]
    """phi of the poses at both ends: a displacement."""
    slip_by: Callable[[Poses, Poses, Any], tuple[tuple, tuple]]
    """Its derivatives by the twists of the link at the left and at the right end, six numbers for every row."""
    unit: str

    @property
    def rows(self) -> int:
        return self.measure.rows

    def unit_of(self, source: Any, model: Model) -> str:
        return self.unit


@dataclass(frozen=True)
class CoordinateConstraint:
    """One row z(s) = 0 between joint coordinates; forces on it act as forces on the coordinates."""

    name: str
    holds: Mapping[str, tuple[Any, ...]]
    joints: Callable[[Any], tuple[str, ...]]
    """The names of the scalar coordinates that it takes, of the loop or channel that it is of."""
    numbers: Callable[[Ends, Any], Sequence[float]]
    value: Callable[[Sequence[Any], Any], tuple[Any, tuple, tuple]]
    """z, its derivative by each coordinate, and its second derivative by each (mixed ones are zero)."""
    unit_of: Callable[[Any, Model], str]
    rows: int = 1


@dataclass(frozen=True)
class Force:
    """A force between links on the coordinates z of its measure."""

    name: str
    """The table of the model that has its elements."""
    measure: Measure
    bodies: Callable[[Any], tuple[str, ...]]
    """The bodies that an element touches."""
    numbers: Callable[[Any], Sequence[float]]
    """`data` of an element."""
    impulse: Callable[[tuple, tuple, Any, Any], tuple[tuple, tuple, tuple]]
    """Of z at L, z at R, data and h: `-(h/2) f`, and its derivatives by both z."""
    energy: Callable[[tuple, Any], Any]
    """Of z and data."""
    pulled: bool = False
    """Whether the last of the numbers of an element is a force that a drive can set."""


@dataclass(frozen=True)
class Push:
    """A given force or torque on one link, its size the mean over an interval: at each end of the interval it acts through the wrench that its measure has there."""

    name: str
    measure: Measure
    numbers: Callable[[Model, Any], Sequence[float]]
    """`data`, of a model and the channel of the drive."""
    link: Callable[[Model, Any], str]
    """The body that it acts on."""


class Setting(NamedTuple):
    """What forces on coordinates depend on beside these and their own numbers."""

    delta: Any
    """Rate below which dry friction is viscous, of every element."""
    smooth: bool = False
    """Whether sharp dry friction has derivatives of all orders."""
    control: Any = None
    """Of every element, where it has one."""


@dataclass(frozen=True)
class CoordinateForce:
    """A force t on a joint's coordinate s, on a transmission or on a path, per element, from `s_m` and `rho` of an interval (or the coordinate and its rate at one instant)."""

    name: str
    fields: tuple[str, ...]
    """Names of the numbers; an element may have more behind these, which are never unknown."""
    owners: Callable[[Any], Sequence[tuple[str, str]]]
    """Of a structure: kind and name of what every element's numbers belong to."""
    touches: Callable[[Any], Sequence[int]]
    """Of a structure: the scalar coordinate of every element, or, counted on after these, its transmission or path."""
    numbers: Callable[[Any, Model], Sequence[Sequence[float]]]
    """Of a structure and a model: `data` of all elements."""
    force: Callable[[Any, Any, Any, Setting], tuple[Any, Any, Any, Any]]
    """t, and its derivatives by s_m, rho and the control."""
    by_numbers: Callable[[Any, Any, Any, Setting], tuple[Any, ...]]
    """Its derivative by each of the fields."""
    energy: Callable[[Any, Any], Any]
    """Of s and data."""
    inertia: str = ""
    """The field that is no force but an inertia on s."""
    controls: Callable[[Any], Sequence[int]] | None = None
    """Of a structure: the actuator whose control every element has; None: they have none."""


def two_bodies(element: Any) -> tuple[str, str]:
    return element.body1, element.body2
