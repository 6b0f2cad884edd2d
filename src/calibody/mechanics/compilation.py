"""jax as calibody uses it: float64, and a cache on disk for everything that is compiled, however small. Import jax from here.

**Kernels** (`jax.jit`) are kept by jax itself: a new process traces them again and finds the machine code.

**Programs** (`program`) are kept whole: a new process reads the machine code without tracing anything, and a process that needs one again, for a mechanism of
the same topology with other numbers, has it in memory. What a program is kept by says all that it was made from: the caller's key (a topology), the shapes of
the arguments, the sources of this package, the versions of jax and Python, and the processor. A file that is damaged, or was made for something else, is a
file that is not there; a folder that cannot be written costs the compilation of every start.

**Quickly.** With CALIBODY_COMPILE=quick programs are compiled without optimisation: in half the time or less, and their steps then take two to five times as long. That is right where many mechanisms
are simulated briefly, each for the first time, as in a suite of tests: the first 20 000 steps or so of a new mechanism end sooner. Motions differ by rounding.

**Loops in one piece.** XLA runs a loop operation by operation unless it counts as small; then it becomes one function of machine code. The loops of a
stepper run over operations on a few dozen numbers each, so for them that is several times faster. What counts as small is said by an option that is read when
jax compiles for the first time (`LOOP_BYTES`); a program that has already used jax, or sets the option itself, only gets slower steps. Products of small
matrices must not go to a library (`ONE_PIECE`): a loop that calls one cannot be in one piece.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import sys
import tempfile
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

# Memory that a loop may touch and still be compiled in one piece [bytes]: no stepper has one that is larger.
LOOP_BYTES = 1_000_000_000
_LOOPS = "xla_cpu_small_while_loop_byte_threshold"
if "xla_backend_extra_options" not in os.environ.get("XLA_FLAGS", ""):  # before jax reads it
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_extra_options={_LOOPS}={LOOP_BYTES}".strip()

import jax  # noqa: E402

from calibody.solve.threads import one_thread  # noqa: E402

ONE_PIECE: dict[str, str | bool] = {"xla_cpu_experimental_ynn_fusion_type": ""}
QUICK: dict[str, str | bool] = {"xla_backend_optimization_level": "0"}
# Programs kept on disk; the oldest goes first. One is about a megabyte.
MOST_FILES = 200


def cache_folder() -> Path:
    """Where compiled kernels are kept: CALIBODY_CACHE, or `calibody` in the user's cache folder."""
    if folder := os.environ.get("CALIBODY_CACHE"):
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "calibody"


def quick() -> bool:
    """Whether programs are to be compiled quickly rather than to run fast."""
    return os.environ.get("CALIBODY_COMPILE") == "quick"


def configure() -> None:
    """Called when this module is imported."""
    jax.config.update("jax_enable_x64", True)
    try:
        folder = cache_folder() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    except OSError:
        pass  # a home that cannot be written only costs the compile time of every start


configure()


# -- programs ------------------------------------------------------------------------------------------------------------------------

_programs: dict[tuple, Callable[..., Any]] = {}


def program(function: Callable[..., Any], key: Hashable, arguments: tuple) -> Callable[..., Any]:
    """`function` compiled for arguments like these (shapes and types count, values do not), from memory or from disk where it was compiled before.

    `key` says what the function is made from: two functions with equal keys must do the same.
    """
    name = _name(key, arguments)
    if name not in _programs:
        found = _read(_file(name))
        _programs[name] = _new(function, name, arguments) if found is None else _Read(found, function, name)
    return _programs[name]


def _new(function: Callable[..., Any], name: tuple, arguments: tuple) -> Callable[..., Any]:
    found = _compiled(function, arguments)
    _write(_file(name), found)
    return _ready(found)


def _ready(compiled: Any) -> Callable[..., Any]:
    return one_thread(_awaited(compiled)) if _calls_lapack(compiled) else compiled


