"""The script of a violation: at most 30 lines that draw afresh and test the recorded set, with NumPy and the function alone."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from hpcdp.testing.checks import Check, Finding
from hpcdp.testing.planned import View

_MOST_NUMBERS = 64  # of a database that is written out
_PLAIN = ("bool", "int64", "float64")  # what lists of numbers become

_BODY = """\
n, eps, claimed, level = {test}, {epsilon!r}, {claimed!r}, {level!r}
{set}
rng, log = np.random.default_rng(), np.log
def count(database):
    {draw}
    {score}
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


def write_script(check: Check, finding: Finding, root: Path) -> str:
    """The script, run in the tests' root without hpcdp; what it cannot import or write as 64 numbers is left to be filled in."""
    cell = finding.cell
    modules = [sys.modules.get(name) for name in (getattr(check.function, "__module__", ""), check.module)]
    given = {"f": check.function, "d": check.d, "d_prime": check.d_prime}
    imports: dict[ModuleType, list[str]] = {}
    rest = dict(given)
    for module in [module for module in modules if module is not None and module.__name__ != "__main__"]:
        for name in list(rest):
            same = (own for own, other in vars(module).items() if other is given[name] and own.isidentifier())
            if own := next(same, None):
                imports.setdefault(module, []).append(f"{own} as {name}")
                del rest[name]
    lines = [f"# {check.key}: {check.claim}", "import sys, numpy as np"]
    if imports:
        lines.append(f"sys.path[:0] = {list(dict.fromkeys(_folder_of(module, root) for module in imports))!r}")
    lines += [f"from {module.__name__} import {', '.join(names)}" for module, names in imports.items()]
    lines += [f"{name} = {_literal(value)}" for name, value in rest.items() if name != "f"]
    if "f" in rest:
        lines.append("f = ...  # the function of this call, which has no name to import it by")
    first, other = ("d", "d_prime") if cell.direction == "forward" else ("d_prime", "d")
    inside, score = _shown(cell.view, cell.intervals)
    words = {
        "test": finding.test,
        "epsilon": cell.epsilon,
        "claimed": cell.claimed,
        "level": finding.level,
        "set": inside,
        "draw": _draw(check, finding),
        "score": score,
        "first": first,
        "other": other,
    }
    return "\n".join(lines) + "\n" + _BODY.format(**words)


def _folder_of(module: Any, root: Path) -> str:
    """What an import of the module needs on the path, relative to the root folder where it lies in that."""
    folder = Path(str(module.__file__)).resolve().parents[module.__name__.count(".")]
    return folder.relative_to(root).as_posix() if folder.is_relative_to(root) else "."


def _literal(value: Any) -> str:
    """An array as Python, with its type and shape where those do not follow; a DataFrame is none."""
    array = np.asarray(value) if isinstance(value, np.ndarray | np.generic | list | tuple | int | float) else None
    if array is None or array.dtype.kind not in "biuf" or array.size > _MOST_NUMBERS:
        return "...  # that of this call"
    numbers = re.sub(r"\b(nan|inf)\b", r"np.\1", repr(array.tolist()))
    made = f"np.array({numbers}, {array.dtype.str!r})" if array.dtype not in _PLAIN else f"np.array({numbers})"
    return made if array.size else f"np.empty({array.shape}, {array.dtype.str!r})"


def _draw(check: Check, finding: Finding) -> str:
    is_copied = not isinstance(check.d, list | tuple) and hasattr(check.d, "copy")
    given, mechanism = "database.copy()" if is_copied else "np.array(database)", finding.pair.mechanism
    call = f"f({given}{', size=n' * mechanism.vectorised}{', rng=rng' * mechanism.takes_rng})"
    return f"made = {call}" if mechanism.vectorised else f"made = [{call} for _ in range(n)]"


def _shown(view: View, intervals: tuple[tuple[float, float], ...]) -> tuple[str, str]:
    """The set S of a cell, and the lines that count outputs in it, as Python."""
    if view.name == "value":
        places = [-1, *range(len(view.values))]
        inside = [place for place in places if any(a <= place < b for a, b in intervals)]
        listed = [view.values[place] for place in places if place >= 0 and (place in inside) != (-1 in inside)]
        spelled = dict.fromkeys(repr(element) for value in listed for element in _plain(value))
        values = "{" + ", ".join(spelled) + "}" if spelled else "set()"
        return f"values = {values}{_KEY}", _COUNT.format("not in" if -1 in inside else "in")
    ends = repr([end for pair in intervals for end in pair]).replace("inf", "np.inf")
    whole = f"ends = np.array({ends})  # S: scores in [ends[0], ends[1]) or [ends[2], ends[3]) ..."
    exact, held = (
        "np.asarray(made, float).reshape(n, -1)",
        'int((np.searchsorted(ends, score, "right") % 2 == 1).sum())',
    )
    score = f"{exact}.{view.name}(axis=1)"
    if view.name in ("number", "column"):
        score = f"{exact}[:, {view.column}]"
    elif view.name == "line":
        whole += f"\ncentre, weights = np.array({list(view.centre)!r}), np.array({list(view.weights)!r})"
        score = f"(lambda o: np.hstack([o, abs(o - centre)]) @ weights)({exact})"
    return whole, f"score = {score}\n    return {held}"


_KEY = """
def key(o, row=True):  # an output as it stands in values: missing is None, a time its text, a row of one its value
    o = o.tolist() if hasattr(o, "tolist") else o
    if isinstance(o, (list, tuple)): return key(o[0], False) if row and len(o) == 1 else tuple(key(i, False) for i in o)
    if isinstance(o, (str, bytes)): return o if isinstance(o, str) else o.decode("latin-1")
    return None if str(o) in ("NaT", "<NA>", "nan") else getattr(o, "isoformat", lambda: o)()"""

_COUNT = """rows = made.itertuples(index=False, name=None) if hasattr(made, "itertuples") else made
    return sum(key(o) {} values for o in rows)"""


def _plain(value: Any) -> list[Any]:
    """A value as `key` has it, by its canonical form; both as text and as a sequence where these have one spelling."""
    if not isinstance(value, bytes):
        return [value[0] if isinstance(value, tuple) and len(value) == 1 else value]
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return [value.decode("latin-1")]
    if text.startswith("["):
        with suppress(ValueError, RecursionError):
            items = json.loads(text, parse_constant=int)  # no sequence holds NaN, which int refuses
            if len(items) != 1:
                return [_tuples(items), text]
            # a sequence of one string is spelled as that alone, unless it begins so
            if not isinstance(items[0], str) or items[0].startswith("["):
                return [_tuples(items[0]), text]
    return [text]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
