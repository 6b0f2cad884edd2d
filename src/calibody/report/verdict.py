"""What was found, in plain words: one sentence per question, each with a level.

good      nothing to worry about
mind      usable, if one knows
bad       do not use without looking into it
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from calibody.estimate.result import COARSE, DRIVES, EXACT, FORCES_DECIDE, HELD, IMPACTS_DOUBTED, NOT_QUITE_WHITE, PUSHING, WEIGHED, worst_held
from calibody.experiment.writing import value_text
from calibody.recording.exchange import Exchange
from calibody.report.numbers import counted, listed, percent, plain

if TYPE_CHECKING:
    from calibody.estimate.result import Suspect
    from calibody.experiment.saved import Saved

GOOD, MIND, BAD = "good", "mind", "bad"
LARGE = 1.2
"""Residuals larger than this many times their noise are too large."""
HEADED = 2
"""Numbers that were held that the headline names."""
SMALL = 0.7
NOT_WHITE = 1e-4
"""Probability (Ljung-Box) below which residuals are not white, whatever other tests say: with ten channels false in one fit of a thousand."""
CLOSE, FAR = 0.05, 0.3
"""Error of a free prediction relative to the motion (rms): close below the first, far off above the second. The model then explains less than 1 - 0.3^2 = 91 % of the motion's variance."""
AGREED = 0.15
"""Relative error of the forces of all joints below which they say that the model is right, whatever a free prediction does."""
OFF, FAR_OFF = 3.0, 6.0
"""Of their stated standard deviations that plates may be off by; and how much cannot be."""
STRAY = 0.05
"""Share of a channel's samples that may be outliers: where more are, something else than single readings is wrong."""
STILL = 3.0
"""Spread of a channel, in units of its noise, below which it stands still."""
IMPOSSIBLE = "The estimates are not physically possible together"
"""How the note of a fit begins whose estimates no mechanism can have."""
ABSURD = 5.0
"""Residuals larger than this many times the stated noise are not those of this model."""
WRONG = 1.0
"""Standard deviations that something missing would move an estimate by, from which its error bar misleads: a 95 % interval that is off by one holds the truth in 83 % of cases."""
UNLIKELIER = 1.0 / 3.0
"""Probability of the explanation whose numbers are reported below which these are not to be used: the others have twice as much."""
VAGUE = 0.5
"""Standard deviation over value from which something without a sign (a mass, a friction) is hardly determined: zero is then within two of them."""
SIZES = (
    ".mass",
    ".damping",
    ".friction",
    ".stiffness",
    ".armature",
    ".inertia.xx",
    ".inertia.yy",
    ".inertia.zz",
    ".gain",
    ".stribeck",
    ".load_friction",
    ".length",
)
"""How the paths of such numbers end; those with a bound of zero below count too."""
UNLIKELY, RIGHT = 0.01, 3.0
"""Probability with which the worst of all runs left out is this far off although the model is right (errors of a run with one cause, which are the widest spread), and how many times further off is wrong."""


@dataclass(frozen=True)
class Item:
    question: str
    level: str
    sentence: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    level: str
    headline: str
    items: tuple[Item, ...]

    @property
    def trusted(self) -> bool:
        """Whether the numbers may be used: all but red. `calibody fit` exits with 1 where they may not."""
        return self.level != BAD


