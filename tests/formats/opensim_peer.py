"""Run by a Python with opensim: what OpenSim makes of a model in random poses, as JSON. Arguments: model, outputs, inertias to set (JSON), and whether to write the model anew as version 4."""

import json
import sys

import numpy as np
import opensim

REACH = 0.5
"""Random coordinates are within this of zero, or within their range where that is small [rad, m]."""


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


def pose(model, state, random):
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
    }


def main(path, out, inertias, anew):
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
        json.dump([pose(model, state, random) for _ in range(3)], file)


if __name__ == "__main__":
    main(*sys.argv[1:5])
