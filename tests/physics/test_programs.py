"""What is compiled for a simulation: once for a topology, whatever the numbers, kept in memory and on disk."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calibody as cb
from calibody.mechanics import compilation
from calibody.mechanics.structure import Structure
from calibody.solve import dense
from calibody.steppers import spook_step, step


def crank(length: float = 0.4, friction: float = 0.0, names: tuple[str, str] = ("rod", "slider"), kind: str = "slide") -> cb.Model:
    bodies = [cb.Body(names[0], mass=1.0 + friction, com=(length, 0, 0), inertia=(0.1, 0.1, 0.1)), cb.Body(names[1], names[0], mass=0.3, inertia=(0.01,) * 3)]
    joints = [cb.Joint("turn", names[0], axis=(0, 1, 0), friction=friction), cb.Joint("push", names[1], kind, axis=(1, 0, 0), damping=0.2)]
    return cb.Model("crank", bodies, joints, sites=[cb.Site("tip", names[1])] if friction else [])


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Programs that were traced, from an empty cache on."""
    monkeypatch.setenv("CALIBODY_CACHE", str(tmp_path))
    compilation.forget()
    seen: list[str] = []
    advance = step.Program.advance

    def counted(self: step.Program, *arguments: object) -> tuple:
        seen.append(self.structure.coordinates)
        return advance(self, *arguments)

    monkeypatch.setattr(step.Program, "advance", counted)
    return seen


def test_equal_topology_is_compiled_once(traced: list[str]) -> None:
    first = cb.simulate(crank(), 0.1)
    assert traced == ["tree"]
    other = cb.simulate(crank(0.6, 0.3, ("turn", "push")), 0.3, 2e-3, {"joint.turn.rate": 1.0}, stepper=cb.Variational(friction_rate=1e-2))
    assert traced == ["tree"]  # other numbers, names, sites, steps and settings: nothing is traced
    assert abs(first["joint.turn.angle"][-1] - other["joint.turn.angle"][50]) > 1e-3
    compilation.forget()
    again = cb.simulate(crank(), 0.1)
    assert traced == ["tree"]  # from disk
    np.testing.assert_array_equal(again.q, first.q)
    cb.simulate(crank(kind="hinge"), 0.1)
    assert traced == ["tree", "tree"]