def verdict(found: Saved) -> Verdict:
    """The verdict on a result."""
    if not found.finished:
        return Verdict(BAD, "This fit is unfinished.", (_converged(found),))
    if not found.converged:
        headline = f"Not calibrated: the fit did not converge.{mistaken(found)}" if found.mistakes else "The fit did not converge; do not use its numbers."
        return Verdict(BAD, headline, (_converged(found), *_mistakes(found), *_missed(found), *_outliers(found)))
    items = (
        _converged(found),
        *_possible(found),
        *_determined(found),
        *_explanations(found),
        *_answered(found),
        *_lacking(found),
        *_slow(found),
        *_decided(found),
        *_weighed(found),
        *_impacts(found),
        *_residuals(found),
        *_mistakes(found),
        *_plates(found),
        *_root(found),
        *_runs(found),
        *_prediction(found),
        *_validation(found),
        *_mesh(found),
        *_outliers(found),
    )
    if (times := _largest_residual(found)) > ABSURD:
        upto = "up to " if len(found.document["fit"]) > 1 else ""
        return Verdict(
            BAD, f"Not calibrated: the model does not describe these data (residuals {upto}{plain(times, 3)} times the noise).{_suspicion(found)}", items
        )
    if left := _unexplained(found):
        return Verdict(BAD, f"Not calibrated: the model does not describe these data (most of {listed(left)} is left over).{_suspicion(found)}", items)
    total, good = len(found.parameters), sum(e.sd is not None for e in found.parameters.values())
    which = f"{'all' if good == total else good} of {counted(total, 'parameter')}" if good < total else f"all {counted(total, 'parameter')}"
    if total == good <= 1:
        which = "the parameter" if total else "motion and forces"
    worst = BAD if any(i.level == BAD for i in items) else MIND if any(i.level == MIND for i in items) else GOOD
    said = {
        GOOD: f"Calibrated: {which} determined, and nothing speaks against the model{_taken(found)}.",
        MIND: f"Calibrated with reservations: {which} determined.",
        BAD: f"Not to be trusted before the points below are looked into: {which} determined.",
    }
    if found.mistakes:
        said[BAD] = f"Not calibrated: something is wrong in the files.{mistaken(found)}"
    elif _moving(found):
        said[BAD] = f"Not calibrated yet: something is missing that moves estimates by more than they scatter.{_suspicion(found)}"
    return Verdict(worst, said[worst], items)


def _taken(found: Saved) -> str:
    """What nothing could speak against, and is seldom known well."""
    scaled = any(note.startswith(EXACT) and DRIVES in note for note in found.notes)
    said = [f"{DRIVES} is taken as exact: no residual would show it"] if scaled else []
    worst = [r for r in worst_held(found.rests_on, HEADED) if any(note.startswith(HELD) and r.path in note for note in found.notes)]
    each = [f"{r.amount} of {r.path} moves {r.largest[0]} by {plain(r.largest[1], 2)} of its error bars" for r in worst]
    said += [f"as right as what was held: {', '.join(each)}"] if each else []
    return f" ({'; '.join(said)})" if said else ""


def _unexplained(found: Saved) -> list[str]:
    """Channels of which most is left over, where the noise was found with the fit and residuals are of its size by themselves."""
    if found.document["noise"]["given"] or found.process_noise or found.slow_forces:
        return []
    return list(dict.fromkeys(c.channel for c in found.fit if c.unexplained))


def _largest_residual(found: Saved) -> float:
    """Times the stated noise, of any channel; 0 where the noise was found from the residuals themselves."""
    return max(_sizes(found).values(), default=0.0) if found.document["noise"]["given"] else 0.0


def _sizes(found: Saved) -> dict[str, float]:
    """Residuals over their noise, by channel: rms of all but a few samples that are listed as outliers. Those say nothing about the model, and one in a hundred, fifty times the noise off, makes the rms five times the noise."""
    sizes = {c: f["rms_over_sd"] for c, f in found.document["fit"].items() if f["rms_over_sd"] is not None}
    struck = {o.channel for o in found.outliers}
    for channel in struck & set(sizes):
        series = [(c.deviation, [o.time for o in found.outliers if (o.run, o.channel) == (c.run, channel)]) for c in found.fit if c.channel == channel]
        times = [c.times for c in found.fit if c.channel == channel]
        kept = np.concatenate([d[~np.isin(t, off)] for (d, off), t in zip(series, times, strict=True)])
        if len(kept) > (1.0 - STRAY) * sum(len(t) for t in times):
            sizes[channel] = float(np.sqrt(np.mean(kept**2)))
    return sizes


def mistaken(found: Saved) -> str:
    """What is probably wrong with the files, for the headline: the first, and what these data cannot tell from it."""
    return "".join(f" {'Or: ' if k else ''}{m.sentence}" for k, m in enumerate(found.mistakes[:2]))


