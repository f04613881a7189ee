"""scipy.special's functions without the package, which finds them loaded when somebody asks for it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.special

from hpcdp._base import special

NAMES = sorted(name for name in vars(special) if isinstance(getattr(special, name), np.ufunc))
OURS = "from hpcdp._base import special; print('scipy.special' in sys.modules)"
THEIRS = "import scipy.special; from scipy import stats; print(scipy.special.__spec__.origin is not None, stats.norm.cdf(0.0))"
LATER = """
class Later:
    def find_spec(self, name, path=None, target=None):
        if name == "scipy.special._ufuncs" and (self.__dict__.setdefault("asked", 0) == 0):
            self.asked = 1
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Later())
"""


def _ask(*lines: str) -> list[str]:
    same = f"print(all(getattr(scipy.special, name) is getattr(special, name) for name in {NAMES}))"
    code = "\n".join(["import sys", *lines, same])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("name", NAMES)
def test_they_are_those_of_scipy(name: str) -> None:
    assert getattr(special, name) is getattr(scipy.special, name)


@pytest.mark.slow
def test_the_package_is_not_loaded_and_loads_afterwards() -> None:
    assert len(NAMES) == 9
    assert _ask(OURS, THEIRS) == ["False", "True", "0.5", "True"]


@pytest.mark.slow
def test_after_the_package() -> None:
    assert _ask(THEIRS, OURS) == ["True", "0.5", "True", "True"]


@pytest.mark.slow
def test_where_a_later_scipy_keeps_them_elsewhere() -> None:
    """The package, which is asked for them then, knows where."""
    assert _ask(LATER, OURS, THEIRS) == ["True", "True", "0.5", "True"]
