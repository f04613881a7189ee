"""diffprivlib 0.6.6 as a program in an environment of its own, beside the scikit-learn below 1.6 that it needs."""

from pathlib import Path
from typing import Any

import pytest
from against import REGRET, is_kept, is_violated, measure

import hpcdp.serve
from hpcdp.results.result import Result
from hpcdp.results.verdict import careful_error

PROGRAM = """
import numpy as np
from diffprivlib import mechanisms, tools
from serve import serve

CANDIDATES = ["asthma", "flu", "migraine"]


def mechanism(database, size, rng, *, name, epsilon, delta=None, noise=1.0):
    state = np.random.RandomState(rng.bit_generator)
    centre = database.sum()
    if name == "mean":
        return [tools.mean(database, epsilon=epsilon / noise, bounds=(0, 1), random_state=state) for _ in range(size)]
    if name == "Exponential":
        made = mechanisms.Exponential(
            epsilon=epsilon / noise, sensitivity=1, utility=list(database), candidates=CANDIDATES, random_state=state
        )
        return [made.randomise() for _ in range(size)]
    if name == "Geometric":
        made = mechanisms.Geometric(epsilon=epsilon / noise, sensitivity=1, random_state=state)
        return [made.randomise(int(centre)) for _ in range(size)]
    more = {} if delta is None else {"delta": delta}
    made = getattr(mechanisms, name)(epsilon=epsilon, sensitivity=1, random_state=state, **more)
    return [centre + noise * (made.randomise(centre) - centre) for _ in range(size)]


serve(mechanism)
"""

NUMBERS = ([0.0], [1.0])
SCORES = ([1.0, 0.0, 0.0], [0.0, 1.0, 1.0])
ROWS = ([0.0, 0.5], [1.0, 0.5])
CASES: dict[str, tuple[tuple[list[Any], list[Any]], dict[str, Any], str, bool]] = {
    # name: the pair, the parameters, the claim, whether it is the exact curve
    "Laplace": (NUMBERS, {"epsilon": 1.0}, "laplace(epsilon=1)", True),
    "Geometric": (([0], [1]), {"epsilon": 1.0}, "dp(epsilon=1)", True),
    "GaussianAnalytic": (NUMBERS, {"epsilon": 1.0, "delta": 0.05}, "dp(epsilon=1, delta=0.05)", False),
    "Exponential": (SCORES, {"epsilon": 1.0}, "dp(epsilon=1)", False),
    "mean": (ROWS, {"epsilon": 1.0}, "dp(epsilon=1)", False),
}
SLOW = {"train": 3000, "test": 6000, "chunk": 3000}


SHORT = ("Laplace",)  # the others in `make release-check`


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.release) for name in CASES]
)
def test_a_mechanism_keeps_its_claim_and_half_its_noise_does_not(name: str, diffprivlib: Path, tmp_path: Path) -> None:
    pair, parameters, claim, is_exact = CASES[name]
    (tmp_path / "serve.py").write_text(Path(hpcdp.serve.__file__).read_text())
    (tmp_path / "program.py").write_text(PROGRAM)
    call = {"command": [str(diffprivlib), "program.py"], "timeout": 60}
    sizes = SLOW if name == "mean" else {}

    def measured(noise: float) -> Result:
        mechanism = {"call": call, "parameters": {"name": name, "noise": noise, **parameters}}
        return measure(mechanism, pair, tmp_path, **sizes)

    sound = measured(1.0)
    assert not is_violated(claim, sound)
    assert is_kept(claim, sound, is_exact)
    if name == "GaussianAnalytic":
        at_epsilon = next(row for row in sound.spectrum() if row["epsilon"] == parameters["epsilon"])
        noise = 5.0 * float(careful_error(sound)[..., list(sound["epsilon"]).index(parameters["epsilon"])].max())
        gap = at_epsilon["delta"] - parameters["delta"]
        assert -noise - REGRET < gap < noise, "its noise is the least that the claim allows"
    assert is_violated(claim, measured(0.5)), "half the noise is caught"