def _mistakes(found: Saved) -> Iterator[Item]:
    """What was tried on the files."""
    question = "Is something wrong in the files?"
    if found.mistakes:
        first = found.mistakes[0]
        fell = f"from {plain(first.before, 3)} " if first.before is not None else ""
        sentence = (
            f"Probably. {first.sentence} With that undone, the residuals of a piece of the recording fall {fell}to {plain(first.after, 3)} times the noise."
        )
        others = tuple(f"These data cannot tell it from: {m.sentence}" for m in found.mistakes[1:] if not m.times)
        others += tuple(m.sentence for m in found.mistakes[1:] if m.times)
        yield Item(question, BAD, sentence, (*others, *_exchanges(found)))


def _exchanges(found: Saved) -> Iterator[str]:
    """Lines for the experiment file that undo what can be undone there: markers that have each other's name in some frames, whose times a microsecond tells apart."""
    swaps = [Exchange(*m.subjects, tuple(round(t, 6) for t in m.times)) for m in found.mistakes if m.times and len(m.subjects) == 2]
    alone = len(found.document["data_sha256"]) == 1
    for together in [swaps] if alone and swaps else [[s] for s in swaps]:
        yield f"In the experiment file, under [[run]]: exchange = {value_text(together)}"


def _suspicion(found: Saved) -> str:
    """What to try first, for the headline."""
    if found.mistakes:
        return mistaken(found)
    return f" First suspect: {_first(found).words}." if found.lacks else ""


def _moving(found: Saved) -> list[Suspect]:
    """Suspects that would move an estimate by more than it scatters, the strongest first."""
    return [s for s in found.lacks if s.moves > WRONG]


def _first(found: Saved) -> Suspect:
    """The strongest of those that matter: counts of an encoder are beyond doubt, and move nothing."""
    return (_moving(found) or found.lacks)[0]


def _converged(found: Saved) -> Item:
    if found.converged and found.mesh is not None:
        mesh = f" on a mesh of {plain(1e3 * found.mesh.h, 3)} ms" + (f", refined {counted(found.mesh.refinements, 'time')}" if found.mesh.refinements else "")
        return Item("Did it converge?", GOOD, f"Yes, after {counted(found.iterations, 'iteration')}{mesh if found.mesh.h else ''}.")
    return Item("Did it converge?", BAD, f"No: {found.status}")


def _possible(found: Saved) -> Iterator[Item]:
    impossible = [n for n in found.notes if n.startswith(IMPOSSIBLE)]
    if impossible:
        sentence = "No: together, the estimates belong to no mechanism. Something else was taken for an inertia; fix what is known, or give bounds."
        yield Item("Are the numbers possible?", BAD, sentence, tuple(impossible))
    elif pushing := [n for n in found.notes if n.startswith(PUSHING)]:
        yield Item("Are the numbers possible?", BAD, "No: a damping that drives is none. Look for what was taken for it.", tuple(pushing))


def _slow(found: Saved) -> Iterator[Item]:
    question = "Are the unmodelled forces noise?"
    tests = found.force_tests
    details = tuple(
        f"joint.{j}: chi² of slow forces {plain(t.chi2, 3)} for {counted(t.dof, 'degree')} of freedom (probability {plain(t.probability, 2)})."
        for j, t in tests.items()
    )
    if slow := [f"joint.{joint}" for joint, test in tests.items() if test.slow]:
        sentence = f"No, not at {listed(slow)}: a constant or slow force is missing. The error bars allow for its scatter, not for the bias it causes."
        yield Item(question, MIND, sentence, details)
    elif tests:
        yield Item(question, GOOD, "Yes: nothing slow is left in them.", details)


def _decided(found: Saved) -> Iterator[Item]:
    """Whether a fit without unmodelled forces says the same."""
    if found.without_forces is None or not found.without_forces.apart:
        return
    question, (name, apart) = "Do the estimates depend on unmodelled forces?", found.without_forces.largest
    notes = tuple(n for n in found.notes if n.startswith(FORCES_DECIDE))
    if notes:
        yield Item(
            question,
            MIND,
            f"Yes: without them {name} is {plain(abs(apart), 2)} standard deviations of the difference away, for which the error bars allow. Look for what is missing, or excite the motion otherwise.",
            notes,
        )
    else:
        yield Item(
            question,
            GOOD,
            f"Not by more than their error bars: without them {name} moves most, by {plain(abs(apart), 2)} standard deviations of the difference.",
        )


