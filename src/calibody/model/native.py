"""Numbers that MuJoCo's engine has and calibody's own mechanics has not: softness and friction of contacts, tendons, muscles, general actuators, the medium.

A model that was read for that engine, `cb.load(file, engine="mujoco")`, has them in the table `mujoco`: `mujoco.geom.ball.solref.timeconst`, `mujoco.muscle.biceps.force`. An element is called after its MuJoCo kind and its
name, its fields are MuJoCo's attributes, in MuJoCo's units. Each class says which arrays of the engine's model hold its fields (`ARRAYS`: field -> arrays and their first column); that is all that the
stepper needs to write them and the format to read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from calibody.model.elements import FORCE, SCALAR, Number, _coerce

MUJOCO = "mujoco"
SOLREF = ("timeconst", "dampratio")
SOLIMP = ("dmin", "dmax", "width", "midpoint", "power")
TEN = tuple(f"p{i}" for i in range(10))


def _number(components: tuple[str, ...] = SCALAR, unit: str = "", signed: bool = True) -> Number:
    return Number(components, unit, FORCE, signed)


@dataclass(frozen=True)
class Native:
    """An element of the engine; `name` is its kind in MuJoCo and its name there, "geom.ball"."""

    KIND: ClassVar[str] = MUJOCO
    OBJECT: ClassVar[str] = ""
    """Its kind in MuJoCo, which the name begins with."""
    NUMBERS: ClassVar[Mapping[str, Number]] = {}
    ARRAYS: ClassVar[Mapping[str, tuple[tuple[str, int], ...]]] = {}
    """Field -> (array of the engine's model, first column) of every place that holds it."""

    name: str

    def __post_init__(self) -> None:
        _coerce(self)

    @property
    def own_name(self) -> str:
        """Its name in MuJoCo."""
        return self.name.partition(".")[2]

    @property
    def control(self) -> bool:
        """Whether it has a control that can be driven."""
        return False

    @property
    def activated(self) -> bool:
        """Whether an activation stands between its control and its force."""
        return False


@dataclass(frozen=True)
class NativeGeom(Native):
    OBJECT: ClassVar[str] = "geom"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "friction": _number(("slide", "spin", "roll"), signed=False),
        "solref": _number(SOLREF),
        "solimp": _number(SOLIMP, signed=False),
        "margin": _number(unit="m"),
        "gap": _number(unit="m"),
    }
    ARRAYS: ClassVar[Mapping[str, tuple[tuple[str, int], ...]]] = {f: ((f"geom_{f}", 0),) for f in NUMBERS}

    friction: Any = (1.0, 0.005, 0.0001)
    solref: Any = (0.02, 1.0)
    solimp: Any = (0.9, 0.95, 0.001, 0.5, 2.0)
    margin: float = 0.0
    gap: float = 0.0


@dataclass(frozen=True)
class NativeJoint(Native):
    """Softness of a joint's dry friction and of its limits."""

    OBJECT: ClassVar[str] = "joint"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "solreffriction": _number(SOLREF),
        "solimpfriction": _number(SOLIMP, signed=False),
        "solreflimit": _number(SOLREF),
        "solimplimit": _number(SOLIMP, signed=False),
    }
    ARRAYS: ClassVar[Mapping[str, tuple[tuple[str, int], ...]]] = {
        "solreffriction": (("dof_solref", 0),),
        "solimpfriction": (("dof_solimp", 0),),
        "solreflimit": (("jnt_solref", 0),),
        "solimplimit": (("jnt_solimp", 0),),
    }

    solreffriction: Any = (0.02, 1.0)
    solimpfriction: Any = (0.9, 0.95, 0.001, 0.5, 2.0)
    solreflimit: Any = (0.02, 1.0)
    solimplimit: Any = (0.9, 0.95, 0.001, 0.5, 2.0)


