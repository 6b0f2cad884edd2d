"""Estimators as values: names and options mean the same as values, mistakes are sentences, files map to the same classes, and a new one is one class."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from experiment.swing import EXPERIMENT, write

import calibody as cb
from calibody import experiment
from calibody.estimate import fit as module
from calibody.estimate.estimator import AbstractEstimator, OptionError, refuse_unless
from calibody.estimate.fit import ESTIMATORS, estimator, option_names
from calibody.experiment.check import check

UNKNOWN = {"body.arm.mass": 0.8, "joint.hinge.damping": 0.05}


@pytest.fixture(scope="module")
def swing(tmp_path_factory: pytest.TempPathFactory) -> tuple[cb.Model, list[cb.Recording]]:
    given = experiment.load(write(tmp_path_factory.mktemp("swing")))
    return given.model(), given.runs()


def test_a_name_with_options_is_the_value(swing: tuple[cb.Model, list[cb.Recording]]) -> None:
    model, runs = swing
    for name, value in (({"h": 0.02}, cb.Transcription(h=0.02)), ({"method": "shadow", "h": 0.02, "kappa": 10.0}, cb.Shadow(h=0.02, kappa=10.0))):
        a, b = cb.fit(model, runs, UNKNOWN, **name), cb.fit(model, runs, UNKNOWN, method=value)
        assert a.converged and np.array_equal(a.theta, b.theta) and np.array_equal(a.covariance, b.covariance)
    assert estimator("transcription", {}) == cb.Transcription() and estimator("shadow", {"stepper": {"compliance": 1e-6}}) == cb.Shadow(
        stepper=cb.Spook(compliance=1e-6)
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"method": 3},
            'method = 3; give "transcription", "shooting", "shadow" or "poses", or cb.Transcription(...) or cb.Shooting(...) or cb.Shadow(...) or cb.Poses(...).',
        ),
        ({"proces_noise": "auto"}, 'method = "transcription" has no proces_noise; did you mean "process_noise"?'),
        (
            {"wobble": 1},
            'method = "transcription" has no wobble; its options are coordinates, process_noise, h, robust, contacts, globalisation, back_projection.',
        ),
        ({"stepper": None}, 'method = "transcription" has no stepper, which belongs to method = "shooting"; leave it out, or ask for that method.'),
        ({"method": cb.Shadow(), "h": 0.1}, "h stands beside a method that has its own options; give it there, cb.Shadow(...)."),
    ],
)
def test_options_that_do_not_belong(swing: tuple[cb.Model, list[cb.Recording]], settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cb.CalibodyError) as caught:
        cb.fit(*swing, UNKNOWN, **settings)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cb.Transcription(coordinates="polar"), 'coordinates = "polar"; give "auto", "tree" or "free".'),
        (lambda: cb.Transcription(h=-1.0), "h = -1.0; give a positive time step in seconds, or leave it out."),
        (lambda: cb.Transcription(h=True), "h = true; give a positive time step in seconds, or leave it out."),
        (lambda: cb.Transcription(robust=1), "robust = 1; give true or false."),
        (lambda: cb.Transcription(process_noise="some"), 'process_noise = "some"; give "none", "auto", a standard deviation'),
        (lambda: cb.Transcription(process_noise={"sd": 0.1, "correlation_time": "auto"}), "process_noise = {'sd': 0.1, 'correlation_time': 'auto'}; give"),
        (lambda: cb.Transcription(process_noise={"joint.a": {"sd": "auto", "time": 1.0}}), "process_noise = {'joint.a': {'sd': 'auto', 'time': 1.0}}; give"),
        (lambda: cb.Transcription(process_noise={"joint.a": -1.0}), "process_noise = {'joint.a': -1.0}; give"),
        (lambda: cb.Shadow(kappa=float("inf")), "kappa = inf; give a weight above zero, such as 100, or leave it out."),
        (lambda: cb.Shadow(h=0), "h = 0; give a positive time step in seconds, or leave it out."),
        (lambda: cb.Shadow(formulation="lift"), 'formulation = "lift"; give "auto", "eliminated" or "lifted".'),
        (lambda: cb.Shadow(stepper="spook"), 'stepper = "spook"; give a cb.Spook(...), or its settings such as { compliance = 1e-5 }.'),
        (lambda: cb.Shadow(stepper={"complience": 1}), 'stepper = {\'complience\': 1}; it has no "complience"; did you mean "compliance"?'),
        (lambda: cb.Shadow(stepper={"compliance": 0}), "stepper.compliance = 0; give a finite number that is not negative (compliances: above zero)."),
    ],
)
def test_options_that_do_not_fit(make: Any, sentence: str) -> None:
    with pytest.raises(OptionError) as caught:
        make()
    assert str(caught.value).startswith(sentence) and "\n" not in str(caught.value)


def test_every_option_says_what_it_is() -> None:
    """A text below each field, and in the tables of docs/experiment.md (see test_documents.py)."""
    for kind in ESTIMATORS.values():
        (cls,) = ast.parse(inspect.getsource(kind)).body
        assert isinstance(cls, ast.ClassDef) and dataclasses.is_dataclass(kind)
        said = {
            a.target.id
            for a, b in zip(cls.body, cls.body[1:], strict=False)
            if isinstance(a, ast.AnnAssign) and isinstance(a.target, ast.Name) and isinstance(b, ast.Expr) and isinstance(b.value, ast.Constant)
        }
        assert said == set(option_names(kind))


@dataclasses.dataclass(frozen=True)
class Echo(AbstractEstimator):
    """Finds what it is told to."""

    name: ClassVar[str] = "echo"
    loudness: float = 1.0

    def __post_init__(self) -> None:
        refuse_unless(self.loudness > 0, "loudness", self.loudness, "a number above zero")

    def estimate(
        self, model: cb.Model, recordings: Sequence[cb.Recording], unknowns: Mapping[str, Any], report: Any = None, start: Mapping[str, float] | None = None
    ) -> Any:
        return self, [r.name for r in recordings], list(unknowns)

    def foresee(self, model: cb.Model, recordings: Sequence[cb.Recording], unknowns: Mapping[str, Any]) -> Any:
        raise cb.CalibodyError("An echo foresees nothing.")

    def refuse(self, model: cb.Model, recordings: Any, unknowns: Any) -> None:
        pass


def test_another_estimator_is_one_class_and_one_registration(
    swing: tuple[cb.Model, list[cb.Recording]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(module.ESTIMATORS, "echo", Echo)
    expected = ["swing"], ["body.arm.mass", "joint.hinge.damping"]
    assert cb.fit(*swing, UNKNOWN, method="echo", loudness=2.0) == (Echo(2.0), *expected)
    path = write(tmp_path, EXPERIMENT.replace("[method]\nh = 0.01", '[method]\nname = "echo"\nloudness = 3.0'))
    given = experiment.load(path)
    assert given.method == Echo(3.0) and experiment.load(experiment.save(given, tmp_path / "again.toml")).method == Echo(3.0)
    assert "foresees nothing" in " ".join(f.sentence for f in check(given, foresight=True).findings)
    path.write_text(path.read_text().replace("3.0", "0"))
    with pytest.raises(cb.CalibodyError, match=r"swing.toml:\d+: \[method\] has loudness = 0; give a number above zero."):
        experiment.load(path)


def test_the_shadow_of_a_rigid_model_converges_by_default(swing: tuple[cb.Model, list[cb.Recording]]) -> None:
    """The engine's joints are as stiff as steel unless told otherwise; then the impulses are unknowns."""
    model, runs = swing
    assert cb.Shadow() == cb.Shadow(formulation="auto") and cb.Spook().compliance == 1e-8
    found = cb.fit(model, runs, UNKNOWN, method="shadow")
    assert found.converged and found.problem.lifted and all(c.rms_over_sd < 1.3 for c in found.fit)
    soft = cb.fit(model, runs, UNKNOWN, method=cb.Shadow(stepper=cb.Spook(compliance=1e-3, angular_compliance=1e-3)))
    assert soft.converged and not soft.problem.lifted
    assert not cb.fit(model, runs, UNKNOWN, method=cb.Shadow(formulation="eliminated")).converged
