"""Digests of functions: what changes them, what does not, and what has none."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hpcdp.errors import StudyError
from hpcdp.mechanisms.code_digest import digest_function

HEAD = """
import dataclasses, functools, math
import numpy as np
from numpy import sqrt

SCALE = 1.5
STEPS = [1, 2, [3]]
TABLE = np.arange(6.0).reshape(2, 3)
NAMES = {"b": set("stuvwxyz"), "a": "text"}


@dataclasses.dataclass
class Noise:
    scale: float = 2.0
    TIMES = 2

    def draw(self, rng):
        return self.TIMES * rng.laplace(scale=self.scale)


NOISE = Noise(3.0)


def helper(x, power=2, *, root=1):
    return x ** (power / root) * SCALE if x else even(x)


def even(x):
    return helper(x - 1) + even.offset + len(STEPS)


even.offset = 4.5


def twice(function):
    @functools.wraps(function)
    def wrapper(x):
        return 2 * function(x)
    return wrapper


@twice
def doubled(x):
    return x + 8


pick = (lambda x: x + 5, lambda x: x - 5)[0]; spread = functools.partial(lambda x, by: x +
    6 * by,
    by=7)


def make(shift):
    def inner(database, rng):
        inside = lambda y: y + TABLE[0, 1] + len(NAMES)
        return inside(helper(shift)) + doubled(pick(spread(1))) + NOISE.draw(rng) + sqrt(2.0) + math.pi
    return inner


f = make(0.25)
"""


def made(source: str, name: str = "f", folder: Path | None = None) -> Callable[..., Any]:
    """A function of a script of this text, which is there as a file where a folder is given."""
    script = types.ModuleType("__main__")  # of whose functions none is found by an import
    vars(script)["dataclasses"] = dataclasses
    if folder is not None:
        (folder / "script.py").write_text(source)
    exec(compile(source, str((folder or Path("/nowhere")) / "script.py"), "exec", dont_inherit=True), vars(script))
    return vars(script)[name]


digest = digest_function


CHANGES = {
    "a global": ("SCALE = 1.5", "SCALE = 1.25"),
    "the kind of a number": ("SCALE = 1.5\n", "SCALE = np.float32(1.5)\n"),
    "an array": ("reshape(2, 3)", "reshape(3, 2)"),
    "an array's type": ("np.arange(6.0)", "np.arange(6.0, dtype=np.float32)"),
    "a set within a table": ('set("stuvwxyz")', 'set("stuvwxy")'),
    "a list within a list": ("[3]]", "[4]]"),
    "a default": ("power=2", "power=3"),
    "a default of a keyword": ("root=1", "root=2"),
    "an attribute of a function": ("even.offset = 4.5", "even.offset = 5.5"),
    "an attribute of a class": ("TIMES = 2", "TIMES = 3"),
    "a base of a class": ("class Noise:", "class Noise(Exception):"),
    "what a decorator does": ("2 * function(x)", "3 * function(x)"),
    "what is decorated": ("x + 8", "x + 9"),
    "which of two lambdas of a line": ("x - 5)[0]", "x - 5)[1]"),
    "a later line of a lambda": ("    6 * by", "    5 * by"),
    "what a part of a function is given": ("by=7", "by=8"),
    "what is closed over": ("make(0.25)", "make(0.5)"),
    "a constant of an inner function": ("TABLE[0, 1]", "TABLE[0, 2]"),
    "an operator of a function that is called": ("/ root) * SCALE", "/ root) + SCALE"),
    "a function that one calls that is called": ("helper(x - 1)", "helper(x - 2)"),
    "a method of an object": ("return self.TIMES * rng.laplace", "return self.TIMES * rng.normal"),
    "a field of an object": ("Noise(3.0)", "Noise(4.0)"),
    "a function of a library": ("from numpy import sqrt", "from numpy import cbrt as sqrt"),
    "an attribute that is read": ("math.pi", "math.e"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_it(what: str, tmp_path: Path) -> None:
    before, after = CHANGES[what]
    assert HEAD.count(before) == 1
    for folder in (None, tmp_path):
        first = digest(made(HEAD, folder=folder))
        assert digest(made(HEAD.replace(before, after), folder=folder)) != first
        assert digest(made(HEAD, folder=folder)) == first


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f = make", "\n\n# a comment, further down\nf = make"),
        ("def inner(database, rng):", "def inner(database, rng):  # said"),
        ("SCALE = 1.5\n", "SCALE = 1.5\nUNREAD = 3\n"),
        ('set("stuvwxyz")', 'set("zyxwvuts")'),
    ],
)
def test_what_does_not(before: str, after: str, tmp_path: Path) -> None:
    assert HEAD.count(before) == 1
    for folder in (None, tmp_path):
        assert digest(made(HEAD, folder=folder)) == digest(made(HEAD.replace(before, after), folder=folder))
        named = ("def f(x, rng):\n    return x", "f", folder), ("def g(x, rng):\n    return x", "g", folder)
        assert digest(made(*named[0])) == digest(made(*named[1]))


def test_a_text_is_that_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file says something else by now, it is no text of the function; bytecode is another in each version of Python."""
    source = "def f(x, rng):\n    return x + 1\n"
    function, executed = made(source, folder=tmp_path), made(source)
    of_text, of_code = digest(function), digest(executed)
    assert of_text != of_code
    (tmp_path / "script.py").write_text(source.replace("1", "2"))
    assert digest(function) == of_code
    (tmp_path / "script.py").write_text(source)
    assert digest(function) == of_text
    monkeypatch.setattr(sys.implementation, "cache_tag", "cpython-399")
    assert digest(function) == of_text
    assert digest(executed) != of_code


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_same_in_another_process(seed: str, tmp_path: Path) -> None:
    """Where strings have other hashes, so that sets have another order; of a script and of text that no file has."""
    code = f"{HEAD}\nfrom hpcdp.mechanisms.code_digest import digest_function\nprint(digest_function(f))"
    (tmp_path / "other.py").write_text(code)
    given = {**os.environ, "PYTHONHASHSEED": seed}
    for folder, command in ((None, ["-c", code]), (tmp_path, ["other.py"])):
        done = subprocess.run(
            [sys.executable, *command], env=given, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == digest(made(HEAD, folder=folder))


class Adds:
    """An object that can be called."""

    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, database: Any, rng: np.random.Generator) -> Any:
        return database.sum() + self.by + rng.laplace()

    def twice(self, database: Any, rng: np.random.Generator) -> Any:
        return 2 * self(database, rng)


