"""Estimates of tapes agree with exact curves; what vectors and laws whose loss has an atom gain."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, write_study

from hpcdp import load_result, run
from hpcdp.analytic import GaussianShift, LaplaceShift, NormalMixture, laplace_pair
from hpcdp.study.file import Study

STYLES = """
import numpy as np


def rows(database, size, rng):
    return database[0] + rng.normal(size=(size, 2)).sum(axis=1) / np.sqrt(2.0)


def choosing(database, size, rng):
    return database[0] * rng.choice(2, size=size, p=[0.5, 0.5]) + rng.normal(size=size)


def permuting(database, size, rng):
    values = np.array([database[0], 0.0, 0.0, 0.0])
    return np.array([values[rng.permutation(4)][:2].sum() + rng.normal() for _ in range(size)])
"""
PAIR = "given = [ { d = [0.0], d_prime = [1.0] } ]"
TAPES: dict[str, Any] = {"stream": "philox", "keep": "none", "etas": [], "tape": True}
CORNERS: dict[str, Any] = {**TAPES, "call": "laplace", "parameters": {"epsilon": 1.0}, "certify": [0.5]}
MOVED, HALF = GaussianShift(1.0), NormalMixture([0.0, 1.0], [0.5, 0.5])
CALLS: dict[str, tuple[dict[str, Any], float, Any]] = {
    "own:rows": ({}, 3.5, MOVED),
    "own:choosing": ({}, 3.0, HALF),
    "own:permuting": ({}, 0.5, HALF),
    "gaussian": ({"sigma": 1.0}, 3.5, MOVED),
    "laplace": ({"epsilon": 1.2}, 1.1, LaplaceShift(1.2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_tapes_agree_with_the_exact_curve(name: str, client, tmp_path: Path) -> None:
    """δ̂ of the direction whose δ is larger, within three standard errors."""
    parameters, epsilon, curve = CALLS[name]
    is_slow = name == "own:permuting"  # outputs are drawn one by one
    study = write_study(
        tmp_path, mechanism=STYLES, **TAPES, call=name, parameters=parameters, pairs=PAIR, epsilons=[0.1, epsilon],
        train=1 << (12 if is_slow else 14), test=1 << (17 if is_slow else 19),
    )  # fmt: skip
    result = run(Study.from_toml(study), tmp_path / "s.zarr", client=client())
    exact = [float(curve.delta(epsilon, direction)) for direction in ("forward", "reverse")]
    row = int(np.argmax(exact))
    delta, error = (float(result[part][0, row, 1]) for part in ("delta", "standard_error"))
    print(f"{name}: {delta:.4g} ± {error:.2g} from tapes, {exact[row]:.4g} exactly")
    assert 0.0 < error < 0.1 * exact[row]
    assert abs(delta - exact[row]) <= 3.0 * error


@pytest.mark.slow
def test_laplace_noise_in_three_columns(tmp_path: Path) -> None:
    """Its sets are corners, which no linear score tells: training chooses another. The gain is less than two orders.

    The top of its loss, an eighth of all outputs, is common; what proposals save is that all of them are in the corner.
    """
    third, epsilons = 1.0 / 3.0, [0.0, 0.5, 0.9]
    pairs = f"given = [ {{ d = [0.0, 0.0, 0.0], d_prime = [{third}, {third}, {third}] }} ]"
    sizes = {"train": 1 << 16, "test": 1 << 21}
    study = write_study(tmp_path, **CORNERS, **sizes, pairs=pairs, epsilons=epsilons)
    call("run", study, "--store", tmp_path / "s.zarr", "--workers", 0)
    result = load_result(tmp_path / "s.zarr")
    truth = laplace_pair([third] * 3).delta(np.array(epsilons), "forward")
    assert (result["lower"] <= truth).all()
    assert 1.0 <= result["tape_gain"][0] < 100.0
    delta, error = (result[name][0] for name in ("delta", "standard_error"))
    assert (delta <= truth + 5.0 * error).all()
    assert (delta[:, :2] >= 0.9 * truth[:2]).all(), "a line through the corner would tell .81 and .32 of them"
