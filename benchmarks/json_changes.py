"""python -m benchmarks.json_changes OLD [NEW] [--only NAME …]: what two checkouts print as JSON, and each difference.

Small studies of every way of estimating are run by the code of an older checkout and by that of another (this one, unless
told); the older one's stores are shown by the newer code too, and as they were half-way through, gone on with: their records
must then be the older one's, byte for byte. Only bounds and limits, what is resolved, radii and
warnings may differ and some keys be new, and no lower bound may fall: every other difference makes the exit code 1. Minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.journals import committed, halve

ROOT = Path(__file__).resolve().parent.parent
FREE = ("lower", "lower_pair", "lower_direction", "resolved", "limit", "radius", "warnings")
"""Names of values that may differ; of these "lower" may not fall."""
HEAD = "records/results.json"
"""What says which arrays are the results."""
ADDED = ("cells_known", "cells_planned", "bound", "family")
"""Names of values that the older code did not print."""
_NONE = "(no such key)"

_PAIR = "given = [{ d = [0.0], d_prime = [1.0] }]"
_PLAIN = {"train": 4000, "test": 6000, "chunk": 2000, "epsilons": [0.0, 0.25, 0.5, 1.0, 2.0], "etas": [0.5, 1.0, 2.0]}
_LAPLACE = ("laplace", "{ epsilon = 1.0 }", _PAIR)
_VECTOR = ("gaussian", "{ sigma = 1.5 }", "given = [{ d = [0.0, 0.0, 0.0], d_prime = [1.0, 0.5, 0.0] }]")
_RELATIVE = ("own:noisy", "{}", 'relative = { databases = [[0.0, 0.5, 1.0, 2.0]], rows = "all" }')
_RANDOM = ("own:noisy", "{}", 'distributional = { call = "own:rows", index = [0], values = [0, 1] }')
_RESPONSE = ("randomized_response", "{ epsilon = 1.0 }", _PAIR)

STUDIES: dict[str, tuple[tuple[str, str, str], dict[str, Any]]] = {
    "knn": (_LAPLACE, _PLAIN),
    "relative": (_RELATIVE, {**_PLAIN, "keep": "none"}),
    "vector": (_VECTOR, _PLAIN),
    "frequency": (_RESPONSE, {**_PLAIN, "loss": "frequency"}),
    "kde": (_LAPLACE, {**_PLAIN, "loss": "kde"}),
    "smooth": (_VECTOR, {**_PLAIN, "loss": "smooth"}),
    "learned": (_VECTOR, {**_PLAIN, "loss": "learned", "parameters": {"classifier": "logistic"}}),
    "target": (
        _LAPLACE,
        {
            "train": 4000,
            "chunk": 4000,
            "epsilons": [0.0, 0.5, 1.0],
            "keep": "none",
            "target": {"epsilon": 0.5, "relative_error": 0.1, "most": 100_000},
        },
    ),
    "reuse": (_LAPLACE, {**_PLAIN, "etas": [], "reuse": True}),
    "literal": (_LAPLACE, {**_PLAIN, "loss": "literal-knn", "keep": "none"}),
    "distributional": (_RANDOM, _PLAIN),
    "sequential": (_LAPLACE, {**_PLAIN, "chunk": 50}),
}

_OWN = """
def noisy(database, size, rng):
    return database.sum() + rng.laplace(size=size)


def rows(size, rng):
    return rng.integers(0, 2, (size, 3)).astype(float)
"""

# Runs in a process of its own, with one checkout's code: what each command prints, by a name of the command.
_CHILD = """
import io, json, sys
from contextlib import redirect_stdout
from pathlib import Path

def call(*arguments):
    out = io.StringIO()
    with redirect_stdout(out):
        code = main([str(a) for a in arguments])
    return [code, out.getvalue()]

if __name__ == "__main__":
    from dask.distributed import LocalCluster
    try:
        from hpcdp.cli.command import main
    except ImportError:  # before the commands had a package
        from hpcdp.cli import main
    folder, stores, run = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "run"
    found = {}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        for name in sys.argv[4:]:
            study, store, place = folder / f"{name}.toml", stores / f"{name}.zarr", ("--cluster", cluster.scheduler_address)
            if name == "sequential":
                if run:
                    options = ("--sequential", "--batch", 100, "--budget", 1000, "--store", store, "--format", "json")
                    found[name] = call("audit", study, "--claim", "laplace(epsilon=0.5)", *options, *place)
                continue
            if run:
                found[f"run {name}"] = call("run", study, "--store", store, *place)[:1]
            found[f"show {name}"] = call("show", store, "--format", "json")
            found[f"verify {name}"] = call("verify", store, "--claim", "dp(epsilon=0.5)", "--format", "json")
            found[f"delta {name}"] = call("show", store, "--delta", "0.1", "--format", "json")
            if name in ("knn", "frequency", "vector"):
                audit = ("audit", study, "--claim", "gaussian(mu=0.3)", "--store", store, "--format", "json")
                if run:
                    found[f"audit {name}"] = call(*audit, *place)
    Path(sys.argv[2], "found.json").write_text(json.dumps(found))