class _Read:
    """A program from disk. That machine code is whole shows when it runs: where it does not the first time ("Function ... not found"), it is compiled anew."""

    def __init__(self, compiled: Any, function: Callable[..., Any], name: tuple) -> None:
        self.compiled, self.function, self.name = _ready(compiled), function, name

    def __call__(self, *arguments: Any) -> Any:
        try:
            out = jax.block_until_ready(self.compiled(*arguments))
            _programs[self.name] = self.compiled
        except Exception:  # what is wrong with the arguments themselves is said once more
            self.compiled = _programs[self.name] = _new(self.function, self.name, arguments)
            out = self.compiled(*arguments)
        return out


def compiled_before(key: Hashable, arguments: tuple) -> bool:
    """Whether `program` would find it, in memory or on disk."""
    name = _name(key, arguments)
    return name in _programs or _file(name).exists()


def _name(key: Hashable, arguments: tuple) -> tuple:
    leaves, tree = jax.tree.flatten(arguments)
    return key, tuple((str(jax.numpy.result_type(x)), getattr(x, "shape", ())) for x in leaves), str(tree)


def _awaited(compiled: Any) -> Callable[..., Any]:
    """jax returns before a program has run; what must hold while it runs must hold until it has."""
    return lambda *arguments: jax.block_until_ready(compiled(*arguments))


def forget() -> None:
    """Forget the programs in memory (those on disk stay)."""
    _programs.clear()


def _calls_lapack(compiled: Any) -> bool:
    return "lapack" in compiled.as_text()


def _compiled(function: Callable[..., Any], arguments: tuple) -> Any:
    """Truly compiled, past jax's own cache: what comes from there cannot be written to a file once more."""

    def program(*arguments: Any) -> Any:
        return function(*arguments)

    lowered = jax.jit(program).lower(*arguments)
    with _not_kept_by_jax():
        try:
            return lowered.compile(compiler_options=ONE_PIECE | QUICK if quick() else ONE_PIECE)
        except jax.errors.JaxRuntimeError:  # another version of XLA without that option
            return lowered.compile()


@contextmanager
def _not_kept_by_jax() -> Iterator[None]:
    setting = "jax_persistent_cache_min_compile_time_secs"
    before = jax.config.values[setting]
    jax.config.update(setting, float("inf"))
    try:
        yield
    finally:
        jax.config.update(setting, before)


@lru_cache(maxsize=1)
def _made_of() -> str:
    """What every program depends on besides its key: sources, versions, options and the processor."""
    digest = hashlib.sha256()
    package = Path(__file__).parent.parent
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + path.read_bytes())
    flags = ""
    try:
        flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        pass
    digest.update(
        repr((jax.__version__, sys.version, os.environ.get("XLA_FLAGS"), quick(), platform.machine(), platform.processor(), platform.system(), flags)).encode()
    )
    return digest.hexdigest()


def _file(name: tuple) -> Path:
    return cache_folder() / "programs" / hashlib.sha256(repr((name, _made_of())).encode()).hexdigest()


@lru_cache(maxsize=1)
def _load_lapack() -> None:
    """jax finds LAPACK when something that calls it is lowered; a program that is read was lowered elsewhere."""
    jax.jit(jax.numpy.linalg.inv).lower(jax.numpy.eye(2))


def _read(file: Path) -> Any:
    """The program in a file, if there is one and it is whole: the file begins with the digest of the rest."""
    from jax.experimental import serialize_executable

    try:
        content = file.read_bytes()
        if content[:32] != hashlib.sha256(content[32:]).digest():
            return None
        found = serialize_executable.deserialize_and_load(*pickle.loads(content[32:]))
        if _calls_lapack(found):
            _load_lapack()
        return found
    except Exception:  # whatever is wrong with a file of a cache, it can be made again
        return None


def _write(file: Path, compiled: Any) -> None:
    from jax.experimental import serialize_executable

    try:
        content = pickle.dumps(serialize_executable.serialize(compiled))
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(hashlib.sha256(content).digest() + content)
        os.replace(temporary, file)  # whole or not at all
        for old in sorted(file.parent.iterdir(), key=lambda f: f.stat().st_mtime, reverse=True)[MOST_FILES:]:
            old.unlink(missing_ok=True)
    except Exception:  # a program that cannot be kept is compiled again next time
        pass
