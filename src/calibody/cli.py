"""The command line. Nothing heavy is imported before a command needs it, so that `--help` answers at once.

A mistake of the user is one sentence on stderr, `error: ...`, and exit code 2; a fit whose verdict is red (it did not converge, or its numbers are not to be trusted) is 1; an interruption is 130; a
defect of calibody is one sentence that asks for a report, and 70 (`--debug` shows the traceback of any of them).
"""

from __future__ import annotations

import enum
import json
import shlex
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibody import overwriting
from calibody.errors import CalibodyError, nearest

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from rich.table import Table

NOT_TRUSTED, USER_MISTAKE, DEFECT, INTERRUPTED = 1, 2, 70, 130
BEGAN = time.perf_counter()
TABLE_ROWS = 24
"""Final values beyond this many are left to `--out` and `--json`."""
OUT_SUFFIXES = (".csv", ".parquet", ".npz")

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class Coordinates(enum.StrEnum):
    auto = "auto"
    tree = "tree"
    free = "free"


class Demo(enum.StrEnum):
    pendulum = "pendulum"
    furuta = "furuta"
    fourbar = "fourbar"
    arm = "arm"


class Interrupted(Exception):
    """Ctrl-C at a moment where there is something to say about it."""


ExperimentFile = Annotated[Path, typer.Argument(metavar="FILE", help="An experiment file (TOML).")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="An MJCF or URDF file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


# -- commands ----------------------------------------------------------------------------------------------------------------------


def _version(wanted: bool) -> None:
    if wanted:
        from calibody import __version__

        typer.echo(f"calibody {__version__}")
        raise typer.Exit


@app.callback()
def calibody(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error (may stand anywhere).")] = False,
) -> None:
    """Recordings of a moving mechanism in, a calibrated model of it out, with error bars one can trust.

    \b
    Start with an example that fits itself, then edit its files:
        calibody demo furuta
    Your own robot, from a model (MJCF or URDF) and a recording; an experiment file names both and says what is unknown:
        calibody new model.urdf log.csv     write a first one, with a reason beside every guess
        calibody check experiment.toml      is everything there, what looks wrong, what can be determined
        calibody fit experiment.toml        estimate; writes a folder with the calibrated model and report.html

    \b
    Exit codes: 0 done, 1 the fit is not to be trusted (red verdict: not converged, or the model does not describe the data), 2 a mistake in what was given, 130 interrupted.
    """


@app.command(short_help="Write a first experiment file for a model and recordings of it.")
def new(
    model: ModelFile,
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Recordings of it: CSV, Parquet, NPZ, MAT, ROS bags, ...")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The experiment file to write; without it, NAME.toml beside the first log NAME.")] = None,
    payload: Annotated[
        str | None, typer.Option(metavar="FRAME", help="A body or site that carries an unknown payload: mass and centre of mass are estimated.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an experiment file that is there.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Guess which column is what, units, clock, noise and what can be estimated; write a commented experiment file.

    \b
    Example:
        calibody new ur5.urdf log.csv --payload tool0
    Every guess is printed with its reason and stands in the file beside what it decided: look at it, then calibody check and fit.
    """
    from calibody.experiment import atomic
    from calibody.experiment.guess.new import propose

    target = logs[0].with_suffix(".toml") if out is None else out
    overwriting.refuse([target], [model, *logs], "give another name to --out")
    if target.exists() and not force:
        raise CalibodyError(f'"{target}" exists; give another name to --out, or --force to write over it.')
    found = propose(model, logs, target, payload)
    atomic.write_text(target, found.text)
    if as_json:
        guesses = [{"what": g.what, "value": g.value, "why": g.why, "sure": g.sure} for g in found.guesses]
        typer.echo(json.dumps({"experiment": str(target), "guesses": guesses, "unknowns": list(found.experiment.unknowns)}, indent=2))
    elif not quiet:
        table = _table(f"guessed for {target}", "what", "taken for", "sure?", "because")
        for column in table.columns:
            column.justify = "left"
        for g in found.guesses:
            table.add_row(*(_plain(x) for x in (g.what, g.value, g.sure, g.why)))
        _print(table, [])
        typer.echo(f"wrote {target}; next: calibody check {shlex.quote(str(target))}")


@app.command(short_help="List bodies, joints, drives, sites and all numbers of a model.")
def inspect(
    model: ModelFile,
    everything: Annotated[bool, typer.Option("--all", help="Also numbers that are zero and rarely used, and those of shapes.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List bodies, joints, actuators, sites, sensors and parameters of a model, with the names that experiment files use.

    \b
    Example:
        calibody inspect ur5.urdf
    """
    import calibody as cb
    from calibody import listing

    mechanism = cb.load(model)
    if as_json:
        typer.echo(json.dumps(listing.document(mechanism), indent=2))
    elif not quiet:
        for title, headings, rows in listing.tables(mechanism, everything):
            if rows:
                table = _table(title, *headings)
                for column in table.columns:
                    column.justify = "left"
                for row in rows:
                    table.add_row(*(_plain(x) for x in row))
                _print(table, [])
        _print(None, list(mechanism.notes))


@app.command(short_help="Estimate the unknowns of an experiment; write a run folder and report.")
def fit(
    file: ExperimentFile,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run folder; without it, NAME-fit beside NAME.toml.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the best point in the folder, after Ctrl-C or a crash.")] = False,
    extend: Annotated[bool, typer.Option("--extend", help="Add what the model lacks to the unknowns, as far as further fits confirm it.")] = False,
    validate: Annotated[
        bool | None,
        typer.Option(
            "--validate/--no-validate",
            help="Fit again without each run (or without the second half of a single one) and predict it; left out: where that is quick.",
        ),
    ] = None,
    posterior: Annotated[bool, typer.Option("--posterior", help="Draw from the posterior afterwards, as calibody posterior does.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Estimate what an experiment leaves unknown, and write everything that was found.

    \b
    The folder holds
        report.html       open this first: what is determined, how well it fits, a replay
        MODEL             the calibrated model, in the format of the original file
        result.json       parameters, error bars, what could not be determined
        *.parquet         measured, fitted and predicted channels; motion; forces; what was left out and predicted
    While the fit runs, the folder holds the best point so far: Ctrl-C loses nothing, --resume goes on.

    \b
    Exit code 0 where the verdict is green or amber, 1 where it is red: the fit did not converge, the model does not describe
    the data, or something is missing that moves estimates by more than their error bars.

    \b
    Example:
        calibody fit furuta.toml --out furuta-fit
    """
    from calibody.experiment import load

    experiment = load(file)
    folder = out if out is not None else file.with_name(f"{file.stem}-fit")
    command = shlex.join(
        [
            *("calibody", "fit", str(file), *(["--out", str(out)] if out else [])),
            *(["--resume"] if resume else []),
            *(["--extend"] if extend else []),
            *([] if validate is None else ["--validate" if validate else "--no-validate"]),
            *(["--posterior"] if posterior else []),
        ]
    )
    then = _drawing(experiment, folder, show=not (as_json or quiet)) if posterior else None
    found = _fitted(
        experiment, folder, file, show=not (as_json or quiet), resume=resume, extend=extend, validate=validate, command=command, began=BEGAN, then=then
    )
    try:
        _show_fit(found, as_json, quiet)
    finally:
        if posterior and found.converged and not as_json:
            _show_posterior(found, quiet)
    if posterior:
        _exit_by_posterior(found)


@app.command(name="posterior", short_help="Draw from the posterior: other explanations, bands, checks.")
def posterior_(
    file: ExperimentFile,
    samples: Annotated[int | None, typer.Option(metavar="N", help="Draws; without it, those of [posterior], or 400.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the draws that are there: after Ctrl-C or a crash, or for more of them.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run folder; without it, NAME-fit beside NAME.toml.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw from the posterior of an experiment: is there a second explanation, what do bounds and curvature do, how wide are predictions?

    \b
    The run folder (made by calibody fit, or now) gains
        posterior.parquet   the draws, with weights
        posterior.json      explanations, quantiles, checks
        report.html         a section on them
    Exit code 0 if the posterior is as sampled, 1 if not (it says why).

    \b
    Examples:
        calibody posterior furuta.toml
        calibody posterior furuta.toml --samples 2000 --resume
    """
    from calibody.experiment import load
    from calibody.experiment.posterior import changed, posterior_into

    experiment, folder = load(file), out if out is not None else file.with_name(f"{file.stem}-fit")
    command = shlex.join(["calibody", "posterior", str(file), *(["--samples", str(samples)] if samples else []), *(["--out", str(out)] if out else [])])
    tell = None if as_json or quiet else _tell
    try:
        found = posterior_into(experiment, folder, sampling=changed(experiment.posterior, samples), resume=resume, report=tell, command=command)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; go on with: calibody posterior {file} --resume") from None
    if found.posterior is None:
        _show_fit(found, as_json, quiet)
        return
    if as_json:
        typer.echo(json.dumps(found.posterior, indent=2))
    else:
        _show_posterior(found, quiet)
    _exit_by_posterior(found)


@app.command(short_help="Predict recordings that a saved fit has not seen.")
def validate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder, as calibody fit writes it.")],
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Recordings with the columns of those that were fitted, or an experiment file (TOML).")],
    window: Annotated[float | None, typer.Option(metavar="SECONDS", help="How much of the beginning gives the start; left out: a tenth.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict recordings with a saved fit: from a start taken from their beginning, simulated without looking at the rest.

    \b
    Example:
        calibody validate log-fit another-log.csv
    The table is kept in result.json and in report.html.
    """
    import calibody as cb
    from calibody.experiment.held_out import validate as predicted

    found = predicted(cb.open(folder), data, window)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif not quiet:
        for name, r in found.items():
            table = _table(
                f"{name}: {r['seconds']:g} s predicted from its beginning", "channel", "rms of the error", "times the noise", "of the motion explained"
            )
            for channel, c in r["channels"].items():
                times = "" if c["rms_over_sd"] is None else f"{c['rms_over_sd']:.3g}"
                share = "" if c["explained"] is None else f"{100.0 * c['explained']:.2f} %"
                table.add_row(_plain(channel), f"{c['rms']:.3g}", times, share)
            seen = ["This recording was part of the fit: what is predicted here has been seen."] if r["fitted"] else []
            _print(table, [*seen, *([r["incomplete"]] if r["incomplete"] else [])])
        typer.echo(f"report: {folder / 'report.html'}")


@app.command(short_help="Write report.html anew from a run folder.")
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="A run folder, as calibody fit writes it; two with --compare.")],
    compare: Annotated[bool, typer.Option("--compare", help="Put two fits side by side: parameters, residuals, motion.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Of --compare: the page; without it, compare.html in the second folder.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write report.html anew from a run folder, or compare two (nothing is computed again).

    \b
    Examples:
        calibody report furuta-fit
        calibody report --compare furuta-fit furuta-fit-2
    """
    if len(folders) != 1 + compare or (out is not None and not compare):
        expected = "two run folders, as in calibody report --compare A B" if compare else "one run folder, or two with --compare; --out is of --compare"
        raise CalibodyError(f"calibody report was given {len(folders)} folder{'s' if len(folders) > 1 else ''}{' and --out' if out else ''}; give {expected}.")
    if compare:
        from calibody.report.compare import compare as side_by_side

        path = side_by_side(*folders, out=out)
    else:
        from calibody.report import write

        path = write(folders[0])
    if as_json:
        typer.echo(json.dumps({"report": str(path)}, indent=2))
    elif not quiet:
        typer.echo(f"wrote {path}")


@app.command(short_help="Simulate a model or an experiment.")
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
        _print(_simulation_table(mechanism.name, summary), summary["notes"])
        if out is not None:
            typer.echo(f"wrote {out}")


@app.command(short_help="Say what is missing, looks wrong, or cannot be determined.")
def check(file: ExperimentFile, as_json: Json = False, quiet: Quiet = False) -> None:
    """Read all that an experiment names, and say what is missing, what looks wrong, and what can be determined.

    \b
    Example:
        calibody check furuta.toml
    """
    from calibody.experiment import load
    from calibody.experiment.check import ERROR, Check, Finding, check as examine

    try:
        found = examine(load(file), foresight=True)
    except CalibodyError as error:
        if as_json:
            typer.echo(json.dumps(_check_summary(file, Check((Finding(ERROR, str(error)),), None, (), ())), indent=2))
        raise
    if as_json:
        typer.echo(json.dumps(_check_summary(file, found), indent=2))
    elif not quiet:
        for run in found.runs:
            _print(_recording_table(run), [])
        for finding in (f for f in found.findings if f.level != ERROR):
            typer.echo(f"{finding.level}: {finding.sentence}")
        if found.ok:
            counts = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in ((len(found.runs), "run"), (len(found.unknowns), "unknown"))]
            typer.echo(f"{file} can be fitted: {', '.join(counts)}.")
    for finding in (f for f in found.findings if f.level == ERROR):
        print(f"error: {finding.sentence}", file=sys.stderr)
    if not found.ok:
        raise typer.Exit(USER_MISTAKE)


@app.command(short_help="Write a model in another format.")
def convert(
    model: ModelFile,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; its suffix gives the format (.xml: MJCF, .urdf: URDF).")],
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there, the given model included.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a model in another format.

    \b
    Example:
        calibody convert robot.urdf robot.xml
    """
    import calibody as cb
    from calibody import formats

    mechanism = cb.load(model)
    if not force:
        overwriting.refuse([out], formats.source_files(mechanism), "give another name, or --force")
        if out.exists():
            raise CalibodyError(f'"{out}" exists; give another name, or --force to write over it.')
    formats.convert(mechanism, out)
    notes = list(mechanism.notes)
    if as_json:
        typer.echo(json.dumps({"model": str(model), "out": str(out), "notes": notes}, indent=2))
    elif not quiet:
        _print(None, notes)
        typer.echo(f"wrote {out}")


@app.command(short_help="Write a complete example with a known answer, and fit it.")
def demo(
    name: Annotated[Demo, typer.Argument(metavar="[NAME]", help="pendulum, furuta, fourbar or arm.")] = Demo.pendulum,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder to write the example into; without it, calibody-demo/NAME.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a complete example whose answer is known, and fit it.

    \b
        pendulum    one hinge with a motor; the shortest complete example
        furuta      rotary pendulum with 13 unknowns, of which some cannot be determined: the report says which
        fourbar     a closed loop, with the forces in its joints
        arm         seven joints, masses and friction at once
    All files are made to be edited: change them, then run calibody fit NAME.toml.
    """
    from calibody import demos
    from calibody.experiment import load

    folder = out if out is not None else Path("calibody-demo") / name.value
    file = demos.write(name.value, folder)
    if not (as_json or quiet):
        typer.echo(f"wrote {file} with its model and recording; fitting it")
    truth = demos.truth_of(folder)
    command = shlex.join(["calibody", "demo", name.value, *(["--out", str(out)] if out else [])])
    found = _fitted(load(file), folder / f"{file.stem}-fit", file, show=not (as_json or quiet), command=command, began=time.perf_counter(), truth=truth)
    _show_fit(found, as_json, quiet, truth)


# -- fits --------------------------------------------------------------------------------------------------------------------------


def _fitted(experiment: Any, folder: Path, file: Path, show: bool, **settings: Any) -> Any:
    """`fit_into`, which `settings` are of, with a live table; Ctrl-C says where the best point is."""
    from contextlib import nullcontext

    from calibody.console import Progress
    from calibody.experiment.session import fit_into

    try:
        with Progress(f"fitting {file}") if show else nullcontext() as lines:
            return fit_into(experiment, folder, report=lines, **settings)
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; the best point so far is in {folder}, go on with: calibody fit {file} --out {folder} --resume"
            if (folder / "result.json").is_file()
            else "interrupted before the fit began."
        ) from None


def _show_fit(found: Any, as_json: bool, quiet: bool, truth: dict[str, float] | None = None) -> None:
    from calibody.console import document, print_result

    path = found.folder / "report.html"
    if as_json:
        typer.echo(json.dumps(document(found, report=str(path)), indent=2))
    elif not quiet:
        print_result(found, truth)
        typer.echo(f"report: {path}")
    from calibody.report.verdict import mistaken, verdict

    said = verdict(found)
    if not found.converged:
        print(f"error: the fit did not converge: {found.status}{mistaken(found)}", file=sys.stderr)
        raise typer.Exit(NOT_TRUSTED)
    if not said.trusted:
        print(f"error: {said.headline}", file=sys.stderr)
        raise typer.Exit(NOT_TRUSTED)
    if not (as_json or quiet):
        typer.echo(said.headline)


def _simulate_experiment(file: Path, coordinates: str, as_json: bool, quiet: bool) -> None:
    from calibody.experiment import load
    from calibody.experiment.simulation import simulate_runs

    runs = simulate_runs(load(file), coordinates)
    if as_json:
        typer.echo(json.dumps({"experiment": str(file), "runs": {name: r.rms for name, r in runs.items()}}, indent=2))
    elif not quiet:
        for name, r in runs.items():
            table = _table(f"{name}: simulated from its start with the initial values", "channel", "rms of simulated - measured", "rms of measured")
            for channel, rms in r.rms.items():
                table.add_row(channel, f"{rms['rms']:.4g}", f"{rms['rms_of_signal']:.4g}")
            _print(table, [r.incomplete] if r.incomplete else [])


# -- posteriors ------------------------------------------------------------------------------------------------------------------------


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _drawing(experiment: Any, folder: Path, show: bool) -> Any:
    """What is done with a result that converged: its posterior."""

    def draw(result: Any) -> None:
        from calibody.experiment.posterior import draw_into

        draw_into(result, folder, experiment.posterior, report=_tell if show else None)

    return draw


def _show_posterior(found: Any, quiet: bool) -> None:
    if quiet or found.posterior is None or found.posterior["refused"]:
        return
    d = found.posterior
    table = _table("posterior", "parameter", "median", "5 %", "95 %", "fit", "sd", "unit")
    for name, m in d["parameters"].items():
        e = found.parameters[name]
        sd = f"{e.sd:.2g}" if e.sd is not None else "at bound" if e.at_bound else ""
        table.add_row(_plain(name), f"{m['median']:.6g}", f"{m['q05']:.6g}", f"{m['q95']:.6g}", f"{e.value:.6g}", sd, _plain(m["unit"]))
    _print(table, [])
    from calibody.report.posterior import section

    said = section(found)
    typer.echo(f"{said.verdict}\nIs there more than one explanation? {said.explanations}" if said else "")
    if len(d["modes"]) > 1:
        modes = _table("explanations", "", "found by", "probability", *(said.differing if said else ()))
        for k, m in enumerate(d["modes"], 1):
            modes.add_row(str(k), _plain(m["found_by"]), f"{100 * m['mass']:.3g} %", *(f"{m['values'][name]:.5g}" for name in (said.differing if said else ())))
        _print(modes, [])
    for c in d["checks"]:
        if c["doubts"]:
            typer.echo(f"check: {c['run']}: {c['channel']}: {'; '.join(c['doubts'])}")
    _print(None, d["notes"])
    typer.echo(f"report: {found.folder / 'report.html'}")


def _exit_by_posterior(found: Any) -> None:
    d = found.posterior
    if d is not None and d["status"] != "converged":
        print(f"error: {d['status']}", file=sys.stderr)
        raise typer.Exit(NOT_TRUSTED)


# -- what the user typed -----------------------------------------------------------------------------------------------------------


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
        raise CalibodyError(f'The file "{path}" cannot be read as a table ({_first_line(error)}); give a CSV with a header line, or a Parquet file.') from None
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


# -- what the motion was -----------------------------------------------------------------------------------------------------------


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


def _table(title: str, *headings: str) -> Table:
    from calibody.console import table

    return table(title, *headings)


def _simulation_table(name: str, summary: dict[str, Any]) -> Table:
    from rich.text import Text

    energy, final = summary["energy"], summary["final"]
    table = _table(f"simulation of {name}", "quantity", "value")
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


def _check_summary(file: Path, found: Any) -> dict[str, Any]:
    return {
        "experiment": str(file),
        "ok": found.ok,
        "model": found.model and found.model.name,
        "runs": [{"name": r.name, "start": r.start, "end": r.end, "source": r.source, "sha256": r.sha256, "channels": _channel_rows(r)} for r in found.runs],
        "unknowns": [e.name for e in found.unknowns],
        "findings": [{"level": f.level, "sentence": f.sentence} for f in found.findings],
    }


def _channel_rows(run: Any) -> list[dict[str, Any]]:
    rows = [("observed", o.channel, o.times[o.present], o.values[o.present], o.period, o.sd) for o in run.observations]
    rows += [("driven", d.channel, d.signal.times, d.signal.values, d.period, d.sd) for d in run.drives]
    return [
        {"channel": channel, "role": role, "samples": len(t), "rate": 1.0 / period, "from": float(t[0]), "to": float(t[-1])}
        | {"least": float(x.min()), "largest": float(x.max()), "sd": sd}
        for role, channel, t, x, period, sd in rows
    ]


def _recording_table(run: Any) -> Table:
    from rich.text import Text

    table = _table(f"{run.name}: {run.start:g} s to {run.end:g} s", "channel", "", "samples", "rate [Hz]", "range", "sd")
    for row in _channel_rows(run):
        sd = "" if row["sd"] is None else f"{row['sd']:.3g}"
        table.add_row(Text(row["channel"]), row["role"], str(row["samples"]), f"{row['rate']:.4g}", f"{row['least']:.3g} .. {row['largest']:.3g}", sd)
    return table


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def _print(table: Table | None, notes: list[str]) -> None:
    from calibody.console import output

    console = output()
    if table is not None:
        console.print(table)
    for note in notes:
        console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)


# -- errors ------------------------------------------------------------------------------------------------------------------------


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    sys.exit(_run([a for a in arguments if a != "--debug"], debug="--debug" in arguments))


def _run(arguments: list[str], debug: bool) -> int:
    try:
        code = app(args=arguments, prog_name="calibody", standalone_mode=False) or 0
        return _fail("interrupted.", INTERRUPTED, debug=False) if code == INTERRUPTED else code  # typer turns Ctrl-C into this code
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted.", INTERRUPTED, debug)
    except Interrupted as error:
        return _fail(str(error), INTERRUPTED, debug)
    except CalibodyError as error:
        return _fail(str(error), USER_MISTAKE, debug)
    except OSError as error:
        return _fail(f"{error.filename or 'A file'} cannot be used: {error.strerror or error}.", USER_MISTAKE, debug)
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own: a wrong option or argument
            return _fail(f"{error.format_message().rstrip('.')}; see calibody --help.", USER_MISTAKE, debug)  # type: ignore[attr-defined]
        return _fail(
            f"calibody failed ({type(error).__name__}: {_first_line(error)}); please report this with the output of the same command and --debug.",
            DEFECT,
            debug,
        )


def _fail(sentence: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"error: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