def _weighed(found: Saved) -> Iterator[Item]:
    """Whether inertias hang on what unknown drives are taken to be."""
    if notes := tuple(n for n in found.notes if n.startswith(WEIGHED)):
        yield Item("Do inertias hang on unknown drives?", MIND, "Yes: their error bars are right only if those forces are as random as was said.", notes)


def _impacts(found: Saved) -> Iterator[Item]:
    """Whether the sequence of impacts explains the data."""
    count, question = len(found.document.get("events") or []), "Are the impacts the right ones?"
    doubts = tuple(n for n in found.notes if n.startswith(IMPACTS_DOUBTED))
    if doubts:
        yield Item(question, BAD, "No, or others explain the data as well: do not use what depends on them.", doubts)
    elif count:
        yield Item(question, GOOD, f"{counted(count, 'impact')} {'explains' if count == 1 else 'explain'} the data, as far as chi2 can say.")


def _explanations(found: Saved) -> Iterator[Item]:
    """Where a posterior was drawn: whether these are the numbers of its only explanation."""
    d = found.posterior
    if d is None or d["refused"] or d["status"] != "converged":
        return
    question, modes = "Is there more than one explanation?", d["modes"]
    if len(modes) == 1:
        yield Item(question, GOOD, "None was found.")
        return
    own = next((m["mass"] for m in modes if m["found_by"] == "fit"), 0.0)
    details = tuple(f"{percent(m['mass'])}: " + ", ".join(f"{name} = {plain(x, 5)}" for name, x in m["values"].items()) for m in modes)
    sentence = f"Yes: {len(modes)} describe the data; the numbers below are of one that has {percent(own)} of the probability."
    yield Item(question, BAD if own < UNLIKELIER else MIND, sentence, details)


def _answered(found: Saved) -> Iterator[Item]:
    """Drives that were said to be unknown."""
    if found.unknown_drives:
        sizes = dict.fromkeys((f.sd, f.correlation_time) for j, f in found.slow_forces.items() if j in found.unknown_drives)
        taken = listed([f"{plain(sd, 3)} with a memory of {plain(memory, 2)} s" for sd, memory in sizes])
        sentence = f"At {counted(len(found.unknown_drives), 'joint')}, with bands, in the section on moments. They were taken for random, of a standard deviation of {taken}: bands are as good as these."
        yield Item("Are moments found that nobody measured?", GOOD, sentence)


def _lacking(found: Saved) -> Iterator[Item]:
    question = "What does the model lack?"
    if found.lacks:
        wrong, first = _moving(found), _first(found)
        said = f"{first.sentence[0].upper()}{first.sentence[1:]} {'The error bars allow for that, the values do not. ' if wrong else ''}{first.advice}"
        yield Item(question, BAD if wrong else MIND, said, tuple(s.sentence for s in found.lacks if s is not first)[:5])
    white = {joint: sd for joint, sd in found.process_noise.items() if sd > 0.0}
    forces = [j for j in dict.fromkeys([*white, *found.slow_forces]) if j not in found.unknown_drives]
    if forces:
        sizes = tuple(f"joint.{joint}: {plain(sd, 2)} (standard deviation, if drawn anew every sampling period)." for joint, sd in white.items())
        sizes += tuple(
            f"joint.{joint}: {plain(f.sd, 2)} (standard deviation) with a memory of {plain(f.correlation_time, 2)} s."
            for joint, f in found.slow_forces.items()
            if joint in forces
        )
        sizes += tuple(
            f"Those of joint.{t.joints[0]} and joint.{t.joints[1]} go together: correlation {t.correlation:.2f}." for t in found.forces_together if t.common
        )
        sentence = f"Forces that the model has no place for were estimated with the motion, at {listed([f'joint.{j}' for j in forces])}."
        yield Item("How large is what it lacks?" if found.lacks else question, GOOD, sentence, sizes)


