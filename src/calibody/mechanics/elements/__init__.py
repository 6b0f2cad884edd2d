"""One file per element type: pure functions on scalars, values and derivatives with respect to the twists of the links it touches.

A file describes its type by one value (`base.py` has the protocol) and is listed here once; transcription, compiled steps, forward and inverse
dynamics, reactions and energies loop over these tables. Rows of constraints stand in the order of the table, all elements of a type together.
"""

from calibody.mechanics.elements import (
    bushing,
    coupling,
    curve,
    distance,
    drive,
    inline,
    inplane,
    law,
    muscle,
    perpendicular,
    point,
    prescribed,
    push,
    rolling,
    spring,
    stop,
)
from calibody.mechanics.elements.base import Constraint, CoordinateConstraint, CoordinateForce, Force, Push, VelocityConstraint

CONSTRAINTS: tuple[Constraint | CoordinateConstraint | VelocityConstraint, ...] = (
    point.TYPE,
    inplane.TYPE,
    perpendicular.TYPE,
    inline.TYPE,
    coupling.TYPE,
    distance.TYPE,
    curve.TYPE,
    prescribed.OF_JOINT,
    prescribed.OF_SITE,
    rolling.HEIGHT,
    rolling.ROLLS,
    rolling.KNIFE_EDGE,
)
FORCES: tuple[Force, ...] = (spring.TYPE, bushing.TYPE)
PUSHES: tuple[Push, ...] = tuple(push.TYPES.values())
COORDINATE_FORCES: tuple[CoordinateForce, ...] = (law.TYPE, drive.TYPE, muscle.TYPE, stop.TYPE)