def scaled(database: Any, rng: np.random.Generator, scale: float) -> Any:
    return database.sum() + rng.laplace(scale=scale)


def wrapping(function: Callable[..., Any], scale: float) -> Callable[..., Any]:
    """Another function, with this one's name and `__wrapped__`."""
    return functools.update_wrapper(functools.partial(function, scale=scale), function)


def within(frame: pd.DataFrame) -> Callable[..., Any]:
    return lambda database, rng: len(frame) + len(database) + rng.laplace()


FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=["p", "q"])


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (Adds(1.0), Adds(1.0), Adds(2.0)),
        (Adds(1.0).twice, Adds(1.0).twice, Adds(2.0).twice),
        (functools.partial(scaled, scale=1.0), functools.partial(scaled, scale=1.0), functools.partial(scaled, scale=2.0)),
        (functools.lru_cache(scaled), functools.lru_cache(scaled), functools.lru_cache(within)),
        (wrapping(scaled, 1.0), wrapping(scaled, 1.0), wrapping(scaled, 0.1)),
        (within(FRAME), within(FRAME.copy()), within(FRAME.rename(index={"q": "r"}))),
        (within(FRAME), within(FRAME.copy()), within(FRAME.astype({"a": np.int32}))),
        (np.random.default_rng(1).laplace, np.random.default_rng(2).laplace, np.random.default_rng(1).normal),
        (math.erf, math.erf, math.erfc),
    ],
)  # fmt: skip
def test_all_that_can_be_called(one: Any, same: Any, other: Any) -> None:
    """Random generators by their kind alone: a draw changes their state."""
    assert digest(one) == digest(same) != digest(other)


def test_compiled_functions_by_what_was_compiled() -> None:
    from numba import njit

    one, same, other = (made(f"def f(x):\n    return x + {n}") for n in (1, 1, 2))
    assert digest(njit(one)) == digest(njit(same)) != digest(njit(other))
    assert digest(njit(one)) != digest(njit(fastmath=True)(one))


