"""Which column belongs to which joint, where only the order of the columns says so: the order in which the motion needs the measured torques.

A rotary pendulum logs `theta` and `alpha`, and no name tells the arm from the pendulum. Every order of such columns is a motion; `physics` says how much of the torques each of them leaves
unexplained, with masses and frictions free but positive, and the order of the columns stands unless another leaves clearly less. Without torques, and with more than `MOST` joints, it stands unasked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations

from calibody.experiment.guess.columns import LIKELY, UNSURE, Columns, Match
from calibody.experiment.guess.names import POSITION, RATE

MOST = 3
"""Joints whose orders are tried: six regressions."""
CLEARLY = 0.7
"""What another order leaves of the torques, over what that of the columns does, for it to be taken."""


def ordered(columns: Columns, left: Callable[[Columns], float | None]) -> tuple[Columns, bool]:
    """The columns in the order that explains the torques best, and whether that is another; `left` is what an order leaves unexplained, None if that cannot be said."""
    others = list(_others(columns))
    if not others or (as_given := left(columns)) is None:
        return columns, False
    tried = [(x, other) for other in others if (x := left(other)) is not None]
    least, best = min(tried, key=lambda t: t[0], default=(as_given, columns))
    return (best, True) if least < CLEARLY * as_given else (columns, False)


def _others(columns: Columns) -> Iterator[Columns]:
    """All other orders of the positions that only their order gave a joint; rates go with them."""
    unsure = [m for m in columns.matches if m.quantity == POSITION and m.sure == UNSURE]
    kinds = {m.channel.rpartition(".")[2] for m in unsure}
    if len(kinds) != 1 or not 1 < len(unsure) <= MOST:
        return
    joints = [m.element for m in unsure]
    for order in list(permutations(joints))[1:]:
        yield dataclasses.replace(columns, matches=tuple(_moved(m, dict(zip(joints, order, strict=True))) for m in columns.matches))


def _moved(m: Match, to: Mapping[str, str]) -> Match:
    if m.quantity not in (POSITION, RATE) or m.sure != UNSURE or m.element not in to:
        return m
    joint, quantity = to[m.element], m.channel.rpartition(".")[2]
    return dataclasses.replace(m, element=joint, channel=f"joint.{joint}.{quantity}", why="in this order the motion explains the torques best", sure=LIKELY)
