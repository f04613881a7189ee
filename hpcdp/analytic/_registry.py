"""Which exact pair belongs to a built-in mechanism on two databases."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from hpcdp._check import refusal
from hpcdp.analytic._curve import Curve

Builder = Callable[..., Curve | None]

_BUILDERS: dict[str, Builder] = {}


def register(mechanism: str) -> Callable[[Builder], Builder]:
    """Decorate the function that builds the exact pair of the built-in mechanism of this name.

    It is called with the two databases and, as keywords, the mechanism's parameters; it takes the same
    keywords as the mechanism, and returns None where no closed form is known.

    Raises:
        ValueError: the name is taken.
    """

    def add(builder: Builder) -> Builder:
        if mechanism in _BUILDERS:
            raise refusal("mechanism", mechanism, "a name that is not registered yet")
        _BUILDERS[mechanism] = builder
        return builder

    return add


def exact(mechanism: str, parameters: Mapping[str, Any], d: NDArray[Any], d_prime: NDArray[Any]) -> Curve | None:
    """Return the exact pair of a built-in mechanism on two databases, P on `d` and Q on `d_prime`.

    Args:
        mechanism: the name of a built-in mechanism, as in a study file; any other name gives None.
        parameters: its keyword arguments.
        d: the database whose outputs follow P.
        d_prime: the database whose outputs follow Q.

    Returns:
        the exact spectrum and trade-off curve, or None where no closed form is known.

    Raises:
        ValueError: parameters or databases that the mechanism itself refuses.
    """
    builder = _BUILDERS.get(mechanism)
    if builder is None:
        return None
    try:
        inspect.signature(builder).bind(d, d_prime, **parameters)
    except TypeError as error:
        names = ", ".join(list(inspect.signature(builder).parameters)[2:])
        raise ValueError(f"parameters of {mechanism}: {error}; accepted: {names}") from None
    return builder(d, d_prime, **parameters)
