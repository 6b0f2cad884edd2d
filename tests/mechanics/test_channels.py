"""The catalogue of channels is made once per model, however often one is looked up, and goes with its model."""

from __future__ import annotations

import gc

import pytest
from problems import furuta

from calibody.mechanics import channels


def test_the_catalogue_is_made_once_per_model(monkeypatch: pytest.MonkeyPatch) -> None:
    made, make = [], channels._catalogue
    monkeypatch.setattr(channels, "_catalogue", lambda model: made.append(model.name) or make(model))
    model, other = furuta(), furuta()
    for _ in range(3):
        assert channels.resolve(model, "joint.hinge1.angle").unit == "rad"
        assert channels.resolve(other, "body.arm.com.z").component == 2
    assert len(made) == 2
    kept = len(channels._catalogues)
    del other
    gc.collect()
    assert len(channels._catalogues) < kept
