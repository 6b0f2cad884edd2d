"""The same calculation for many settings, on all cores or wherever an executor takes it.

Processes are made by a server that has no threads (`forkserver`; a fork of this process would copy the threads of compiled code, and hang), which has read
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from calibody.errors import CalibodyError, shown

R = TypeVar("R")

PRELOADED = ["calibody.estimate.meshes", "calibody.estimate.crossvalidate", "calibody.formats"]
"""What most calculations need; read once by the server that makes the processes."""
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
        return _in_processes(_pickled(tasks), workers)
    except _Unreadable as error:
        reason = str(error).splitlines()[0].rstrip(".")
    except BrokenProcessPool:
        reason = "a process died before it was done, perhaps for want of memory"
    warnings.warn(f"This runs on one core, because {reason}; define the function in a file, or give an executor.", RuntimeWarning, stacklevel=2)
    return [_call(task) for task in tasks]


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


def _in_processes(sent: Sequence[bytes], workers: int) -> list[Any]:
    script = _Script.calling() if any(SCRIPT.encode() in task for task in sent) else None
    context = multiprocessing.get_context("forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn")
    context.set_forkserver_preload(PRELOADED)
    with _script_hidden(), ProcessPoolExecutor(workers, context, _begin, (script,)) as pool:
        try:
            return [pickle.loads(done) for done in pool.map(_answer, sent)]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


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
    if script is not None:
        _reading_script = True
        try:
            script.read()
        finally:
            _reading_script = False


@contextmanager
def _script_hidden() -> Iterator[None]:
    """multiprocessing would let every process run the whole script again before anything else; `_Script.read` does better."""
    main = sys.modules[SCRIPT]
    hidden = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(hidden)