"""


def changes(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each (path, old, new) that differs between two parsed JSON values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from changes(old.get(key, _NONE), new.get(key, _NONE), f"{path}.{key}")
    elif (
        isinstance(old, list)
        and isinstance(new, list)
        and len(old) == len(new)
        and path.rpartition(".")[2] != "warnings"
    ):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from changes(a, b, f"{path}[{i}]")
    elif old != new or type(old) is not type(new):
        yield path, old, new


def is_allowed(path: str, old: Any, new: Any) -> bool:
    """Whether a value may differ so: of a name that is free, and no bound that falls."""
    name = path.rpartition(".")[2].partition("[")[0]
    if name == "lower":
        return isinstance(old, float | int) and isinstance(new, float | int) and new >= old
    return name in FREE or (name in ADDED and old == _NONE)


def write_studies(folder: Path, names: list[str]) -> None:
    """The study files, and the module of their mechanisms."""
    (folder / "own.py").write_text(_OWN)
    for name in names:
        (call, parameters, pairs), estimate = STUDIES[name]
        keys = "\n".join(f"{key} = {_toml(value)}" for key, value in estimate.items())
        text = f'[study]\nname = "{name}"\nseed = 20240520\n[mechanism]\ncall = "{call}"\nparameters = {parameters}\n'
        (folder / f"{name}.toml").write_text(f"{text}[pairs]\n{pairs}\n[estimate]\n{keys}\n")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


def printed(checkout: Path, folder: Path, stores: Path, names: list[str], run: bool) -> dict[str, list[Any]]:
    """[exit code, standard output] of each command by the code of a checkout, which is run by its own .venv if it has one."""
    own = checkout / ".venv" / "bin" / "python"
    child = folder / "child.py"
    child.write_text(_CHILD)
    stores.mkdir(exist_ok=True)
    command = [str(own if own.exists() else sys.executable), str(child), str(folder), str(stores)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    arguments = [*command, "run" if run else "show", *names]
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr[-3000:]}")
    found: dict[str, list[Any]] = json.loads((stores / "found.json").read_text())
    return found


def cut(stores: Path, names: list[str], into: Path) -> None:
    """Copies of stores as they were when half of their records had been written."""
    for name in names:
        halve(Path(shutil.copytree(stores / f"{name}.zarr", into / f"{name}.zarr")))


def other_records(old: Path, new: Path) -> tuple[int, list[str]]:
    """How many records two stores hold; those not equal byte for byte, or that one of them lacks. What runs say of themselves
    is no record of a result; of the results' head, the version of the bounds and what is free to differ may."""
    lines = [committed(store) for store in (old, new)]
    names = lines[0].keys() | lines[1].keys()
    other = {name for name in names if lines[0].get(name) != lines[1].get(name)}
    heads = [_head(store) for store in (old, new)]
    if heads[0] != heads[1]:
        other.add(HEAD)
    return len(names) + (heads != [None, None]), sorted(other)


def _head(store: Path) -> Any:
    """The head of a store's results without what may differ; None where there is none."""
    if not (store / HEAD).is_file():
        return None
    body = json.loads((store / HEAD).read_text())["body"]
    body.pop("bounds", None)  # of the first stores without it
    body["digests"] = {name: v for name, v in body["digests"].items() if name.removeprefix("spectrum_") not in FREE}
    return body


def compare(old: dict[str, list[Any]], new: dict[str, list[Any]], title: str) -> int:
    """Print every difference; how many may not be."""
    bad = 0
    for name in old:
        if name not in new:
            continue
        pairs = [("exit code", old[name][0], new[name][0])] if old[name][0] != new[name][0] else []
        if len(old[name]) > 1:
            pairs += list(changes(*(json.loads(side[name][1] or "null") for side in (old, new))))
        wrong = [item for item in pairs if not is_allowed(*item)]
        raised = [b / a - 1 for path, a, b in pairs if path.endswith(".lower") and is_allowed(path, a, b) and a]
        print(f"{title}, {name}: {len(pairs)} differences, {len(wrong)} of them may not be" + (
            f"; {len(raised)} bounds rise, by up to {100 * max(raised):.3g} %" if raised else ""))  # fmt: skip
        for path, a, b in pairs:
            mark = "" if is_allowed(path, a, b) else "  WRONG"
            print(f"  {path}: {_short(a)} -> {_short(b)}{mark}")
        bad += len(wrong)
    return bad


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, float) and math.isfinite(value) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."


def main() -> int:
    """Run, compare, print; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.json_changes", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--only", nargs="+", choices=list(STUDIES), default=list(STUDIES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hpcdp-json-") as name:
        folder = Path(name)
        write_studies(folder, options.only)
        old = printed(options.old.resolve(), folder, folder / "old", options.only, run=True)
        new = printed(options.new.resolve(), folder, folder / "new", options.only, run=True)
        cut(folder / "old", options.only, folder / "begun")
        begun = printed(options.new.resolve(), folder, folder / "begun", options.only, run=True)
        other = {
            name: other_records(*(folder / side / f"{name}.zarr" for side in ("old", "begun"))) for name in options.only
        }
        shown = printed(options.new.resolve(), folder, folder / "old", options.only, run=False)
        bad = sum(len(found) for _, found in other.values())
        for name, (count, found) in other.items():
            print(
                f"begun by the old, {name}: {len(found)} of {count} records differ{': ' if found else ''}{', '.join(found[:5])}"
            )
    bad += compare(old, new, "new run") + compare(old, shown, "old store") + compare(old, begun, "begun by the old")
    return min(1, bad)


if __name__ == "__main__":
    sys.exit(main())