def test_a_module_of_the_users_own_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And by what it holds now, where the function reads that."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "digested_helpers.py").write_text("WIDTH = 2\n")
    reads = made("import digested_helpers\ndef f(x, rng):\n    return x * digested_helpers.WIDTH")
    imports = made("def f(x, rng):\n    import digested_helpers\n    return x * digested_helpers.WIDTH")
    first, second = digest(reads), digest(imports)
    sys.modules["digested_helpers"].WIDTH = 3  # type: ignore[attr-defined]
    assert digest(reads) != first
    sys.modules["digested_helpers"].WIDTH = 2  # type: ignore[attr-defined]
    assert (digest(reads), digest(imports)) == (first, second)
    (tmp_path / "digested_helpers.py").write_text("WIDTH = 2  # now said\n")
    assert digest(reads) != first
    assert digest(imports) != second
    # an optional import that fails is no part of what a function does, but which one it is
    optional = (
        made(
            f"def f(x, rng):\n    try:\n        import digested_nowhere.{name}\n    except ImportError:\n        return x"
        )
        for name in "ab"
    )
    assert digest(next(optional)) != digest(next(optional))


@pytest.mark.parametrize(
    "function",
    [
        "import digested.core\ndef f(x, rng):\n    return digested.core.release(x)",
        "def f(x, rng):\n    import digested.core\n    return digested.core.release(x)",
        "def f(x, rng):\n    import digested.core as core\n    return core.release(x)",
        "def f(x, rng):\n    from digested.core import release\n    return release(x)",
        "def f(x, rng):\n    from digested import core\n    return core.release(x)",
        "__package__ = 'digested'\ndef f(x, rng):\n    from .core import release\n    return release(x)",
        "__package__ = 'digested'\ndef f(x, rng):\n    from . import core\n    return core.release(x)",
    ],
)
def test_modules_that_modules_read(function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package's function, wherever it is imported, is followed to what it reads of the package's other modules."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    package = tmp_path / "digested"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "core.py").write_text("from digested import noise\ndef release(x):\n    return noise.added(x)\n")
    (package / "other.py").write_text("")

    def found(scale: float) -> str:
        (package / "noise.py").write_text(f"from digested import core\ndef added(x):\n    return x + {scale}\n")
        for name in [name for name in sys.modules if name.partition(".")[0] == "digested"]:
            monkeypatch.delitem(sys.modules, name)
        importlib.invalidate_caches()
        return digest(made(function))

    first = found(1.0)
    assert found(0.5) != first
    assert found(1.0) == first
    (package / "other.py").write_text("NOT_READ = 1\n")
    assert found(1.0) == first


def test_what_has_no_digest_is_named_and_no_content_is() -> None:
    """A key of a dictionary may be data, and so may the name under which a class hands its state on."""

    class Table:
        def __init__(self, name: str) -> None:
            setattr(self, name, threading.Lock())

    class Kept:
        def __getstate__(self) -> dict[str, Any]:
            return {"Ms Jones": threading.Lock()}

    def reading(what: Any) -> Callable[..., Any]:
        return functools.partial(lambda _, rng: (rng.laplace(), what))

    own = "what, which <lambda> closes over"
    named = types.SimpleNamespace(Jones=threading.Lock())
    for what, where in (
        (threading.Lock(), own),
        ({"Ms Jones": threading.Lock()}, f"{own}[…]"),
        ({4711: [threading.Lock()]}, f"{own}[…]"),
        (Table("held"), f"{own}.held"),
        (Table("Mr Smith"), f"{own}[…]"),
        (Kept(), f"{own}[…]"),
        (named, f"{own}[…]"),
    ):
        with pytest.raises(StudyError) as refused:
            digest(reading(what))
        assert str(refused.value) == f"there is no digest of {where} (a lock)"


def test_the_code_alone() -> None:
    """A table that calls fill is no code, nor a scale that they only convert; constants and functions are."""
    source = (
        "known = {}\nSCALE, scale = 1.0, 1.0\ndef g(x):\n    return x * SCALE\n"
        "def f(x):\n    global scale\n    scale = 2 * scale\n    known[x] = g(x)\n    return known[x]"
    )
    function = made(source)
    before, whole = digest_function(function, code_alone=True), digest(function)
    assert whole != digest(made(source.replace("SCALE, scale = 1.0, 1.0", "SCALE, scale = 1.0, 2.0")))
    function(3)
    assert digest(function) != whole
    assert digest_function(function, code_alone=True) == before
    for change in (("SCALE, scale = 1.0", "SCALE, scale = 2.0"), ("x * SCALE", "x + SCALE")):
        assert digest_function(made(source.replace(*change)), code_alone=True) != before