def _determined(found: Saved) -> Iterator[Item]:
    question = "What do the data determine?"
    parameters = found.parameters
    bound = [n for n, e in parameters.items() if e.at_bound]
    open_ = [n for n, e in parameters.items() if e.sd is None and not e.at_bound]
    known = {n: e.sd / max(abs(e.value), 1e-300) for n, e in parameters.items() if e.sd is not None}
    if open_:
        details = [*found.unresolved, *(f"Determined all the same: {d.expression} = {plain(d.value, 5)} ± {plain(d.sd, 2)}." for d in found.determined)]
        sentence = f"{counted(len(open_), 'parameter')} of {len(parameters)} cannot be told from these data: {listed(open_)}. {'Its value alone means' if len(open_) == 1 else 'Their single values mean'} nothing."
        yield Item(question, MIND, sentence, tuple(details))
    elif known:
        worst, vague = max(known, key=lambda n: known[n]), [n for n in known if known[n] > VAGUE and (parameters[n].lower >= 0.0 or n.endswith(SIZES))]
        sentence = f"All {len(known)}: " if len(known) > 1 else ""
        sentence += f"the least certain is {worst} (standard deviation {percent(known[worst])} of its value)." if known[worst] < 10 else "see the table."
        if vague:  # of what has no sign, zero is where it is not there at all
            sentence = f"Hardly {listed(vague)}: {'its' if len(vague) == 1 else 'their'} standard deviation is up to {percent(max(known[n] for n in vague))} of the value. Excite it more, or fix it."
        yield Item(question, MIND if vague else GOOD, sentence)
    if bound:
        limited = tuple(f"{n}: {parameters[n].bounded.replace('<=', '≤').replace('>=', '≥')}." for n in bound if parameters[n].limit is not None)
        but = "; what remains is a one-sided limit" if limited else ""
        yield Item(
            "Is something at its limit?", MIND, f"{listed(bound)} ended at a bound and {'has' if len(bound) == 1 else 'have'} no error bar{but}.", limited
        )


def _residuals(found: Saved) -> Iterator[Item]:
    fit = found.document["fit"]
    if not fit:
        return
    given = bool(found.document["noise"]["given"])
    bulk = _sizes(found)
    large = [c for c, size in bulk.items() if given and size > LARGE]
    posed = found.mesh is not None and not found.mesh.h  # every pose has coordinates of its own, which take up most of the noise of some channels
    small = [c for c, f in fit.items() if given and not posed and f["rms_over_sd"] is not None and f["rms_over_sd"] < SMALL]
    smoothed = bool(found.slow_forces) or any(sd > 0.0 for sd in found.process_noise.values())  # such residuals are small and have a memory by themselves
    lacking = {s.path for s in found.lacks}
    coloured = [c for c, f in fit.items() if f"{c}.noise" in lacking or (not smoothed and f["whiteness"] is not None and f["whiteness"] < NOT_WHITE)]
    question = "Do the residuals look like noise?"
    sizes = tuple(f"{c}: rms {plain(f['rms'], 3)} {f.get('unit', '')}, {plain(f['rms_over_sd'], 3)} times its noise." for c, f in fit.items())
    if large:
        worst = max(bulk[c] for c in large)
        sentence = f"No: those of {listed(large)} are up to {plain(worst, 3)} times the stated noise. The error bars were inflated; look for something the model lacks."
        yield Item(question, BAD if worst > 3 else MIND, sentence, sizes)
    elif smoothed and not coloured:
        yield Item(question, GOOD, "They need not: the unmodelled forces take up what the model lacks. None is larger than its noise.", sizes)
    elif coloured:
        sentence = f"Not quite: those of {listed(coloured)} have a memory, so the noise has one or the model lacks something. The error bars allow for the memory, not for what a missing term would move."
        yield Item(question, MIND, sentence, sizes)
    elif small:
        yield Item(question, MIND, f"They are smaller than the stated noise ({listed(small)}); the error bars may be too large.", sizes)
    else:
        size = "that was stated" if given else "that the fit found"
        remembers = any(NOT_QUITE_WHITE in note for note in found.notes)  # a trace that moves error bars, not one that speaks against the model
        yield Item(
            question,
            GOOD,
            f"Yes: of the size {size}, with a trace of a memory that the error bars allow for." if remembers else f"Yes: white, and of the size {size}.",
            sizes,
        )


