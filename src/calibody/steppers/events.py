"""What happened at contacts along a motion: impacts with their times, and forces and impulses by step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

STICK, SLIP = "stick", "slip"


@dataclass(frozen=True)
class Event:
    """One contact (or limit) at one impact."""

    time: float
    """[s]"""
    contact: str
    """`contact.NAME` or `limit.NAME`."""
    mode: str
    """"stick" or "slip": whether the places slip after it."""
    impulse: tuple[float, float, float]
    """Of b on a in world axes [N s]; of a limit on the coordinate, as the first number [N s, N m s]."""
    normal_impulse: float
    approach_speed: float
    """Of the fastest of its places before [m/s; limits: rad/s or m/s]."""
    separation_speed: float
    """Of the same place after."""
    energy_lost: float
    """By the whole impact, all contacts that take part in it [J]."""
    restitution: float
    """What acted: that of the model, or less where that would have made energy."""
    note: str = ""


@dataclass
class ContactLog:
    """By owner (contacts, then limits) and step."""

    force: np.ndarray
    """(owners, 3, nodes) of lasting contact, mean over the step after a node [N]; limits: on the coordinate, first number."""
    normal: np.ndarray
    """(owners, nodes)"""
    impulse: np.ndarray
    """(owners, 3, nodes) of impacts in the step after a node [N s]."""
    wrench: np.ndarray
    """(6, links, nodes) of all of it on links, torque about the world's origin first, mean over the step before and the step after a node."""
    kinetic: dict[int, float] = field(default_factory=dict)
    """Kinetic energy at nodes where velocities jump nearby, so that differences of coordinates do not tell it [J]."""
    events: list[Event] = field(default_factory=list)

    @classmethod
    def empty(cls, owners: int, links: int, nodes: int) -> ContactLog:
        return cls(np.zeros((owners, 3, nodes)), np.zeros((owners, nodes)), np.zeros((owners, 3, nodes)), np.zeros((6, links, nodes)))
