"""Run by a Python with opensim: what OpenSim makes of a model in random poses and motions, as JSON. Arguments: model, outputs, inertias to set (JSON), where to write the model anew as version 4 (or nothing), and coordinates that are to have no speed (JSON)."""

import json
import sys

import numpy as np
import opensim

REACH = 0.5
"""Random coordinates are within this of zero, or within their range where that is small [rad, m]."""
FASTEST, HARDEST = 3.0, 20.0
"""Random speeds and accelerations are within this of zero [rad/s, m/s; rad/s^2, m/s^2]."""


def values_of(model, state, random):
    coordinates = [model.getCoordinateSet().get(i) for i in range(model.getCoordinateSet().getSize())]
    for c in coordinates:
        if not c.getLocked(state):
            low, high = max(c.getRangeMin(), -REACH), min(c.getRangeMax(), REACH)
            c.setValue(state, float(random.uniform(low, high)), False)
    model.assemble(state)
    for c in coordinates:
        c.setSpeedValue(state, 0.0)
    model.realizeVelocity(state)
    return coordinates


def followers(model):
    """Dependent coordinate -> the one it follows, and the slope of the line."""
    out = {}
    for i in range(model.getConstraintSet().getSize()):
        coupler = opensim.CoordinateCouplerConstraint.safeDownCast(model.getConstraintSet().get(i))
        f, scale = coupler.getFunction(), opensim.PropertyHelper.getValueDouble(coupler.getPropertyByName("scale_factor"))
        zero, one, two = (scale * f.calcValue(opensim.Vector(1, x)) for x in (0.0, 1.0, 2.0))
        assert abs(two - 2.0 * one + zero) < 1e-12, "a coupler that is no line"
        out[coupler.getDependentCoordinateName()] = coupler.getIndependentCoordinateNames().get(0), one - zero
    return out


def moving(model, state, random, coordinates, order, still):
    """Random speeds and accelerations, those of followers as they must be, and the forces that these take."""
    ties = followers(model)
    free = [c.getName() for c in coordinates if c.getName() in order and c.getName() not in ties]
    both = [{name: float(random.uniform(-most, most)) for name in free} for most in (FASTEST, HARDEST)]
    both[0].update({name: 0.0 for name in still})
    for values in both:
        values.update({name: slope * values[leader] for name, (leader, slope) in ties.items() if name in order})
    speeds, accelerations = both
    for c in coordinates:
        c.setSpeedValue(state, speeds.get(c.getName(), 0.0))
    model.realizeVelocity(state)
    udot = opensim.Vector(state.getU().size(), 0.0)
    for name, value in accelerations.items():
        udot.set(order[name], value)
    needed = opensim.InverseDynamicsSolver(model).solve(state, udot)
    return {"v": speeds, "a": accelerations, "in_motion": [needed.get(i) for i in range(needed.size())]}


def pose(model, state, random, still):
    coordinates = values_of(model, state, random)
    order = {}
    for c in coordinates:
        if not c.getLocked(state):
            for other in coordinates:
                other.setSpeedValue(state, 0.0)
            c.setSpeedValue(state, 1.0)
            u = state.getU()
            order[c.getName()] = next(i for i in range(u.size()) if u.get(i) > 0.5)
    for c in coordinates:
        c.setSpeedValue(state, 0.0)
    model.realizeVelocity(state)
    M = opensim.Matrix()
    model.getMatterSubsystem().calcM(state, M)
    gravity = opensim.InverseDynamicsSolver(model).solve(state)
    markers = [model.getMarkerSet().get(i) for i in range(model.getMarkerSet().getSize())]
    return {
        "q": {c.getName(): c.getValue(state) for c in coordinates},
        "order": order,
        "M": [[M.get(i, j) for j in range(M.ncol())] for i in range(M.nrow())],
        "at_rest": [gravity.get(i) for i in range(gravity.size())],
        "markers": {m.getName(): [m.getLocationInGround(state).get(i) for i in range(3)] for m in markers},
        **moving(model, state, random, coordinates, order, still),
    }


def main(path, out, inertias, anew, still):
    opensim.Logger.setLevelString("Off")
    model = opensim.Model(path)
    if anew:
        model.finalizeConnections()
        model.printToXML(anew)
        model = opensim.Model(anew)
    for name, six in json.loads(inertias).items():
        model.updBodySet().get(name).setInertia(opensim.Inertia(*six))
    muscles = model.updForceSet()
    for i in range(muscles.getSize()):
        muscles.get(i).set_appliesForce(False)
    state, random = model.initSystem(), np.random.default_rng(5)
    with open(out, "w") as file:
        json.dump([pose(model, state, random, json.loads(still)) for _ in range(3)], file)


if __name__ == "__main__":
    main(*sys.argv[1:6])