def _missed(found: Saved) -> Iterator[Item]:
    """Where a fit that did not converge is far from the data: a hint, no judgement of the model."""
    ratios = {c: f["rms_over_sd"] for c, f in found.document["fit"].items() if f["rms_over_sd"] is not None and f["rms_over_sd"] > LARGE}
    if ratios and found.document["noise"]["given"]:
        worst = max(ratios, key=lambda c: ratios[c])
        sentence = f"Not where the fit stopped: {worst} is missed by {plain(ratios[worst], 3)} times its noise. Look there for a wrong unit, sign or start."
        yield Item("Does it describe the data?", BAD, sentence)


def _plates(found: Saved) -> Iterator[Item]:
    """Whether what plates and noisy drives were off by is what was stated."""
    off = {(run, name): d["largest"] for run, each in (found.document.get("deviations") or {}).items() for name, d in each.items()}
    if not off:
        return
    question, worst = "Do measured forces and motion agree?", max(off, key=lambda k: off[k])
    several = len({run for run, _ in off}) > 1
    details = tuple(f"{f'{run}: ' if several else ''}{name}: off by at most {plain(x, 3)} of its sd." for (run, name), x in off.items())
    said = f"{worst[1]}{f' of {worst[0]}' if several else ''} is off by {plain(off[worst], 3)} of its stated standard deviations"
    if off[worst] <= OFF:
        yield Item(question, GOOD, f"Yes: {said} at most.", details)
    else:
        sentence = f"No: {said}. Look at the body that it is under, at its origin and axes, at the markers' noise (soft tissue moves alike for many frames) and at the masses."
        yield Item(question, BAD if off[worst] > FAR_OFF else MIND, sentence, details)


def _root(found: Saved) -> Iterator[Item]:
    """What was left over at the root, where that was asked for."""
    left = found.document.get("root") or {}
    if left:
        sizes = [f"{run}: {', '.join(f'{joint} {plain(x, 3)}' for joint, x in each.items())} (rms, N and N m)." for run, each in left.items()]
        yield Item(
            "What is left at the root?", GOOD, sizes[0] if len(sizes) == 1 else f"Of {counted(len(sizes), 'run')}, see the details.", tuple(sizes[1:] and sizes)
        )


def _runs(found: Saved) -> Iterator[Item]:
    agreed = found.runs_agree
    if agreed is not None:
        chi2 = f"chi² between them {plain(agreed.chi2, 3)} for {counted(agreed.dof, 'degree')} of freedom"
        if agreed.agree:
            yield Item("Do the runs agree?", GOOD, f"Yes ({chi2}).")
        else:
            yield Item("Do the runs agree?", MIND, f"No ({chi2}). The error bars were inflated by the scatter between runs.")


def _prediction(found: Saved) -> Iterator[Item]:
    predictions = found.document["predictions"]
    ratios, details = [], []
    for run, p in predictions.items():
        if p["incomplete"]:
            details.append(f"{run}: the simulation ended early: {p['incomplete']}")
        for channel, c in p["channels"].items():
            noise = found.document["fit"].get(channel, {}).get("runs", {}).get(run, {}).get("sd") or 0.0
            if c["rms"] is not None and c["rms_of_signal"] and c["rms_of_signal"] > STILL * noise:  # of what stands still, the noise is all there is
                ratios.append(c["rms"] / c["rms_of_signal"])
                details.append(f"{run}, {channel}: rms {plain(c['rms'], 3)}, {percent(ratios[-1])} of the motion's.")
    if not ratios or not math.isfinite(max(ratios)):
        return
    question, worst = "How far off is a free prediction?", max(ratios)
    if (astray := _astray(found)) is not None:
        yield Item(question, *astray, tuple(details))
        return
    how = "Started from the first tenth of a run and then left to itself, the model departs from the measurement by"
    if worst < CLOSE:
        yield Item(question, GOOD, f"{how} at most {percent(worst)} of the motion (rms).", tuple(details))
    elif worst < FAR:
        yield Item(question, GOOD, f"{how} up to {percent(worst)} of the motion (rms).", tuple(details))
    else:
        sentence = f"{how} up to {percent(worst)} of the motion (rms). In a motion that amplifies small differences this is to be expected; otherwise the model lacks something."
        yield Item(question, MIND, sentence, tuple(details))


