"""What a loss says about itself before it is made: parameters, costs, what it can learn from. Imports nothing numerical."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from hpcdp._base.messages import explain_each
from hpcdp.losses._own import make_own, refuse_own
from hpcdp.mechanisms.user_code import import_callable

if TYPE_CHECKING:
    from hpcdp.losses._own import OwnLoss
    from hpcdp.losses.protocol import Loss
    from hpcdp.mechanisms.outputs import Schema

STREAMED_BYTES = 1 << 28
"""Training outputs of one database above this are not held in memory, where the loss reads blocks."""

Seconds = tuple[float, float, float]
"""To learn one training point, to count one output, and to learn however few the points; rough."""

_EACH = 5.0e-4


class Parameters(BaseModel):
    """Of a loss: frozen, and nothing that is unknown is accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # each is rarely asked for


class LossKind:
    """A loss by name."""

    parameters: ClassVar[type[BaseModel]]  # their model
    loss: ClassVar[str]  # the class that is made with them, "package.module:Class"
    code: ClassVar[str | None] = None  # the parameter that may name a user's class, "package.module:Class"
    method: ClassVar[str | None] = None  # its own one (`hpcdp.study.combinations`), for which no `Loss` is made
    projects: ClassVar[bool] = False  # whether it brings vectors to a line, on which tallies can refine it
    tells_values: ClassVar[bool] = False  # whether it tells values apart, which tallies can count
    bounds_pure: ClassVar[bool] = False  # whether its method has an interval for pure ε, where no cells by ε are given
    sizes: ClassVar[tuple[int, int] | None] = None  # train and test of a study that names neither; None: the defaults
    joins_sets: ClassVar[bool] = (
        False  # whether sets are chosen by threshold, so that added ones have an L̂ of their own
    )
    otherwise: ClassVar[str | None] = None  # the loss in its place where not all that it needs is there

    def make(self, parameters: Any) -> Loss:
        """The loss with these parameters; its code is loaded here."""
        module, _, name = self.loss.partition(":")
        made: Loss = getattr(import_module(module), name)(parameters)
        return made

    def refuse(self, parameters: Any, schema: Schema, train: int) -> None:
        """Raise ValueError where these parameters cannot learn from `train` outputs per database that look like this."""

    def refuse_outputs(self, parameters: Any, least: float, most: float) -> None:
        """Raise ValueError where real numbers between these, seen in trial draws, are not accepted."""

    def refuse_points(self, parameters: Any, points: int, when: str) -> None:
        """Raise ValueError where so many training points of both sides are too few. when: put after "parameters.NAME: "."""

    def seconds(self, parameters: Any, schema: Schema, train: int, many_valued: int) -> Seconds:
        """Rough costs on one core. many_valued: columns with so many values that they are no classes."""
        columns = schema.columns or 1
        return 1.0e-5 + 1.0e-6 * columns, 1.0e-6 + 1.0e-7 * columns, _EACH  # a guess of anybody's

    def memory(self, parameters: Any, schema: Schema, train: int) -> int:
        """Bytes for what teaches one L̂, and what is kept of it."""
        return 3 * 2 * train * schema.bytes_in_memory

    def votes(self, parameters: Any, train: int) -> int | None:
        """k of a loss that counts the votes of k neighbours among 2·train points, None of others."""
        return None

    def has_published_rate(self, parameters: Any) -> bool:
        """Whether Corollaries 2 to 4 of Lu et al. (2024) are about this loss."""
        return False

    def is_pickled(self, parameters: Any) -> bool:
        """Whether what is learned may be stored as a pickle, whose reading can run code."""
        return False


def refuse_strings(name: str, are_strings: bool) -> None:
    """Raise ValueError where a loss of numbers is asked to learn from strings or sequences."""
    if are_strings:
        raise ValueError(
            f"loss: {name!r} needs outputs that are numbers; these are strings or sequences; accepted: frequency, knn"
        )


def plain_seconds(schema: Schema, many_valued: int) -> Seconds | None:
    """Costs of classes that are found by sorting, searching and hashing; None where a tree of vectors is searched."""
    if schema.kind == "bytes":
        return 1.0e-6, 5.0e-7, _EACH
    if schema.columns is None:
        return 6.0e-8, 1.5e-8, _EACH
    if many_valued <= 1:  # strata, frequencies, or both: no tree is searched
        return 1.0e-6, 4.0e-7, _EACH
    return None


def check_parameters(model: type[BaseModel], name: str, parameters: Mapping[str, Any]) -> BaseModel:
    """The parameters of a loss of this name as its model; ValueError names what is wrong."""
    try:
        return model.model_validate(dict(parameters))
    except ValidationError as error:
        problems = explain_each(error, model, name, parameters)
        raise ValueError("; ".join(f"parameters.{key}: {text}" for key, text in problems.items())) from None


class Anything(BaseModel):
    """Parameters of a user's own loss as a study gives them: its class checks them when it is loaded."""

    model_config = ConfigDict(frozen=True, extra="allow")


class NamedKind(LossKind):
    """A user's class, "package.module:Class", loaded where it is made, with `Parameters` of its own or a dictionary; see docs."""

    parameters = Anything

    def __init__(self, path: str, folder: Path) -> None:
        self.path, self.folder = path, folder

    def make(self, parameters: Any) -> OwnLoss:
        """The loss; StudyError where its class cannot be loaded, ValueError where a parameter is wrong, MechanismError else."""
        made = import_callable(self.path, self.folder, "estimate.loss")
        given: dict[str, Any] = parameters.model_dump()
        model = getattr(made, "Parameters", None)
        if model is not None and not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise ValueError(f"loss: Parameters of {self.path}: a pydantic model; given: {model!r}")
        checked = given if model is None else check_parameters(model, self.path, given)
        return make_own(lambda: made(checked), self.path)

    def refuse(self, parameters: Any, schema: Schema, train: int) -> None:
        """Make it, and ask it."""
        refuse_own(self.make(parameters), schema, train)
