"""The same calculation for many settings, on all cores or wherever an executor takes it.

This process takes tasks from the first, and as many others as there are further cores take them as soon as they have begun: that takes a second or two, by when a small calculation is done
here. Processes are made by a server that has no threads (`forkserver`; a fork of this process would copy the threads of compiled code, and hang), which has read
calibody already. What is asked of them is sent as bytes that are pickled here, once: what cannot be is known before a process is made, and whether the script itself is
needed there shows in them. If so, its statements before the one that called `sweep` are done there, without earlier calls of `sweep` and what fails for want of their results; so a
script needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import ast
import multiprocessing
import os
import pickle
import sys
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cache
from multiprocessing import spawn
from threading import Condition, Thread
from typing import Any, TypeVar

from calibody.errors import CalibodyError, shown
from calibody.solve import threads

R = TypeVar("R")

CONTEXT = copy(multiprocessing.get_context("forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"))
PRELOADED = ["calibody.estimate.meshes", "calibody.estimate.crossvalidate", "calibody.formats"]
"""What most calculations need; read once by the server that makes the processes."""
READ_TOO = ("calibody.estimate.draws.posterior", "scipy.stats", "calibody.steppers.rollout")
"""The same of what takes long to read and not all need: what this process has read already."""
SCRIPT = "__main__"


class _Unreadable(pickle.PicklingError):
    """What was sent, or what was found, cannot pass between processes."""


class _Skipped(BaseException):
    """A call of `sweep` by a process that reads the script for its functions."""


_reading_script = False
"""Whether this is a process that does so."""


def sweep(function: Callable[..., R], settings: Iterable[Mapping[str, Any]], executor: Executor | None = None) -> list[R]:
    """`[function(**s) for s in settings]`, in parallel: on a process per core, or on the `executor` given (of `concurrent.futures`, Dask or MPI).

    The function and its settings should be such that they can be pickled (defined in a file, no lambda), and so should what it gives back; else the calculation is
    done here, one after the other, with a warning.
    """
    if _reading_script:
        raise _Skipped
    if executor is not None and not hasattr(executor, "map"):
        raise CalibodyError(f"executor = {shown(executor)}; give one of concurrent.futures, Dask or MPI, such as ProcessPoolExecutor(4), or leave it out.")
    tasks = _tasks(function, settings)
    if executor is not None:
        return list(executor.map(_call, tasks))
    workers = min(_cores(), len(tasks))
    if workers < 2:
        return [_call(task) for task in tasks]
    try:
        sent = _pickled(tasks)
        shared = _Shared(tasks, sent, _Script.calling() if any(SCRIPT.encode() in task for task in sent) else None)
        found, reason = shared.done(workers), shared.reason
    except _Unreadable as error:
        found, reason = [_call(task) for task in tasks], _first(error)
    if reason is not None:
        warnings.warn(f"This runs on one core, because {reason}; define the function in a file, or give an executor.", RuntimeWarning, stacklevel=2)
    return found


def _first(error: _Unreadable) -> str:
    return str(error).splitlines()[0].rstrip(".")


def _tasks(function: Any, settings: Any) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
    """One per call, if they are what `sweep` asks for."""
    if not callable(function):
        raise CalibodyError(f"The function of a sweep is {shown(function)}; give a function, then its settings: cb.sweep(function, [{{...}}, {{...}}]).")
    given = list(settings) if isinstance(settings, Iterable) else [settings]
    wrong = next((s for s in given if not isinstance(s, Mapping)), None)
    if wrong is not None:
        raise CalibodyError(f"The settings of a sweep have {shown(wrong)}; give a list with one mapping of arguments per call, [{{...}}, {{...}}].")
    return [(function, dict(s)) for s in given]


def _call(task: tuple[Callable[..., Any], dict[str, Any]]) -> Any:
    function, settings = task
    return function(**settings)


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pickled(tasks: Sequence[Any]) -> list[bytes]:
    try:
        return [pickle.dumps(task) for task in tasks]
    except (pickle.PicklingError, AttributeError, TypeError) as error:  # pickle raises all three
        raise _Unreadable(str(error)) from None


class _Shared:
    """Tasks that this process and others take one after the other."""

    def __init__(self, tasks: Sequence[Any], sent: Sequence[bytes], script: _Script | None) -> None:
        self.tasks, self.sent, self.script = tasks, sent, script
        self.open = deque(range(len(tasks)))
        self.found: dict[int, Any] = {}
        self.errors: dict[int, BaseException] = {}
        self.reason: str | None = None
        """Why another process could not do what it was asked for; it is done here."""
        self.changed = Condition()

    def done(self, workers: int) -> list[Any]:
        _leave_the_script_out()
        CONTEXT.set_forkserver_preload(PRELOADED + [name for name in READ_TOO if name in sys.modules])
        with threads.alone():
            for _ in range(workers - 1):
                Thread(target=self._elsewhere, name="sweep").start()
            try:
                self._here()
            finally:
                self._end()
        if self.errors:
            raise self.errors[min(self.errors)]
        return [self.found[k] for k in range(len(self.tasks))]

    def _here(self) -> None:
        while True:
            if (k := self._taken()) is not None:
                self._try(k, lambda k=k: _call(self.tasks[k]))
                continue
            with self.changed:
                if self.errors or len(self.found) == len(self.tasks):
                    return
                if not self.open:
                    self.changed.wait()

    def _elsewhere(self) -> None:
        """A thread that lets a process work."""
        k = None
        try:
            with ProcessPoolExecutor(1, CONTEXT, _begin, (self.script,)) as process:
                process.submit(_nothing).result()
                while (k := self._taken()) is not None:
                    self._try(k, lambda k=k: pickle.loads(process.submit(_answer, self.sent[k]).result()))
        except _Unreadable as error:
            self._give_back(k, _first(error))
        except BrokenProcessPool:
            self._give_back(k, "a process died before it was done, perhaps for want of memory")

    def _taken(self) -> int | None:
        with self.changed:
            return self.open.popleft() if self.open and not self.errors else None

    def _try(self, k: int, task: Callable[[], Any]) -> None:
        try:
            found, error = task(), None
        except (_Unreadable, BrokenProcessPool):
            raise
        except BaseException as raised:
            found, error = None, raised
        with self.changed:
            self.found[k] = found
            if error is not None:
                self.errors[k] = error
            self.changed.notify_all()

    def _give_back(self, k: int | None, reason: str) -> None:
        with self.changed:
            self.reason = reason
            if k is not None:
                self.open.append(k)
            self.changed.notify_all()

    def _end(self) -> None:
        with self.changed:
            self.open.clear()


def _nothing() -> None:
    """What a process does first."""


def _answer(sent: bytes) -> bytes:
    try:
        task = pickle.loads(sent)
    except (AttributeError, ImportError) as error:
        raise _Unreadable(f"another process cannot find what it needs ({error})") from None
    return _pickled([_call(task)])[0]


# -- the script ----------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Script:
    file: str
    line: int
    """Of the statement that called `sweep`; those before it are done."""

    @staticmethod
    def calling() -> _Script:
        main = sys.modules[SCRIPT]
        file = getattr(main, "__file__", None)
        if file is None or not os.path.isfile(file):
            raise _Unreadable("what was typed into this session is in no file that other processes could read")
        line, frame = sys.maxsize, sys._getframe()
        while frame is not None:
            if frame.f_globals is main.__dict__ and frame.f_code.co_name == "<module>":
                line = frame.f_lineno
            frame = frame.f_back
        return _Script(os.path.abspath(file), line)

    def read(self) -> None:
        """Its functions, which are pickled by the name of the main module, into this process."""
        module = types.ModuleType("__mp_main__")
        module.__file__ = self.file
        sys.modules[SCRIPT] = sys.modules["__mp_main__"] = module
        with open(self.file, "rb") as file:
            statements = ast.parse(file.read(), self.file).body
        for statement in statements:
            if (statement.end_lineno or 0) >= self.line:
                break
            with suppress(Exception, _Skipped):
                exec(compile(ast.Module([statement], []), self.file, "exec"), module.__dict__)


def _begin(script: _Script | None) -> None:
    """In a new process."""
    global _reading_script
    threads.limit(1)
    if script is not None:
        _reading_script = True
        try:
            script.read()
        finally:
            _reading_script = False


class Worker(CONTEXT.Process):  # pyright: ignore[reportAttributeAccessIssue, reportGeneralTypeIssues]
    """A process that is not to run the script."""


CONTEXT.Process = Worker  # pyright: ignore[reportAttributeAccessIssue]


@cache
def _leave_the_script_out() -> None:
    """multiprocessing would let every process run the whole script again before anything else; `_Script.read` does better."""
    everything = spawn.get_preparation_data

    def prepared(name: str) -> dict[str, Any]:
        found = everything(name)
        return {k: v for k, v in found.items() if not k.startswith("init_main")} if name.startswith(Worker.__name__) else found

    spawn.get_preparation_data = prepared
