"""One file per element type: pure functions on scalars, values and derivatives with respect to the twists of the links it touches.

A file describes its type by one value (`base.py` has the protocol) and is listed here once; transcription, compiled steps, forward and inverse
dynamics, reactions and energies loop over these tables. Rows of constraints stand in the order of the table, all elements of a type together.
"""

from calibody.mechanics.elements import bushing, coupling, curve, distance, drive, inline, law, muscle, perpendicular, point, spring
from calibody.mechanics.elements.base import Constraint, CoordinateConstraint, CoordinateForce, Force

CONSTRAINTS: tuple[Constraint | CoordinateConstraint, ...] = (point.TYPE, perpendicular.TYPE, inline.TYPE, coupling.TYPE, distance.TYPE, curve.TYPE)
FORCES: tuple[Force, ...] = (spring.TYPE, bushing.TYPE)
COORDINATE_FORCES: tuple[CoordinateForce, ...] = (law.TYPE, drive.TYPE, muscle.TYPE)
