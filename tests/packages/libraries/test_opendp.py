"""OpenDP 0.16 as a callable. It draws from the operating system and takes no seed, so it is declared not reproducible."""

from pathlib import Path
from typing import Any

import pytest
from against import is_kept, is_violated, measure

from hpcdp.errors import StudyError

MODULE = """
import sys

sys.path.append({folder!r})
import opendp.prelude as dp

dp.enable_features("contrib")


def laplace(database, size, scale):
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    return dp.m.make_laplace(*space, scale=scale)([float(database.sum())] * size)


def gaussian(database, size, scale):
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    return dp.m.make_gaussian(*space, scale=scale)([float(database.sum())] * size)


def geometric(database, size, scale):
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    return dp.m.make_laplace(*space, scale=scale)([int(database.sum())] * size)


def randomized_response(database, prob):
    return dp.m.make_randomized_response_bool(prob=prob)(bool(database[0]))


def noisy_max(database, scale):
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    return dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale)(list(database))

"""

CASES: dict[str, tuple[str, tuple[list[Any], list[Any]], dict[str, Any], dict[str, Any], str, bool]] = {
    # name: the call, the pair, the parameters, those with half the noise, the claim, whether it is the exact curve
    "laplace": ("laplace", ([0.0], [1.0]), {"scale": 1.0}, {"scale": 0.5}, "laplace(epsilon=1)", True),
    "gaussian": ("gaussian", ([0.0], [1.0]), {"scale": 1.0}, {"scale": 0.5}, "gaussian(mu=1)", True),
    "geometric": ("geometric", ([0], [1]), {"scale": 1.0}, {"scale": 0.5}, "dp(epsilon=1)", True),
    "response": ("randomized_response", ([0], [1]), {"prob": 0.73}, {"prob": 0.865}, "dp(epsilon=0.9947)", False),
    "noisy max": ("noisy_max", ([1.0, 0.0], [0.0, 1.0]), {"scale": 2.0}, {"scale": 1.0}, "dp(epsilon=1)", False),
}
ONE_BY_ONE = {"train": 2000, "test": 6000, "chunk": 2000}


def mechanism(name: str, parameters: dict[str, Any], opendp: Path, folder: Path) -> dict[str, Any]:
    (folder / "opendp_mechanisms.py").write_text(MODULE.format(folder=str(opendp)))
    return {"call": f"opendp_mechanisms:{name}", "parameters": parameters, "reproducible": False}


SHORT = ("laplace",)  # the others in `make release-check`


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.release) for name in CASES]
)
def test_a_mechanism_keeps_its_claim_and_half_its_noise_does_not(name: str, opendp: Path, tmp_path: Path) -> None:
    call, pair, honest, broken, claim, is_exact = CASES[name]
    sizes = ONE_BY_ONE if call in ("randomized_response", "noisy_max") else {}
    sound = measure(mechanism(call, honest, opendp, tmp_path), pair, tmp_path, **sizes)
    assert not is_violated(claim, sound)
    assert is_kept(claim, sound, is_exact)
    assert is_violated(claim, measure(mechanism(call, broken, opendp, tmp_path), pair, tmp_path, **sizes))


@pytest.mark.slow
def test_the_bits_of_its_noise_tell_no_more_than_it_claims(opendp: Path, tmp_path: Path) -> None:
    """As those of NumPy's do: tests/runs/test_views.py."""
    call, pair, honest, _, claim, _ = CASES["laplace"]
    found = measure(mechanism(call, honest, opendp, tmp_path), pair, tmp_path, view=["value", "bits"])
    assert not is_violated(claim, found)


def test_it_takes_no_seed_and_says_so(opendp: Path, tmp_path: Path) -> None:
    call, pair, honest, *_ = CASES["laplace"]
    undeclared = {**mechanism(call, honest, opendp, tmp_path), "reproducible": True}
    with pytest.raises(StudyError, match=r"and no rng.*mechanism\.reproducible = false"):
        measure(undeclared, pair, tmp_path)