def _astray(found: Saved) -> tuple[str, str] | None:
    """A prediction that departs by more than the motion itself says nothing about the model, where the torques say that it is right."""
    ends = {run: p["until"] for run, p in found.document["predictions"].items() if p.get("until") is not None}
    if not ends:
        return None
    run = min(ends, key=lambda r: ends[r])
    errors = [t["relative_error"] for joints in found.document.get("torques", {}).values() for t in joints.values() if t["relative_error"] is not None]
    said = f"It goes astray: left to itself, the model departs from {run} by more than the motion itself from {plain(ends[run], 3)} s on, and is not shown after that."
    if errors and max(errors) < AGREED:
        return (
            GOOD,
            f"{said} The forces that drove it agree with the model to {percent(max(errors))}, so that is no fault of the model: a controller kept the machine on its way, or small differences grow.",
        )
    return (
        MIND,
        f"{said} Where small differences grow, or a controller that is not in the model kept the machine on its way, this is to be expected; otherwise the model lacks something.",
    )


def _validation(found: Saved) -> Iterator[Item]:
    given = found.document.get("validation")
    if not given:
        return
    question, runs = "Does it predict what it has not seen?", given["runs"]
    failed = tuple(f'The run "{run}" could not be predicted: {why}' for run, why in given["failed"].items())
    if not runs:
        yield Item(question, MIND, "That could not be judged.", failed)
        return
    worst = max(runs, key=lambda run: runs[run]["rms_over_band"] or 0.0)
    off, noise, inside = runs[worst]["rms_over_band"] or 0.0, max(r["rms_over_sd"] or 0.0 for r in runs.values()), percent(given["inside"])
    limit = NormalDist().inv_cdf(1.0 - 0.5 * UNLIKELY / len(runs))
    said = (
        f"{run}: for {plain(r['seconds'], 3)} s to {plain(r['rms_over_sd'], 3)} times the noise, {percent(r['inside'])} of the samples inside the 95 % band."
        for run, r in runs.items()
    )
    details = (*said, *failed)
    how = "The second half, from a fit of the first:" if given["halves"] else "Each run, from a fit of the others and its own beginning:"
    to = f"predicted to {plain(noise, 3)} times the noise{' at worst' if len(runs) > 1 else ''}, {inside} of the samples inside the 95 % band"
    if off <= limit:
        yield Item(question, MIND if failed else GOOD, f"{'Yes, as far as it could be judged' if failed else 'Yes'}. {how} {to}.", details)
    else:
        where = "" if given["halves"] else f" (run {worst})"
        sentence = f"No. {how} {to}; the errors are {plain(off, 2)} times what the error bars allow{where}. The model lacks something that these data show, or something changed in between."
        yield Item(question, BAD if off > RIGHT * limit else MIND, sentence, details)


def _mesh(found: Saved) -> Iterator[Item]:
    ratios = {n: e.discretisation_error / e.sd for n, e in found.parameters.items() if e.sd and e.discretisation_error is not None}
    coarse = [n for n, r in ratios.items() if r > COARSE]
    if coarse:
        yield Item(
            "Is the mesh fine enough?",
            MIND,
            f"Not for {listed(coarse)}: the mesh moves it by more than {COARSE:g} standard deviations; give a smaller method.h.",
        )


def _outliers(found: Saved) -> Iterator[Item]:
    if found.outliers:
        largest = max(found.outliers, key=lambda o: abs(o.deviation))
        sentence = (
            f"{counted(len(found.outliers), 'sample')} {'is' if len(found.outliers) == 1 else 'are'} more than six standard deviations off, the worst in {largest.channel} "
            f"of {largest.run} at {plain(largest.time, 5)} s ({plain(abs(largest.deviation), 2)} sd). With method.robust = true they weigh less."
        )
        yield Item("Are there outliers?", MIND, sentence)
