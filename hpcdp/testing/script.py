"""The script of a violation: at most 30 lines that draw afresh and test the recorded set, with NumPy and the function alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp.testing.checks import Check, Finding
from hpcdp.testing.views import View

MOST_LINES = 30

_MOST_NUMBERS = 64  # of a database that is written out

_BODY = """\
n, eps, claimed, level = {test}, {epsilon!r}, {claimed!r}, {level!r}
ends = np.array({ends})  # S: scores in [ends[0], ends[1]) or [ends[2], ends[3]) ...
rng, log = np.random.default_rng(), np.log
def count(database):
    {draw}
    {score}
    return int((np.searchsorted(ends, score, "right") % 2 == 1).sum())
fact = np.concatenate([[0.0], np.cumsum(log(np.arange(1, n + 1)))])
def at_least(k, p):  # P[X >= k] of X ~ Bin(n, p)
    i = np.arange(k, n + 1)
    return np.exp(fact[n] - fact[i] - fact[n - i] + i * log(p) + (n - i) * np.log1p(-p)).sum()
def lower(k):  # Clopper-Pearson, at level / 2
    low, high = 0.0, k / n
    for _ in range(60 if k else 0):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at_least(k, middle) <= level / 2 else (low, middle)
    return low
x0, x1 = count({first}), count({other})
bound = lower(x0) - np.exp(eps) * (1.0 - lower(n - x1))
print(f"counts {{x0}}, {{x1}} of {{n}}: at least {{bound:.6g}}:", "violated" if bound > claimed else "no violation shown")
"""


def write_script(check: Check, found: Finding, root: Path) -> str:
    """The script, to be run in the root folder of the tests.

    It needs no hpcdp. Its limits are those of Clopper and Pearson at half the level each, finite-sample and a little wider than
    the check's. What has no import path, and databases of more than 64 numbers that are no globals, are left to be filled in.
    """
    cell, names = found.cell, {}
    module = sys.modules.get(getattr(check.function, "__module__", ""))
    lines = [f"# {check.key}: {check.claim}", "import sys", "import numpy as np"]
    for name, value in (("f", check.function), ("d", check.d), ("d_prime", check.d_prime)):
        names[name] = _global_name(module, value)
    wanted = ", ".join(f"{own} as {name}" for name, own in names.items() if own)
    if wanted and module is not None:
        lines += [f"sys.path.insert(0, {_folder_of(module, root)!r})", f"from {module.__name__} import {wanted}"]
    for name, value in (("d", check.d), ("d_prime", check.d_prime)):
        if not names[name]:
            lines.append(f"{name} = {_literal(value)}")
    if not names["f"]:
        lines.append("f = ...  # the function of this call, which has no name to import it by")
    first, other = ("d", "d_prime") if cell.direction == "forward" else ("d_prime", "d")
    view, ends = _shown(cell.view, cell.intervals)
    words = {
        "test": found.test,
        "epsilon": cell.epsilon,
        "claimed": cell.claimed,
        "level": found.level,
        "ends": ends,
        "draw": _draw(check, found),
        "score": view,
        "first": first,
        "other": other,
    }
    return "\n".join(lines) + "\n" + _BODY.format(**words)


def _global_name(module: Any, value: Any) -> str | None:
    """The name of a global of a module that is this very object."""
    if module is None or module.__name__ == "__main__":
        return None
    return next((name for name, other in vars(module).items() if other is value and name.isidentifier()), None)


def _folder_of(module: Any, root: Path) -> str:
    """What an import of the module needs on the path, relative to the root folder where it lies in that."""
    folder = Path(str(module.__file__)).resolve().parents[module.__name__.count(".")]
    return folder.relative_to(root).as_posix() if folder.is_relative_to(root) else "."


def _literal(value: Any) -> str:
    array = np.asarray(value)
    if array.dtype.kind in "biuf" and array.size <= _MOST_NUMBERS:
        return f"np.array({array.tolist()!r})"
    return "...  # that of this call"


def _draw(check: Check, found: Finding) -> str:
    copied = (
        "database.copy()"
        if not isinstance(check.d, list | tuple) and hasattr(check.d, "copy")
        else "np.array(database)"
    )
    rng = ", rng=rng" if found.takes_rng else ""
    return f"made = f({copied}, size=n{rng})" if found.vectorised else f"made = [f({copied}{rng}) for _ in range(n)]"


def _shown(view: View, intervals: tuple[tuple[float, float], ...]) -> tuple[str, str]:
    """The line that computes a view's numbers, and the ends of the set, as Python."""
    if view.name == "value":
        places = [-1, *range(len(view.values))]
        inside = [place for place in places if any(a <= place < b for a, b in intervals)]
        listed = [view.values[place] for place in places if place >= 0 and (place in inside) != (-1 in inside)]
        values = "{" + ", ".join(repr(_plain(value)) for value in listed) + "}" if listed else "set()"
        key = "key = lambda o: tuple(map(key, o)) if isinstance(o, (list, tuple, np.ndarray)) else o"
        return f"{key}; score = [key(o) {'not in' if -1 in inside else 'in'} {values} for o in made]", "[0.5, np.inf]"
    ends = repr([end for pair in intervals for end in pair]).replace("inf", "np.inf")
    exact = "np.asarray(made, float).reshape(n, -1)"
    if view.name == "number":
        return f"score = {exact}[:, 0]", ends
    if view.name == "column":
        return f"score = {exact}[:, {view.column}]", ends
    if view.name == "line":
        both = f"centre, weights = np.array({list(view.centre)!r}), np.array({list(view.weights)!r})"
        return f"{both}; o = {exact}; score = np.hstack([o, abs(o - centre)]) @ weights", ends
    return f"score = {exact}.{view.name}(axis=1)", ends


def _plain(value: Any) -> Any:
    """A value as Python has it, by its canonical form: tuples of numbers, or the spelling of a string or a sequence."""
    if not isinstance(value, bytes):
        return value
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value
    return _tuples(json.loads(text)) if text.startswith("[") else text


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
