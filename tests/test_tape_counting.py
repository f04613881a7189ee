"""Estimates of random tapes and of plain counting agree, for built-ins and for callables of five styles."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from commands import call, write_study

from hpcdp import load_result

STYLES = """
import numpy as np


def rows(database, size, rng):
    return database[0] + rng.normal(size=(size, 2)).sum(axis=1) / np.sqrt(2.0)


def columns(database, size, rng):
    return database[0] + rng.normal(size=(2, size)).sum(axis=0) / np.sqrt(2.0)


def loop(database, size, rng):
    outputs = np.empty(size)
    for i in range(size):
        outputs[i] = database[0] + rng.normal()
    return outputs


def choosing(database, size, rng):
    return database[0] * rng.choice(2, size=size, p=[0.5, 0.5]) + rng.normal(size=size)


def permuting(database, size, rng):
    values = np.array([database[0], 0.0, 0.0, 0.0])
    return np.array([values[rng.permutation(4)][:2].sum() + rng.normal() for _ in range(size)])
"""
SLOW = ("loop", "permuting")  # outputs are drawn one by one
CALLS: dict[str, tuple[dict[str, Any], float]] = {
    "own:rows": ({}, 3.5),
    "own:columns": ({}, 3.5),
    "own:loop": ({}, 2.0),
    "own:choosing": ({}, 3.0),
    "own:permuting": ({}, 1.5),
    "gaussian": ({"sigma": 1.0}, 3.5),
    "laplace": ({"epsilon": 1.2}, 1.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_tapes_and_counting_agree(name: str, tmp_path: Path) -> None:
    """The larger δ̂ of both directions, within three standard errors of both."""
    parameters, epsilon = CALLS[name]
    is_slow = name.partition(":")[2] in SLOW
    common = {"mechanism": STYLES, "call": name, "parameters": parameters, "stream": "philox", "keep": "none",
              "pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]", "etas": [], "epsilons": [0.5, epsilon]}  # fmt: skip
    found = {}
    for tape in (True, False):
        size = 1 << (14 if is_slow else 19) if tape else 1 << (18 if is_slow else 25)
        sizes = (
            {"tape": True, "train": 1 << (12 if is_slow else 14)}
            if tape
            else {"loss": "smooth", "train": 1 << 17, "chunk": 1 << 18}
        )
        folder = tmp_path / str(tape)
        study = write_study(folder, **common, **sizes, test=size)
        call("run", study, "--store", folder / "s.zarr", "--workers", 0)
        result = load_result(folder / "s.zarr")
        found[tape] = (result["delta"][0, :, 1].max(), result["standard_error"][0, :, 1].max())
    (one, a), (other, b) = found[True], found[False]
    print(f"{name}: {one:.4g} ± {a:.2g} from tapes, {other:.4g} ± {b:.2g} from counts")
    assert one > 0.0
    assert abs(one - other) <= 3.0 * math.hypot(a, b)
