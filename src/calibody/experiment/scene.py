"""What a replay draws: shapes fixed in bodies, and the pose of every body over time, fitted, measured and predicted.

The measured motion has the measured joint coordinates in place of the fitted ones where there are some; positions of sites and bodies that
were measured are markers. Bodies are drawn by the meshes of their file (thinned), by its shapes, or, without either, as rods from the joint to whatever they carry.
What touches has its places, forces and impulses (`pushes.py`), and the planes that it touches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibody.experiment.decimate import outward, thinned
from calibody.experiment.pushes import pushes
from calibody.formats.meshes import meshes
from calibody.mechanics.kinematics import Geometry, poses
from calibody.mechanics.structure import TREE, Numbers, Structure
from calibody.model import Model
from calibody.model.contact import GROUND
from calibody.model.elements import BALL, FREE, HINGE, SLIDE, WORLD
from calibody.spatial import algebra as al
from calibody.steppers.motion import Motion

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

    from calibody.estimate.predict import Prediction
    from calibody.estimate.result import ChannelFit, Result
    from calibody.recording.recording import Recording

FRAMES_PER_SECOND = 30.0
MOST_FRAMES = 1800
"""Of one run: a minute; longer runs have fewer per second."""
DRAWABLE = ("sphere", "capsule", "cylinder", "box", "ellipsoid")
LEVEL = 0.01
"""Half the tilt of a plane [rad] up to which a level floor of a replay stands for it."""
DOWN = 0.999
"""Cosine of gravity to -z from which it points down."""
ROD = 0.025
"""Radius of the rods that stand for bodies without a shape, relative to the size of the mechanism."""
DIGITS = 5
"""Of positions and quaternions: a hundredth of a millimetre."""

Trajectory = dict[str, list[list[float]]]
"""By body: x, y, z, qw, qx, qy, qz of every frame."""


def scene(result: Result, predictions: Mapping[str, Prediction]) -> dict[str, Any]:
    """Everything a replay needs, ready for JSON."""
    runs: list[dict[str, Any]] = []
    motions = [result.motion(r) for r in range(len(result.recordings))]
    for r, (recording, motion) in enumerate(zip(result.recordings, motions, strict=True)):
        nodes = _nodes(motion)
        channels = [c for c in result.fit if c.run == recording.name]
        run: dict[str, Any] = {"name": recording.name, "time": np.round(motion.time[nodes], 6).tolist(), "fitted": _trajectory(motion, nodes)}
        run["measured"] = _measured(motion, nodes, channels, result, r)
        run["predicted"] = _predicted(predictions.get(recording.name), recording, motion.time[nodes])
        run["markers"] = _markers(motion.time[nodes], channels)
        runs.append(run)
    size = _size(result.model, runs)
    for run, motion in zip(runs, motions, strict=True):
        run["touch"] = vars(pushes(motion, _nodes(motion), size))
    shared: dict[str, Any] = {"ground": ground(result.model), "planes": planes(result.model), "weight": _weight(result.model)}
    turn = upright(result.model)
    if turn is not None:
        runs = [_turned(run, turn) for run in runs]
        shared["axes"] = np.round(turn.as_matrix().T, DIGITS).tolist()
    return {"shapes": _shapes(result.model, size), "runs": runs, **shared}


def upright(model: Model) -> Rotation | None:
    """What turns a world whose gravity points elsewhere than down (OpenSim's along -y), so that people stand in the replay; None where it does point down, and where things touch or stand in the world: these are
    drawn where they are."""
    from scipy.spatial.transform import Rotation

    gravity = np.array(model.world.gravity, dtype=float)
    size = float(np.linalg.norm(gravity))
    if not size or -gravity[2] > DOWN * size or model.contacts or model.limits or any(g.body == WORLD for g in model.geometries):
        return None
    up = -gravity / size
    forwards = np.eye(3)[int(np.argmin(np.abs(up)))]
    forwards = forwards - (forwards @ up) * up
    forwards /= np.linalg.norm(forwards)
    return Rotation.from_matrix(np.array([forwards, np.cross(up, forwards), up]))


def _turned(run: Mapping[str, Any], turn: Rotation) -> dict[str, Any]:
    """A run in a world that is turned."""
    from scipy.spatial.transform import Rotation

    def rows(body: list[list[float]]) -> list[list[float]]:
        poses = np.array(body, dtype=float)
        xyzw = (turn * Rotation.from_quat(poses[:, [4, 5, 6, 3]])).as_quat()
        return np.round(np.concatenate([turn.apply(poses[:, :3]), xyzw[:, [3, 0, 1, 2]]], axis=1), DIGITS).tolist()

    moved = {key: {body: rows(trajectory) for body, trajectory in run[key].items()} for key in ("fitted", "measured", "predicted") if run[key]}
    markers = {path: np.round(turn.apply(np.array(points)), DIGITS).tolist() for path, points in run["markers"].items()}
    return {**run, **moved, "markers": markers}


def ground(model: Model) -> float | None:
    """The height of the level plane that something touches, the ground or a plane of the world: there the replay has its floor; None where there is none (then it is below all that moves,
    or where the least tilted of `planes` is)."""
    return max((p["position"][2] for p in _touched_planes(model) if _is_level(p)), default=None)


def planes(model: Model) -> list[dict[str, Any]]:
    """The planes that something touches and that are not level ones of the world: body, position, orientation and half sizes (0: as far as one sees)."""
    return [p for p in _touched_planes(model) if not _is_level(p)]


def _is_level(plane: Mapping[str, Any]) -> bool:
    return plane["body"] == WORLD and abs(plane["orientation"][1]) + abs(plane["orientation"][2]) < LEVEL


def _touched_planes(model: Model) -> list[dict[str, Any]]:
    shapes, out = {g.name: g for g in model.geometries}, []
    for name in sorted({side for c in model.contacts for side in (c.a, c.b)}):
        g = shapes.get(name)
        if g is None and name == GROUND:
            tilt = al.quaternion_exp((*model.world.ground_tilt, 0.0))
            out.append({"body": WORLD, "position": [0.0, 0.0, model.world.ground_height], "orientation": [float(x) for x in tilt], "size": [0.0, 0.0]})
        elif g is not None and g.kind == "plane":
            out.append({"body": g.body, "position": list(g.position), "orientation": list(g.orientation), "size": [*g.size, 0.0, 0.0][:2]})
    return out


def _weight(model: Model) -> float:
    """What all bodies weigh together [N], which the lengths of arrows of forces are relative to."""
    return float(sum(b.mass for b in model.bodies) * np.linalg.norm(model.world.gravity))


def still(model: Model, initial: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The shapes of a model, and the pose of every body where `initial` puts it: x, y, z, qw, qx, qy, qz."""
    from calibody.steppers.start import stiffened, tree_start
    from calibody.steppers.step import size_of_dofs

    tree = Structure.build(stiffened(model), TREE)
    numbers = Numbers.of(tree)
    q = tree_start(tree, numbers, initial or {}, "mass", float(size_of_dofs(tree, numbers).max(initial=1.0))).q
    placed = _rows(tree, poses(tree, Geometry.of(tree, numbers), np.asarray(q)[:, None]))
    return {"shapes": _shapes(model, _size(model, [{"fitted": placed}])), "poses": {body: rows[0] for body, rows in placed.items()}}


# -- motion ------------------------------------------------------------------------------------------------------------------------------


def _nodes(motion: Motion) -> np.ndarray:
    duration = float(motion.time[-1] - motion.time[0])
    count = int(np.clip(round(duration * FRAMES_PER_SECOND), 2, min(MOST_FRAMES, len(motion.time))))
    return np.unique(np.linspace(0, len(motion.time) - 1, count).round().astype(int))


def _trajectory(motion: Motion, nodes: np.ndarray) -> Trajectory:
    return _rows(motion.structure, motion.frames.H[..., nodes])


def _rows(structure: Structure, H: np.ndarray) -> Trajectory:
    from scipy.spatial.transform import Rotation

    out = {}
    for body in structure.model.bodies:
        pose = H[:, :, structure.body_link[body.name]]
        xyzw = Rotation.from_matrix(pose[:, :3].transpose(2, 0, 1)).as_quat()
        out[body.name] = np.round(np.concatenate([pose[:, 3].T, xyzw[:, [3, 0, 1, 2]]], axis=1), DIGITS).tolist()
    return out


def _measured(motion: Motion, nodes: np.ndarray, channels: list[ChannelFit], result: Result, run: int) -> Trajectory | None:
    """The same nodes with measured joint coordinates, or None if none was measured."""
    model = motion.model
    tree = Structure.build(model.replace({f"joint.{j.name}.compliance": 0.0 for j in model.joints if j.compliance}, check=False), TREE, engine=True)
    q, found = _tree_coordinates(motion, tree, nodes), False
    sensors = result.problem.model_of(run, result.theta)[2]
    for c in channels:
        kind, name, quantity = (*c.channel.split("."), "")[:3]
        if kind != "joint" or quantity not in ("angle", "position") or model.joint(name).kind not in (HINGE, SLIDE):
            continue
        values = (c.measured - sensors.get((c.channel, "bias"), 0.0)) / sensors.get((c.channel, "gain"), 1.0)
        unit = next(i for i, u in enumerate(tree.units) if u.joint is not None and u.joint.name == name)
        q[tree.q_start[unit]] = np.interp(motion.time[nodes], c.times - sensors.get((c.channel, "delay"), 0.0), values)
        found = True
    return _rows(tree, poses(tree, Geometry.of(tree, Numbers.of(tree)), q)) if found else None


def _tree_coordinates(motion: Motion, tree: Structure, nodes: np.ndarray) -> np.ndarray:
    if motion.structure.coordinates == TREE:
        return motion.q[:, nodes].copy()
    q = np.zeros((tree.nq, len(nodes)))
    for i, unit in enumerate(tree.units):
        first = int(tree.q_start[i])
        if unit.joint is None:
            continue
        path = f"joint.{unit.joint.name}"
        if unit.kind in (HINGE, SLIDE):
            q[first] = motion[f"{path}.{'angle' if unit.kind == HINGE else 'position'}"][nodes]
        elif unit.kind == BALL:
            q[first : first + 4] = motion[f"{path}.orientation"][nodes].T
        elif unit.kind == FREE:
            q[first : first + 3] = motion[f"{path}.position"][nodes].T
            q[first + 3 : first + 7] = motion[f"{path}.orientation"][nodes].T
    return q


def _predicted(prediction: Prediction | None, recording: Recording, times: np.ndarray) -> Trajectory | None:
    """A prediction that ended early stays where it ended."""
    if prediction is None or prediction.until is not None:  # one that goes astray shows nothing
        return None
    motion = prediction.motion
    nodes = np.clip(np.round((times - recording.start) / motion.h).astype(int), 0, len(motion.time) - 1)
    return _trajectory(motion, nodes)


def _markers(times: np.ndarray, channels: list[ChannelFit]) -> dict[str, list[list[float]]]:
    """Measured positions of sites and bodies of which all three components were measured."""
    parts: dict[str, dict[str, np.ndarray]] = {}
    for c in channels:
        whole, _, last = c.channel.rpartition(".")
        if whole.startswith(("site.", "body.")) and whole.endswith((".position", ".com")):
            parts.setdefault(whole, {})[last] = np.interp(times, c.times, c.measured)
    return {path: np.round(np.stack([p[x] for x in "xyz"], axis=1), DIGITS).tolist() for path, p in parts.items() if len(p) == 3}


# -- shapes ------------------------------------------------------------------------------------------------------------------------------


def _size(model: Model, runs: list[dict[str, Any]]) -> float:
    """The reach of the mechanism [m], from the first frames of its bodies and what they carry."""
    first = np.array([run["fitted"][b.name][0][:3] for run in runs for b in model.bodies])
    reach = [float(np.linalg.norm(p)) for b in model.bodies for p in _carried(model, b.name)]
    return max([float(np.linalg.norm(np.ptp(first, axis=0))) if len(first) else 0.0, *reach, 1e-3])


def _carried(model: Model, body: str) -> list[np.ndarray]:
    """Points in the body's frame: joints of its children, loops and sites."""
    points = [model.joint_position(j) for child in model.bodies if child.parent == body for j in model.joints_of(child.name)[:1]]
    points += [child.position for child in model.bodies if child.parent == body and not model.joints_of(child.name)]
    points += [a for loop in model.loops for b, a in ((loop.body1, loop.anchor1), (loop.body2, loop.anchor2)) if b == body]
    points += [site.position for site in model.sites if site.body == body]
    return [np.array(p, dtype=float) for p in points]


def _shapes(model: Model, size: float) -> list[dict[str, Any]]:
    """Meshes where they are found; shapes of bodies without (beside a mesh they mostly stand for it in collisions); rods for what has neither."""
    shapes = list(_meshes(model))
    covered = {s["body"] for s in shapes}
    for g in model.geometries:
        if g.kind in DRAWABLE and g.body not in covered:
            shape = {"body": g.body, "kind": g.kind, "size": list(g.size), "position": list(g.position), "orientation": list(g.orientation)}
            shapes.append({**shape, "color": list(g.color)})
    drawn = {s["body"] for s in shapes}
    for body in model.bodies:
        if body.name not in drawn:
            shapes += _rods(model, body.name, size)
    return shapes


def _meshes(model: Model) -> Iterator[dict[str, Any]]:
    turned = [outward(mesh) for mesh in meshes(model)]
    for mesh, (_, closed) in zip(thinned([mesh for mesh, _ in turned]), turned, strict=True):
        if len(mesh.faces):
            placed = {"body": mesh.body, "kind": "mesh", "size": [], "position": [0.0, 0.0, 0.0], "orientation": [1.0, 0.0, 0.0, 0.0]}
            yield {**placed, "points": np.round(mesh.vertices, DIGITS).tolist(), "faces": mesh.faces.tolist(), "closed": closed, "color": [*mesh.color, 1.0]}


def _rods(model: Model, name: str, size: float) -> list[dict[str, Any]]:
    body, joints = model.body(name), model.joints_of(name)
    start = np.array(joints[0].anchor if joints else (0.0, 0.0, 0.0), dtype=float)
    com = np.array(body.com, dtype=float)
    ends = _carried(model, name) or [2.0 * com - start]
    rods = [rod for end in ends if (rod := _rod(name, start, end, ROD * size)) is not None]
    ball = {"body": name, "kind": "sphere", "size": [2.0 * ROD * size], "position": com.tolist(), "orientation": [1.0, 0.0, 0.0, 0.0]}
    return [*rods, *([ball] if body.mass > 0.0 else [])]


def _rod(name: str, start: np.ndarray, end: np.ndarray, radius: float) -> dict[str, Any] | None:
    """A capsule between two points of a body; its own axis is z."""
    d = end - start
    length = float(np.linalg.norm(d))
    if length < radius:
        return None
    z = d / length
    half = np.array([1.0 + z[2], -z[1], z[0], 0.0]) if z[2] > -0.999999 else np.array([0.0, 1.0, 0.0, 0.0])
    orientation = (half / np.linalg.norm(half)).tolist()
    return {"body": name, "kind": "capsule", "size": [radius, 0.5 * length], "position": (0.5 * (start + end)).tolist(), "orientation": orientation}
