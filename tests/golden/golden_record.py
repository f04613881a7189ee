"""The golden record: what the golden studies give, entry by entry, and how another measurement differs from it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from golden_studies import SEEDS, STUDIES

import hpcdp

HERE = Path(__file__).resolve().parent
RECORD = HERE / "record.json"
RELATIVE, FIXED = (
    1e-9,
    1 << 40,
)  # integers above the latter are sums of logarithms in fixed point: processors round these too
TRAINED = {"learned": 0.05, "network": 0.05, "relative-edit": 0.05, "tape": 0.05}
"""Studies whose L̂ or proposals rest on sums that processors add up differently; by which share of the samples they may differ."""

COMMANDS: dict[str, list[str]] = {
    "refused": ["run", "refused.toml", "--store", "refused.zarr"],
    "run": ["run", "two_people.toml", "--store", "a.zarr", "--workers", "0", "--no-plot"],
    "run other": ["run", "half.toml", "--store", "b.zarr", "--workers", "0", "--no-plot"],
    "show": ["show", "a.zarr", "--format", "json"],
    "csv": ["show", "a.zarr", "--format", "csv"],
    "delta": ["show", "a.zarr", "--delta", "0.05", "--delta", "0", "--format", "json"],
    "renyi": ["show", "a.zarr", "--renyi", "2", "--zcdp", "--format", "json"],
    "risk of one": ["show", "a.zarr", "--risk", "0.5", "--format", "json"],
    "verify": ["verify", "a.zarr", "--claim", "dp(epsilon=0.1)", "--claim", "laplace(epsilon=1)", "--format", "json"],
    "consistent": ["verify", "b.zarr", "--format", "json"],
    "audit": ["audit", "two_people.toml", "--store", "a.zarr", "--claim", "gaussian(mu=0.2)", "--workers", "0",
              "--no-plot", "--format", "json"],
    "sequential": ["audit", "two_people.toml", "--sequential", "--store", "c.zarr", "--claim", "gaussian(mu=0.2)",
                   "--batch", "100", "--budget", "1000", "--workers", "0", "--no-plot", "--format", "json"],
    "several looks": ["audit", "two_people.toml", "--sequential", "--store", "c.zarr", "--claim", "gaussian(mu=0.4)",
                      "--batch", "50", "--budget", "300", "--workers", "0", "--no-plot", "--format", "json"],
    "compare": ["compare", "a.zarr", "b.zarr", "-o", "compared.png", "--format", "json"],
    "at risk": ["risk", "at_risk.toml", "--store", "r.zarr", "--workers", "0", "--no-plot"],
    "show risk": ["show", "r.zarr", "--format", "json"],
}  # fmt: skip
"""In this order, in one folder, each with its exit code and, where it prints JSON or CSV, that."""


def measure(name: str, seed: int) -> dict[str, Any]:
    """What one golden study gives, in this process, and what claims, orders and levels say of it."""
    given = STUDIES[name]
    study = hpcdp.Study.from_dict({**given, "study": {"name": name, "seed": seed, **given["study"]}}, HERE)
    with tempfile.TemporaryDirectory() as folder:
        result = hpcdp.run(study, f"{folder}/s.zarr", workers=0)
        found = json.loads(result.to_json())
        if result.spectrum():
            level = result.epsilon_at(0.05)
            found["epsilon at 0.05"] = [level.estimate, level.lower]
            found["claims"] = [hpcdp.verify(result, claim).verdict for claim in ("dp(epsilon=0.2)", "gaussian(mu=1)")]
        if found.get("tradeoff") and name != "literal":
            audited = hpcdp.audit(result, "gaussian(mu=0.3)")
            found["audit"] = [audited.verdict, *audited.bounds.mu]
        if name in ("knn", "dependent"):  # a claim that is its own inverse, and one that is not
            for key, claim in (("dp", "dp(epsilon=3)"), ("slanted", f"file({HERE / 'slanted.csv'})")):
                audits = [hpcdp.audit(result, claim, side) for side in ("both", "forward", "reverse")]
                found[f"verdicts of {key}"] = [audited.verdict for audited in audits]
                found[f"boxes of {key}"] = [vars(box) for audited in audits for box in audited.boxes]
        if name in ("knn", "smooth"):
            one = hpcdp.Spectrum.of(result)
            for how in (hpcdp.sequential, hpcdp.parallel, hpcdp.union):
                both = how(one, one).at([0.0, 0.7, 1.0])
                found[how.__name__] = [both.confidence, *both.delta.tolist(), *both.lower.tolist()]
    warned = (
        {} if name in TRAINED else {f"{name}/{seed}/warnings": result.warnings}
    )  # of which other processors say other numbers
    return dict(_entries(f"{name}/{seed}", found)) | warned


def measure_commands(folder: Path) -> dict[str, Any]:
    """Exit codes and JSON of `COMMANDS`, run in a folder."""
    for path in (*HERE.glob("*.toml"), HERE / "mechanisms.py"):
        (folder / path.name).write_bytes(path.read_bytes())
    found: dict[str, Any] = {}
    for name, arguments in COMMANDS.items():
        ended = subprocess.run(
            [sys.executable, "-m", "hpcdp", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        found[f"command {name}/exit code"] = ended.returncode
        if "json" in arguments:
            try:
                found |= _entries(f"command {name}", json.loads(ended.stdout))
            except json.JSONDecodeError:
                found[f"command {name}/no JSON"] = ended.stderr.strip().rpartition("\n")[2]
        elif "csv" in arguments:
            found |= _entries(f"command {name}", [line.split(",") for line in ended.stdout.splitlines()])
    return found


def measure_all() -> dict[str, Any]:
    """The whole record."""
    found: dict[str, Any] = {}
    for name in STUDIES:
        for seed in SEEDS:
            found |= measure(name, seed)
    with tempfile.TemporaryDirectory() as folder:
        return found | measure_commands(Path(folder))


def recorded() -> dict[str, Any]:
    """What is recorded, by path."""
    entries: dict[str, Any] = json.loads(RECORD.read_text())
    return entries


def write(found: Mapping[str, Any]) -> None:
    """Record this, an entry a line."""
    lines = ",\n".join(f"{json.dumps(path)}: {json.dumps(value)}" for path, value in found.items())
    RECORD.write_text(f"{{\n{lines}\n}}\n")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """A line for each value that differs: integers, words and exit codes in anything, floats by more than `RELATIVE`."""
    for path in dict.fromkeys([*before, *now]):
        share = TRAINED.get(path.split("/")[0], 0.0)
        if path not in before or path not in now:
            yield f"{path}: {'recorded, now nothing' if path in before else f'not recorded, now {json.dumps(now[path])}'}"
        else:
            yield from _differences(path, before[path], now[path], share)


def _entries(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """An entry for each row of each table; prose is none."""
    parts = (
        {key: part for key, part in value.items() if key != "warnings"}
        if isinstance(value, dict)
        else dict(enumerate(value))
    )
    if any(isinstance(part, dict) or (isinstance(part, list) and _has_rows(part)) for part in parts.values()):
        for key, part in parts.items():
            yield from _entries(f"{path}/{key}", part) if isinstance(part, dict | list) else [(f"{path}/{key}", part)]
    else:
        yield path, value


def _has_rows(table: list[Any]) -> bool:
    return any(isinstance(row, dict | list) for row in table)


def _differences(path: str, a: Any, b: Any, share: float) -> Iterator[str]:
    """Down to the keys and places whose values differ."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        a, b = dict(enumerate(a)), dict(enumerate(b))
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key in a:
            yield from _differences(f"{path}/{key}", a[key], b[key], share)
    elif not _alike(a, b, share):
        yield f"{path}: recorded {json.dumps(a)}, now {json.dumps(b)}"


def _alike(a: Any, b: Any, share: float) -> bool:
    if share and isinstance(a, bool | int | float) and isinstance(b, bool | int | float):
        return isinstance(a, bool) or abs(a - b) <= share * max(1.0, abs(a), 3000.0 if isinstance(a, int) else 0.0)
    if (isinstance(a, float) and isinstance(b, float)) or (
        isinstance(a, int) and isinstance(b, int) and abs(a) > FIXED
    ):
        return math.isclose(a, b, rel_tol=RELATIVE)
    return type(a) is type(b) and bool(a == b)
