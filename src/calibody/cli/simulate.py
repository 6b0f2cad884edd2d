"""`calibody simulate`: a model, or the runs of an experiment with its initial values."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibody import overwriting
from calibody.cli.base import Coordinates, Json, Quiet, first_line, show, table_of
from calibody.errors import CalibodyError, nearest

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from rich.table import Table


TABLE_ROWS = 24
"""Final values beyond this many are left to `--out` and `--json`."""
OUT_SUFFIXES = (".csv", ".parquet", ".npz")


def simulate(
    model: Annotated[Path, typer.Argument(metavar="FILE", help="A model (MJCF or URDF), or an experiment file (TOML).")],
    duration: Annotated[float, typer.Option(help="Simulated time [s].")] = 10.0,
    h: Annotated[float, typer.Option("--h", help="Time step [s].")] = 0.001,
    coordinates: Annotated[Coordinates, typer.Option(help="Unknowns: joint coordinates (tree) or the pose of every body (free).")] = Coordinates.auto,
    initial: Annotated[list[str] | None, typer.Option(metavar="CHANNEL=VALUE", help='Start: "joint.hinge.angle=1.0"; repeat for more.')] = None,
    drive: Annotated[
        list[str] | None,
        typer.Option(metavar="CHANNEL=VALUE", help='Constant "actuator.motor=0.5", or "actuator.motor=file.csv:column" held from each time in column t.'),
    ] = None,
    channels: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Channels to show and write (repeat, or separate by commas).")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the motion: .csv, .parquet or .npz.")] = None,
    contacts: Annotated[bool, typer.Option("--contacts", help="Let the contacts and joint limits of the model act.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a model; show where it ends and the energy.

    \b
    Given an experiment instead, every run is simulated with the initial values of the unknowns, driven as recorded and started as measured, and
    compared with what was measured (then only --coordinates, --json and --quiet apply):
        calibody simulate pendulum.xml --duration 10 --initial joint.hinge.angle=2 --out motion.csv
        calibody simulate pendulum.toml
    """
    if model.suffix == ".toml":
        return _simulate_experiment(model, coordinates.value, as_json, quiet)
    if out is not None and out.suffix not in OUT_SUFFIXES:
        raise CalibodyError(f'--out is "{out}"; the suffix gives the format, use one of {", ".join(OUT_SUFFIXES)}.')
    start = dict(_initial(text) for text in initial or ())
    driven = dict(_drive(text) for text in drive or ())
    if out is not None:
        overwriting.refuse([out], [model, *(file for text in drive or () if (file := _drive_file(text)) is not None)], "give another name to --out")

    begin = time.perf_counter()
    import calibody as cb

    mechanism = cb.load(model, contacts)
    loaded = time.perf_counter()
    motion = cb.simulate(mechanism, duration=duration, h=h, initial=start, drive=driven, coordinates=coordinates.value)
    done = time.perf_counter()

    names = [name for text in channels or () for name in text.split(",") if name]
    columns = _columns(motion, names) if names else None
    if out is not None:
        _write(motion, columns, out)
    summary = _summary(mechanism, motion, columns, h, {"load": loaded - begin, "simulate": done - loaded})
    if as_json:
        typer.echo(json.dumps({"model": str(model), "coordinates": coordinates.value, "out": out and str(out), **summary}, indent=2))
    elif not quiet:
        show(_simulation_table(mechanism.name, summary), summary["notes"])
        if out is not None:
            typer.echo(f"wrote {out}")


def _simulate_experiment(file: Path, coordinates: str, as_json: bool, quiet: bool) -> None:
    from calibody.experiment import load
    from calibody.experiment.simulation import simulate_runs

    runs = simulate_runs(load(file), coordinates)
    if as_json:
        typer.echo(json.dumps({"experiment": str(file), "runs": {name: r.rms for name, r in runs.items()}}, indent=2))
    elif not quiet:
        for name, r in runs.items():
            table = table_of(f"{name}: simulated from its start with the initial values", "channel", "rms of simulated - measured", "rms of measured")
            for channel, rms in r.rms.items():
                table.add_row(channel, f"{rms['rms']:.4g}", f"{rms['rms_of_signal']:.4g}")
            show(table, [r.incomplete] if r.incomplete else [])


def _split(text: str, option: str, example: str) -> tuple[str, str]:
    channel, equals, value = (part.strip() for part in text.partition("="))
    if not (channel and equals and value):
        raise CalibodyError(f'{option} is "{text}"; give a channel and a value, for instance {option} "{example}".')
    return channel, value


def _initial(text: str) -> tuple[str, Any]:
    channel, value = _split(text, "--initial", "joint.hinge.angle=1.0")
    try:
        numbers = [float(word) for word in value.split(",")]
    except ValueError:
        raise CalibodyError(f'--initial is "{text}"; after "=" comes a number, or numbers separated by commas.') from None
    return channel, numbers[0] if len(numbers) == 1 else numbers


