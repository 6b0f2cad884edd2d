"""The command line. Nothing heavy is imported before a command needs it, so that `--help` answers at once.

A mistake of the user is one sentence on stderr, `error: ...`, and exit code 2; a fit whose verdict is red (it did not converge, or its numbers are not to be trusted) is 1; an interruption is 130; a
defect of calibody is one sentence that asks for a report, and 70 (`--debug` shows the traceback of any of them).

A command is one file beside its siblings: a function of its options, named in the table below in the order of `--help`.
"""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from calibody.cli.base import DEFECT, INTERRUPTED, USER_MISTAKE, Interrupted, first_line
from calibody.cli.check import check
from calibody.cli.convert import convert
from calibody.cli.demo import demo
from calibody.cli.design import design
from calibody.cli.fit import fit
from calibody.cli.inspect import inspect
from calibody.cli.new import new
from calibody.cli.posterior import posterior
from calibody.cli.report import report
from calibody.cli.simulate import simulate
from calibody.cli.validate import validate
from calibody.errors import CalibodyError

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


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


for _command, _short_help in (
    (new, "Write a first experiment file for a model and recordings of it."),
    (inspect, "List bodies, joints, drives, sites and all numbers of a model."),
    (fit, "Estimate the unknowns of an experiment; write a run folder and report."),
    (posterior, "Draw from the posterior: other explanations, bands, checks."),
    (design, "Say what to record next: the excitation that tells most, within limits."),
    (validate, "Predict recordings that a saved fit has not seen."),
    (report, "Write report.html anew from a run folder."),
    (simulate, "Simulate a model or an experiment."),
    (check, "Say what is missing, looks wrong, or cannot be determined."),
    (convert, "Write a model in another format."),
    (demo, "Write a complete example with a known answer, and fit it."),
):
    app.command(short_help=_short_help)(_command)


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
            f"calibody failed ({type(error).__name__}: {first_line(error)}); please report this with the output of the same command and --debug.",
            DEFECT,
            debug,
        )


def _fail(sentence: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"error: {sentence}", file=sys.stderr)
    return code
