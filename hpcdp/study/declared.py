"""What a study declares that D′ cannot output: a predicate of its own, and the error where an output refutes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.raised import describe_raised, interruptions
from hpcdp.errors import MechanismError
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.mechanisms.user_code import import_callable

KEY = "mechanism.impossible"
_FEW = 3  # outputs that show whether the predicate takes many at once
_ACCEPTED = "predicate(outputs) -> (size,) bool, or predicate(output) -> bool"


class RefutedError(MechanismError):
    """Outputs refute what the study declares."""


@dataclass(frozen=True)
class Declared:
    """A set of outputs that D′ cannot enter, as the study declares: "module:predicate", and the predicate."""

    name: str
    predicate: Callable[[Any], Any]

    @classmethod
    def of(cls, name: str | None, folder: Path) -> Declared | None:
        """The declaration of a study; StudyError where the predicate cannot be imported."""
        return None if name is None else cls(name, import_callable(name, folder, KEY))

    def holds(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Which outputs, (n,) or (n, d), are in the set, (n,) bool; MechanismError where the predicate does not say."""
        given = outputs.view()
        given.flags.writeable = False  # they are counted afterwards
        size = given.shape[0]
        if self._takes_many(given):
            answers = np.asarray(self._ask(given))
            if answers.dtype != np.bool_ or answers.shape != (size,):
                raise self._wrong(f"an array {answers.shape} of {answers.dtype} for {size:,} outputs")
            return answers
        return np.fromiter((self._one(given[i]) for i in range(size)), np.bool_, size)

    def refuse(self, outputs: Outputs, where: str) -> None:
        """RefutedError where an output of D′ is in the set. where: which outputs, in words."""
        count = int(self.holds(outputs).sum())
        if count:
            raise RefutedError(
                f"{KEY}: says that no output of D′ satisfies {self.name}, which {count:,} of {outputs.shape[0]:,} of them did, "
                f"in {where}; accepted: a predicate of what D′ cannot output, or none"
            )

    def _takes_many(self, outputs: Outputs) -> bool:
        """Whether the predicate takes outputs at once: as many values as outputs, for two numbers of outputs."""
        for few in (outputs[: _FEW - 1], outputs[:_FEW]):
            try:
                answers = self.predicate(few)
            except interruptions():
                raise
            except BaseException:  # as of one that takes one output
                return False
            if not isinstance(answers, np.ndarray) or answers.dtype != np.bool_ or answers.shape != (few.shape[0],):
                return False
        return True

    def _one(self, output: Any) -> bool:
        answer = self._ask(output)
        if not isinstance(answer, bool | np.bool_):
            raise self._wrong(f"{type(answer).__name__} for one output, and no array of bools for many")
        return bool(answer)

    def _ask(self, outputs: Any) -> Any:
        try:
            return self.predicate(outputs)
        except interruptions():
            raise
        except BaseException as error:
            raise MechanismError(
                f"{KEY}: {self.name} raised {describe_raised(error)}; accepted: {_ACCEPTED}"
            ) from error

    def _wrong(self, returned: str) -> MechanismError:
        return MechanismError(f"{KEY}: {self.name} returned {returned}; accepted: {_ACCEPTED}")