def _drive(text: str) -> tuple[str, Any]:
    channel, value = _split(text, "--drive", "actuator.motor=0.5")
    try:
        return channel, float(value)
    except ValueError:
        pass
    file, _, column = value.rpartition(":")
    if not (file and column):
        raise CalibodyError(f'--drive is "{text}"; after "=" comes a number, or file.csv:column.')
    return channel, _recorded(Path(file), column)


def _drive_file(text: str) -> Path | None:
    """The file of a drive that is not constant."""
    file = text.partition("=")[2].rpartition(":")[0].strip()
    return Path(file) if file else None


def _recorded(path: Path, column: str) -> tuple[np.ndarray, np.ndarray]:
    """The times (column t) and values of one column of a CSV or Parquet file."""
    import numpy as np
    import polars as pl

    if not path.is_file():
        raise CalibodyError(f'--drive names the file "{path}", which does not exist; check the path.')
    try:
        frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
    except pl.exceptions.PolarsError as error:
        raise CalibodyError(f'The file "{path}" cannot be read as a table ({first_line(error)}); give a CSV with a header line, or a Parquet file.') from None
    for name in ("t", column):
        if name not in frame.columns:
            raise CalibodyError(f'The file "{path}" has no column "{name}"; it has {", ".join(frame.columns)}{nearest(name, frame.columns) or "."}')
        if not frame[name].dtype.is_numeric():
            raise CalibodyError(f'The column "{name}" of "{path}" is not numeric; a drive needs numbers.')
    times, values = (frame[name].cast(pl.Float64).to_numpy() for name in ("t", column))
    if not (len(times) and np.isfinite(times).all() and np.isfinite(values).all() and (np.diff(times) > 0).all()):
        raise CalibodyError(
            f'The columns "t" and "{column}" of "{path}" must hold finite numbers, and t must increase from row to row; remove gaps and repeated times.'
        )
    return times, values


def _columns(motion: Any, names: list[str]) -> dict[str, np.ndarray]:
    """Scalar columns of the named channels: `site.tip.position` becomes its x, y and z."""
    import numpy as np

    columns: dict[str, np.ndarray] = {}
    for name in names:
        values = np.asarray(motion[name])
        if values.ndim == 1:
            columns[name] = values
            continue
        flat = values.reshape(len(values), -1)
        parts = {3: "xyz", 4: "wxyz"}.get(flat.shape[1], range(flat.shape[1]))
        columns.update({f"{name}.{part}": flat[:, i] for i, part in enumerate(parts)})
    return columns


def _write(motion: Any, columns: dict[str, np.ndarray] | None, out: Path) -> None:
    import numpy as np
    import polars as pl

    frame: pl.DataFrame = motion.to_frame() if columns is None else pl.DataFrame({"time": np.asarray(motion.time), **columns})
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".csv":
        frame.write_csv(out)
    elif out.suffix == ".parquet":
        frame.write_parquet(out)
    else:
        np.savez_compressed(out, allow_pickle=False, **{name: frame[name].to_numpy() for name in frame.columns})


def _summary(model: Any, motion: Any, columns: dict[str, np.ndarray] | None, h: float, seconds: dict[str, float]) -> dict[str, Any]:
    import numpy as np

    energy, times = np.asarray(motion.energy), np.asarray(motion.time)
    if columns is None:
        columns = _columns(motion, [c for c in motion.channels if c.startswith("joint.") and c.rsplit(".", 1)[1] in ("angle", "position", "rate")])
    return {
        "duration": float(times[-1] - times[0]),
        "h": h,
        "steps": len(times) - 1,
        "energy": {"start": float(energy[0]), "end": float(energy[-1]), "drift": float(energy[-1] - energy[0]), "range": float(np.ptp(energy))},
        "final": {name: float(values[-1]) for name, values in columns.items()},
        "notes": list(dict.fromkeys([*model.notes, *motion.notes])),
        "seconds": {**seconds, "total": sum(seconds.values())},
    }


def _simulation_table(name: str, summary: dict[str, Any]) -> Table:
    from rich.text import Text

    energy, final = summary["energy"], summary["final"]
    table = table_of(f"simulation of {name}", "quantity", "value")
    table.add_row("duration", f"{summary['duration']:g} s")
    table.add_row("steps", f"{summary['steps']} of {summary['h']:g} s")
    table.add_row("energy at the start", f"{energy['start']:.9g} J")
    table.add_row("energy at the end", f"{energy['end']:.9g} J")
    table.add_row("energy drift (end - start)", f"{energy['drift']:.2e} J", end_section=True)
    for channel, value in list(final.items())[:TABLE_ROWS]:
        table.add_row(Text(f"{channel} at the end"), f"{value:.9g}")
    if len(final) > TABLE_ROWS:
        table.add_row(f"{len(final) - TABLE_ROWS} more: see --out or --json", "")
    table.add_section()
    table.add_row("time taken", f"{summary['seconds']['total']:.2f} s")
    return table
