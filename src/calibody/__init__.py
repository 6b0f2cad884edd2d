"""calibody: recordings of a moving mechanism in, a calibrated model of it out, with error bars one can trust."""

from calibody.errors import CalibodyError as CalibodyError, FormatError as FormatError, ModelError as ModelError, SimulationError as SimulationError
from calibody.model import (
    Actuator as Actuator,
    Body as Body,
    Bushing as Bushing,
    Geometry as Geometry,
    Joint as Joint,
    Loop as Loop,
    Model as Model,
    Parameter as Parameter,
    Sensor as Sensor,
    Site as Site,
    Spring as Spring,
    World as World,
)

__version__ = "0.1.0"