@dataclass(frozen=True)
class NativeTendon(Native):
    OBJECT: ClassVar[str] = "tendon"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "stiffness": _number(unit="N/m", signed=False),
        "damping": _number(unit="N s/m", signed=False),
        "frictionloss": _number(unit="N", signed=False),
        "armature": _number(unit="kg", signed=False),
        "springlength": _number(("low", "high"), "m"),
    }
    ARRAYS: ClassVar[Mapping[str, tuple[tuple[str, int], ...]]] = {
        **{f: ((f"tendon_{f}", 0),) for f in ("stiffness", "damping", "frictionloss", "armature")},
        "springlength": (("tendon_lengthspring", 0),),
    }

    stiffness: float = 0.0
    damping: float = 0.0
    frictionloss: float = 0.0
    armature: float = 0.0
    springlength: Any = (0.0, 0.0)


@dataclass(frozen=True)
class NativeMuscle(Native):
    """MuJoCo's muscle; its fields are the attributes of `<muscle>`."""

    OBJECT: ClassVar[str] = "muscle"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "timeconst": _number(("act", "deact"), "s", signed=False),
        "range": _number(("low", "high")),
        **{f: _number(unit=u) for f, u in (("force", "N"), ("scale", "N"), ("lmin", ""), ("lmax", ""), ("vmax", ""), ("fpmax", ""), ("fvmax", ""))},
    }
    ARRAYS: ClassVar[Mapping[str, tuple[tuple[str, int], ...]]] = {
        "timeconst": (("actuator_dynprm", 0),),
        "range": (("actuator_gainprm", 0), ("actuator_biasprm", 0)),
        **{f: (("actuator_gainprm", i), ("actuator_biasprm", i)) for i, f in enumerate(("force", "scale", "lmin", "lmax", "vmax", "fpmax", "fvmax"), start=2)},
    }

    timeconst: Any = (0.01, 0.04)
    range: Any = (0.75, 1.05)
    force: float = -1.0
    scale: float = 200.0
    lmin: float = 0.5
    lmax: float = 1.6
    vmax: float = 1.5
    fpmax: float = 1.3
    fvmax: float = 1.2

    @property
    def control(self) -> bool:
        return True

    @property
    def activated(self) -> bool:
        return True


@dataclass(frozen=True)
class NativeActuator(Native):
    """An actuator that calibody's own has no place for: its parameters as `<general>` has them."""

    OBJECT: ClassVar[str] = "actuator"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "gear": _number(tuple(f"g{i}" for i in range(6))), "gainprm": _number(TEN), "biasprm": _number(TEN), "dynprm": _number(TEN)
    }  # fmt: skip
    ARRAYS: ClassVar[Mapping[str, tuple[tuple[str, int], ...]]] = {f: ((f"actuator_{f}", 0),) for f in NUMBERS}

    gear: Any = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    gainprm: Any = (1.0, *(0.0,) * 9)
    biasprm: Any = (0.0,) * 10
    dynprm: Any = (1.0, *(0.0,) * 9)
    filtered: bool = False

    @property
    def control(self) -> bool:
        return True

    @property
    def activated(self) -> bool:
        return self.filtered


@dataclass(frozen=True)
class NativeOption(Native):
    """The medium: `mujoco.option.world.viscosity`."""

    OBJECT: ClassVar[str] = "option"
    NUMBERS: ClassVar[Mapping[str, Number]] = {
        "density": _number(unit="kg/m^3", signed=False), "viscosity": _number(unit="kg/(m s)", signed=False), "impratio": _number(signed=False)
    }  # fmt: skip
    ARRAYS: ClassVar[Mapping[str, tuple[tuple[str, int], ...]]] = {f: ((f"opt.{f}", 0),) for f in NUMBERS}

    density: float = 0.0
    viscosity: float = 0.0
    impratio: float = 1.0


@dataclass(frozen=True)
class NativeSensor(Native):
    """A sensor of the file, whose readings can be observed: the channel `mujoco.sensor.NAME`, with components 0, 1, ... if it has several."""

    OBJECT: ClassVar[str] = "sensor"
    size: int = 1


NATIVES: tuple[type[Native], ...] = (NativeGeom, NativeJoint, NativeTendon, NativeMuscle, NativeActuator, NativeOption, NativeSensor)