def test_a_cache_that_cannot_be_used_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Damaged files are made anew; a folder that cannot be made is done without."""
    monkeypatch.setenv("CALIBODY_CACHE", str(tmp_path))
    traced = []

    def doubled() -> np.ndarray:
        def function(x: np.ndarray) -> np.ndarray:
            traced.append(x)
            return 2.0 * x

        compilation.forget()
        return np.asarray(compilation.program(function, "doubled", (np.ones(3),))(np.arange(3.0)))

    np.testing.assert_array_equal(doubled(), [0.0, 2.0, 4.0])
    np.testing.assert_array_equal(doubled(), [0.0, 2.0, 4.0])
    assert len(traced) == 1
    (file,) = (tmp_path / "programs").iterdir()
    whole = file.read_bytes()
    for damaged in (b"", b"not a program", whole[:-7], whole[:40] + b"x" + whole[41:]):
        file.write_bytes(damaged)
        np.testing.assert_array_equal(doubled(), [0.0, 2.0, 4.0])
        assert len(file.read_bytes()) > 1000
    assert len(traced) == 5
    compilation.forget()
    compilation.program(lambda x, y: x @ y, "other", (np.ones((2, 2)), np.ones((2, 2))))
    (other,) = (f for f in (tmp_path / "programs").iterdir() if f != file)
    file.write_bytes(other.read_bytes())  # whole, and cannot run here: it is made anew when that shows
    np.testing.assert_array_equal(doubled(), [0.0, 2.0, 4.0])
    assert len(traced) == 6
    np.testing.assert_array_equal(doubled(), [0.0, 2.0, 4.0])
    assert len(traced) == 6
    monkeypatch.setenv("CALIBODY_CACHE", str(file / "in"))
    np.testing.assert_array_equal(doubled(), [0.0, 2.0, 4.0])


def test_topology_is_what_is_not_a_number() -> None:
    def topology(model: cb.Model, coordinates: str = "tree") -> tuple:
        return Structure.build(model, coordinates).topology

    assert topology(crank()) == topology(crank(0.9, 0.1, ("slide", "hinge")))
    changed = [crank(kind="hinge"), crank(kind="ball"), cb.Model("one", crank().bodies[:1], crank().joints[:1])]
    spring = [cb.Spring("s", "rod", "slider"), cb.Spring("s", "slider", "rod"), cb.Spring("s", "rod")]
    changed += [cb.Model("sprung", crank().bodies, crank().joints, springs=[s]) for s in spring]
    changed += [cb.Model("driven", crank().bodies, crank().joints, actuators=[cb.Actuator("m", j)]) for j in ("turn", "push")]
    changed += [cb.Model("swapped", crank().bodies, crank().joints[::-1])]
    topologies = [topology(m) for m in (crank(), *changed)] + [topology(crank(), "free")]
    assert len(set(topologies)) == len(topologies)


def chain(count: int) -> cb.Model:
    bodies = [cb.Body(f"b{i}", f"b{i - 1}" if i else "world", mass=1.0, com=(0, 0, -0.1), inertia=(0.01,) * 3, position=(0, 0, -0.2)) for i in range(count)]
    return cb.Model("chain", bodies, [cb.Joint(f"j{i}", f"b{i}", axis=(1, i, 0), friction=0.01) for i in range(count)])


@pytest.mark.parametrize("arguments", ["coordinates='tree'", "coordinates='free'", "stepper='spook'"])
def test_a_new_process_traces_nothing(arguments: str, tmp_path: Path) -> None:
    """Also where the program calls LAPACK (48 rows in `free`)."""
    work = (
        "import sys; sys.path.insert(0, {folder!r})\nfrom test_programs import *\nfrom calibody.mechanics import compilation\ncount = []\n"
        "made = compilation._compiled\ncompilation._compiled = lambda *a: (count.append(1), made(*a))[1]\n"
        "print(cb.simulate(chain({count}), 0.02, {arguments})['joint.j0.angle'][-1].hex(), len(count))"
    )
    command = [sys.executable, "-c", work.format(folder=str(Path(__file__).parent), arguments=arguments, count=2 if "spook" in arguments else 4)]
    runs = [subprocess.run(command, env={**os.environ, "CALIBODY_CACHE": str(tmp_path)}, capture_output=True, text=True, check=True) for _ in range(2)]
    (first, once), (second, none) = (r.stdout.split() for r in runs)
    assert first == second and (once, none) == ("1", "0")


def test_spook_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For a topology and the set of joints that have friction and dampers."""
    monkeypatch.setenv("CALIBODY_CACHE", str(tmp_path))
    compilation.forget()
    seen = []
    advance = spook_step.Step.advance
    monkeypatch.setattr(spook_step.Step, "advance", lambda self, *a: (seen.append(1), advance(self, *a))[1])
    model = chain(1)
    cb.simulate(model, 0.02, stepper="spook")
    cb.simulate(model.replace({"joint.j0.friction": 0.3, "body.b0.mass": 2.0}), 0.03, 2e-3, stepper=cb.Spook(compliance=1e-6))
    assert len(seen) == 1
    cb.simulate(model.replace({"joint.j0.friction": 0.0}), 0.02, stepper="spook")
    assert len(seen) == 2


@pytest.mark.parametrize("n", [1, 5, 23, dense.SMALL, dense.SMALL + 7])
def test_dense_systems(n: int) -> None:
    """Against LAPACK, with rows that need exchanging."""
    rng = np.random.default_rng(n)
    A, r = rng.normal(size=(n, n)), rng.normal(size=n)
    A[0, 0] = 0.0 if n > 1 else 1.0
    x = compilation.jax.jit(lambda A, r: dense.solved(dense.factored(A), r))(A, r)
    np.testing.assert_allclose(x, np.linalg.solve(A, r), rtol=1e-9)
