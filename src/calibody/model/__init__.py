"""The immutable description of a mechanism, and the paths to its numbers."""

from calibody.model.contact import Contact as Contact, Limit as Limit
from calibody.model.elements import (
    Actuator as Actuator,
    Body as Body,
    Bushing as Bushing,
    Geometry as Geometry,
    Joint as Joint,
    Loop as Loop,
    Sensor as Sensor,
    Site as Site,
    Spring as Spring,
    Transmission as Transmission,
    World as World,
    along as along,
)
from calibody.model.model import Model as Model
from calibody.model.path import Muscle as Muscle, Path as Path, Pulley as Pulley, Wrap as Wrap
from calibody.model.paths import Parameter as Parameter
