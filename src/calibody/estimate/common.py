"""What many tasks of a calculation have in common, so that it crosses to every process once.

A task is pickled by itself, and what it holds is made anew in the process that does it: a problem would lose all that it has computed about itself (patterns of sparse matrices, views of single runs) from one task to the next. A `Common` is pickled
once, and a process that has it already takes that.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Generic, TypeVar

V = TypeVar("V")

KEPT = 4
"""Values that a process keeps, those that were used last."""
_known: OrderedDict[bytes, Common[Any]] = OrderedDict()


@dataclass(frozen=True, eq=False)
class Common(Generic[V]):
    """A value that is pickled once, and unpickled once in a process."""

    value: V

    @cached_property
    def _sent(self) -> tuple[bytes, bytes]:
        """Its name, and its bytes."""
        found = pickle.dumps(self.value)
        return blake2b(found, digest_size=16).digest(), found

    def __reduce__(self) -> tuple[Any, tuple[bytes, bytes]]:
        return _found, self._sent


def _found(name: bytes, sent: bytes) -> Common[Any]:
    """As it is known in this process."""
    if name not in _known:
        _known[name] = Common(pickle.loads(sent))
    _known.move_to_end(name)
    while len(_known) > KEPT:
        _known.popitem(last=False)
    return _known[name]
