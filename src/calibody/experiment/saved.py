"""A run folder as an object: everything a fit reported, without the solver's insides."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody import upward
from calibody.errors import CalibodyError
from calibody.estimate.identifiability import Determined
from calibody.estimate.result import (
    Agreed,
    ChannelFit,
    Comparison,
    Estimate,
    ForcesTogether,
    ForceTest,
    Mesh,
    Mistake,
    Outlier,
    Part,
    Rest,
    SlowForce,
    Suspect,
    described,
    described_html,
)
from calibody.estimate.validation import Unseen, Validation
from calibody.experiment.folder import BARS, CHANNELS, FORCES, RESULT, SCENE, SCHEMA, STATES, TORQUES, VALIDATION

POSTERIOR, DRAWS, PARTS = "posterior.json", "posterior.parquet", ".posterior"
"""What `experiment/posterior.py` writes."""

if TYPE_CHECKING:
    import polars

    from calibody.estimate.predict import Prediction
    from calibody.model import Model
    from calibody.recording.recording import Recording
    from calibody.report.plots import Plots


def open(folder: str | Path) -> Saved:
    """The result in a run folder, finished or not."""
    folder = Path(folder)
    path = folder / RESULT
    if not path.is_file():
        raise CalibodyError(f'"{folder}" has no {RESULT}; give the folder that calibody fit wrote (its option --out).')
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CalibodyError(f"{path} cannot be read ({str(error).splitlines()[0]}); fit again, or give another folder.") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise CalibodyError(f'{path} is not a result of this version (its schema is not "{SCHEMA}"); fit again.')
    return Saved(folder, document)


@dataclass(frozen=True, eq=False)
class Saved:
    """A saved result; `document` is its result.json. Tables are read when they are asked for."""

    folder: Path
    document: dict[str, Any] = field(repr=False)

    @property
    def finished(self) -> bool:
        """False for a fit that was stopped: then there are values, but no error bars and no tables."""
        return bool(self.document["finished"])

    @property
    def status(self) -> str:
        return self.document["status"]

    @property
    def converged(self) -> bool:
        return self.status == "converged"

    @cached_property
    def parameters(self) -> dict[str, Estimate]:
        return {name: _estimate(e) for name, e in self.document["parameters"].items()}

    @cached_property
    def determined(self) -> tuple[Determined, ...]:
        return tuple(
            Determined(d["expression"], d["value"], math.nan if d["sd"] is None else d["sd"], tuple((str(name), float(c)) for name, c in d.get("terms", ())))
            for d in self.document["determined"]
        )

    @property
    def unresolved(self) -> tuple[str, ...]:
        return tuple(self.document["unresolved"])

    @cached_property
    def correlation(self) -> np.ndarray:
        """Between the parameters, in their order; NaN where one has no error bar, and where it was not kept (of very many parameters)."""
        given, names = self.document["correlation"], list(self.parameters)
        out = np.full((len(names),) * 2, np.nan)
        if given is not None:
            at = [names.index(name) for name in given["parameters"]]
            out[np.ix_(at, at)] = np.array(given["matrix"], dtype=float).reshape(len(at), len(at))
        return out

    @cached_property
    def fit(self) -> tuple[ChannelFit, ...]:
        if not self.finished:
            return ()
        out = []
        for (run, channel), rows in self.channels.partition_by("run", "channel", as_dict=True, maintain_order=True).items():
            stated = self.document["fit"][channel]["runs"][run]
            times, measured, fitted, weight = (rows[name].to_numpy() for name in ("time", "measured", "fitted", "weight"))
            white = math.nan if stated["whiteness"] is None else stated["whiteness"]
            relative = rows["relative_sd"].to_numpy() if "relative_sd" in rows.columns else 1.0
            out.append(ChannelFit(str(run), str(channel), times, measured, fitted, stated["sd"], white, weight, relative))
        return tuple(out)

    @property
    def process_noise(self) -> Mapping[str, float]:
        return self.document["noise"]["process"]

    @cached_property
    def force_tests(self) -> Mapping[str, ForceTest]:
        return {joint: ForceTest(**given) for joint, given in self.document.get("force_tests", {}).items()}

    @property
    def slow_forces(self) -> Mapping[str, SlowForce]:
        return {joint: SlowForce(**given) for joint, given in self.document["noise"].get("slow", {}).items()}

    @property
    def unknown_drives(self) -> frozenset[str]:
        """Joints whose drive was said to be unknown: what was found there is an answer, and not a disturbance."""
        return frozenset(self.document["noise"].get("unknown", ()))

    @property
    def forces_together(self) -> tuple[ForcesTogether, ...]:
        return tuple(ForcesTogether((t["joints"][0], t["joints"][1]), t["correlation"]) for t in self.document["noise"].get("together", ()))

    @cached_property
    def without_forces(self) -> Comparison | None:
        given = self.document.get("without_forces")
        return None if given is None else Comparison(**given)

    @cached_property
    def runs_agree(self) -> Agreed | None:
        given = self.document["runs_agree"]
        return None if given is None else Agreed(**given)

    @cached_property
    def outliers(self) -> tuple[Outlier, ...]:
        return tuple(Outlier(**o) for o in self.document["outliers"])

    @cached_property
    def lacks(self) -> tuple[Suspect, ...]:
        return tuple(Suspect(**s | {"alike": tuple(s["alike"]), "parts": tuple(Part(**p) for p in s.get("parts", ()))}) for s in self.document["lacks"])

    @cached_property
    def rests_on(self) -> tuple[Rest, ...]:
        """Numbers that were taken as exact and that the data cannot tell."""
        return tuple(Rest(**r) for r in self.document.get("rests_on", ()))

    @cached_property
    def mistakes(self) -> tuple[Mistake, ...]:
        """What is probably wrong with the files."""
        return tuple(Mistake(**m | {"subjects": tuple(m["subjects"]), "times": tuple(m.get("times", ()))}) for m in self.document.get("mistakes", ()))

    @cached_property
    def validation(self) -> Validation | None:
        """How runs were predicted that were left out; None if none was."""
        given = self.document.get("validation")
        if given is None:
            return None
        parts = self._table(VALIDATION).partition_by("run", "channel", as_dict=True, maintain_order=True)
        unseen = []
        for (run, channel), rows in parts.items():
            time, measured, predicted, noise, band = (rows[name].fill_null(math.inf).to_numpy() for name in ("time", "measured", "predicted", "noise", "band"))
            unseen.append(Unseen(str(run), str(channel), time, measured, predicted, noise, band, rows["foreseen"].to_numpy()))
        return Validation(given["halves"], tuple(unseen), given["failed"])

    @property
    def mesh(self) -> Mesh | None:
        given = self.document["mesh"]
        return None if given is None else Mesh(**given)

    @property
    def iterations(self) -> int:
        return self.document["iterations"]

    @property
    def seconds(self) -> Mapping[str, float | None]:
        return self.document["seconds"]

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self.document["notes"])

    @cached_property
    def model(self) -> Model:
        """The calibrated model."""
        from calibody import formats

        file = (self.document["model"] or {}).get("file")
        if file is None:
            raise CalibodyError(
                f'"{self.folder}" holds no calibrated model; {"see its notes." if self.finished else "the fit is unfinished, go on with --resume."}'
            )
        return formats.load(self.folder / file, engine=(self.document["model"] or {}).get("engine"))

    @cached_property
    def channels(self) -> polars.DataFrame:
        """run, channel, time, measured, fitted, predicted, residual, weight."""
        return self._table(CHANNELS)

    @cached_property
    def states(self) -> polars.DataFrame:
        """run, time, and every coordinate and rate."""
        return self._table(STATES)

    @cached_property
    def forces(self) -> polars.DataFrame:
        """run, time, and every force."""
        return self._table(FORCES)

    @cached_property
    def torques(self) -> polars.DataFrame:
        """run, joint, time, measured, model: what drove each joint, and what the model needs for the measured motion; empty where that cannot be said."""
        return self._table(TORQUES)

    @cached_property
    def bars(self) -> polars.DataFrame:
        """run, channel, time, value, sd: error bars of states and forces at some instants; sd is null where the data do not determine the value."""
        return self._table(BARS)

    @cached_property
    def posterior(self) -> dict[str, Any] | None:
        """`posterior.json`: status, explanations, quantiles; None where no posterior was drawn."""
        path = self.folder / POSTERIOR
        return json.loads(path.read_text(encoding="utf-8")) if self.finished and path.is_file() else None

    @cached_property
    def draws(self) -> polars.DataFrame:
        """draw, mode, log_p, log_q, weight, and every parameter: the draws of the posterior."""
        if self.posterior is None or self.posterior["refused"]:
            raise CalibodyError(f'"{self.folder}" has no draws of a posterior; make them with calibody posterior FILE, or calibody fit FILE --posterior.')
        return self._table(DRAWS)

    @cached_property
    def scene(self) -> dict[str, Any]:
        """What the replay draws."""
        self._present(SCENE)
        return json.loads((self.folder / SCENE).read_text(encoding="utf-8"))

    def predict(self, recording: Recording, window: float | None = None) -> Prediction:
        """Simulate a recording that was not fitted, freely from a start estimated on its first `window` seconds (by default a tenth of it)."""
        from calibody.experiment.held_out import predict

        return predict(self, recording, window)

    def report(self) -> Path:
        """Write `report.html` into the folder."""
        return upward.carry_out("Saved.report", self)

    def _table(self, name: str) -> polars.DataFrame:
        import polars as pl

        self._present(name)
        return pl.read_parquet(self.folder / name)

    def _present(self, name: str) -> None:
        if not self.finished:
            raise CalibodyError(f'The fit in "{self.folder}" is unfinished and has no {name}; go on with calibody fit --resume.')
        if not (self.folder / name).is_file():
            raise CalibodyError(f'"{self.folder}" has no {name}; it was removed, fit again.')

    @property
    def plot(self) -> Plots:
        """Figures of the fit, as those of a `Result`."""
        return upward.carry_out("Result.plot", self)

    def __str__(self) -> str:
        return described(self)

    def _repr_html_(self) -> str:
        return described_html(self)


def _estimate(e: Mapping[str, Any]) -> Estimate:
    lower, upper = (-math.inf if e["lower"] is None else e["lower"]), (math.inf if e["upper"] is None else e["upper"])
    return Estimate(
        e["value"],
        e["sd"],
        e["sd_naive"],
        e["unit"],
        e["initial"],
        lower,
        upper,
        e["at_bound"],
        bool(e["resolved"]),
        e["discretisation_error"],
        e["limit"],
        e.get("missing", 0.0),
    )
