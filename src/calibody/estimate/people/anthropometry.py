"""Masses, lengths and inertias of the segments of a human body, and priors made of them [deleva1996].

The table has what was measured by gamma rays on 100 young men and 15 young women, referred to joint centres: for every segment its share of the body's mass, its length in a
body of the mean height, the place of its centre of mass as a share of that length from its upper end, and its radii of gyration about the centre of mass as shares of the length.
A body of another height has the lengths in proportion, one of another mass the masses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from calibody.errors import CalibodyError, either, nearest
from calibody.estimate.unknowns import Unknown
from calibody.recording.recording import is_finite

MALE, FEMALE = "male", "female"
HEIGHT = {FEMALE: 1.735, MALE: 1.741}
"""Of those measured, in the mean [m]."""
# Segment: its ends; then for women and men the share of mass [%], length [mm], centre of mass [% of the length], radii about the sagittal, transverse and longitudinal axes [%].
TABLE = {
    "head": ("vertex", "mid-gonion", (6.68, 200.2, 58.94, 33.0, 35.9, 31.8), (6.94, 203.3, 59.76, 36.2, 37.6, 31.2)),
    "trunk": ("suprasternale", "mid-hip", (42.57, 529.3, 41.51, 35.7, 33.9, 17.1), (43.46, 531.9, 44.86, 37.2, 34.7, 19.1)),
    "upper trunk": ("suprasternale", "xyphion", (15.45, 142.5, 20.77, 74.6, 50.2, 71.8), (15.96, 170.7, 29.99, 71.6, 45.4, 65.9)),
    "middle trunk": ("xyphion", "omphalion", (14.65, 205.3, 45.12, 43.3, 35.4, 41.5), (16.33, 215.5, 45.02, 48.2, 38.3, 46.8)),
    "lower trunk": ("omphalion", "mid-hip", (12.47, 181.5, 49.20, 43.3, 40.2, 44.4), (11.17, 145.7, 61.15, 61.5, 55.1, 58.7)),
    "upper arm": ("shoulder", "elbow", (2.55, 275.1, 57.54, 27.8, 26.0, 14.8), (2.71, 281.7, 57.72, 28.5, 26.9, 15.8)),
    "forearm": ("elbow", "wrist", (1.38, 264.3, 45.59, 26.1, 25.7, 9.4), (1.62, 268.9, 45.74, 27.6, 26.5, 12.1)),
    "hand": ("wrist", "third knuckle", (0.56, 78.0, 74.74, 53.1, 45.4, 33.5), (0.61, 86.2, 79.00, 62.8, 51.3, 40.1)),
    "thigh": ("hip", "knee", (14.78, 368.5, 36.12, 36.9, 36.4, 16.2), (14.16, 422.2, 40.95, 32.9, 32.9, 14.9)),
    "shank": ("knee", "ankle", (4.81, 438.6, 43.52, 26.7, 26.3, 9.2), (4.33, 440.3, 43.95, 25.1, 24.6, 10.2)),
    "foot": ("heel", "tip of the toes", (1.29, 228.3, 40.14, 29.9, 27.9, 13.9), (1.37, 258.1, 44.15, 25.7, 24.5, 12.4)),
}
PARTS_OF_TRUNK = ("upper trunk", "middle trunk", "lower trunk")
HEIGHTS, MASSES = (0.8, 2.5), (15.0, 300.0)
"""What a height [m] and a mass [kg] of a person may be; beyond is a mistake in the unit."""
BETWEEN_PEOPLE = 0.1
"""How far the mass of a segment is from the table's, as a share: of the order of what remains between people of the same height and mass."""


@dataclass(frozen=True)
class Segment:
    """One segment of a person."""

    name: str
    upper_end: str
    lower_end: str
    mass: float
    """kg"""
    length: float
    """Between its ends [m]."""
    com: float
    """Distance of the centre of mass from the upper end [m]; the foot's is from the heel."""
    inertia: tuple[float, float, float]
    """About the centre of mass and the sagittal (front to back), transverse (left to right) and longitudinal axis [kg m^2]."""


@dataclass(frozen=True)
class Anthropometry(Mapping[str, Segment]):
    """The segments of a person by name; those of one side stand for both."""

    height: float
    mass: float
    sex: str
    segments: Mapping[str, Segment]

    def __getitem__(self, name: str) -> Segment:
        if name not in self.segments:
            raise CalibodyError(f'There is no segment "{name}"{nearest(name, self.segments) or "; there are " + ", ".join(self.segments) + "."}')
        return self.segments[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    def priors(self, bodies: Mapping[str, str], sd: float = BETWEEN_PEOPLE) -> dict[str, Unknown]:
        """Unknown masses of bodies with the table's as prior: `priors({"femur_r": "thigh"})`; `sd` as a share of the mass."""
        if not (is_finite(sd) and sd > 0):
            raise CalibodyError(f"sd of the priors is {sd!r}; give a share of the mass above zero, such as 0.1.")
        masses = {body: self[segment].mass for body, segment in bodies.items()}
        return {f"body.{body}.mass": Unknown(mass, lower=0.0, prior=(mass, sd * mass)) for body, mass in masses.items()}


def anthropometry(height: float, mass: float, sex: str) -> Anthropometry:
    """The segments of a person of a height [m] and a mass [kg], "male" or "female"."""
    for what, value, (least, most), unit in (("height", height, HEIGHTS, "m"), ("mass", mass, MASSES, "kg")):
        if not (is_finite(value) and least <= value <= most):
            raise CalibodyError(f"The {what} is {value!r}; give that of a person in {unit}, between {least:g} and {most:g}.")
    if sex not in HEIGHT:
        raise CalibodyError(f"The sex is {sex!r}; give {either(tuple(HEIGHT))}, the two of which the table has.")
    stretch = height / HEIGHT[sex]
    return Anthropometry(height, mass, sex, {name: _segment(name, row, mass, stretch, sex) for name, row in TABLE.items()})


def _segment(name: str, row: tuple, mass: float, stretch: float, sex: str) -> Segment:
    upper, lower, *columns = row
    share, length, com, *radii = columns[(FEMALE, MALE).index(sex)]
    m, l = 0.01 * share * mass, 1e-3 * length * stretch
    sagittal, transverse, longitudinal = (m * (0.01 * r * l) ** 2 for r in radii)
    return Segment(name, upper, lower, m, l, 0.01 * com * l, (sagittal, transverse, longitudinal))
