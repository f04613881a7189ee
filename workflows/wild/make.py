"""Check released libraries for bugs that were published: python workflows/wild/make.py [CASE ...]

Goes on where it was. Writes each case's result.json and plot, and the tables of docs/wild.md.
Exit code 1: a verdict is not what it should be.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from cases import EXPECTED, FOLDER, Case, read_cases
from environments import CannotInstall, make_environment, pin
from page import write_page
from PIL import Image

ROOT = FOLDER.parents[1]


def run_side(case: Case, side: str, seeds: int, out: Path) -> list[dict[str, Any]]:
    """The runs of one release with the seeds 1, 2, …; those that are there already are not done again."""
    folder = out / case.name / f"{side}-{case.digest(side)}"
    folder.mkdir(parents=True, exist_ok=True)
    environment = make_environment(case.folder / f"{side}.txt", case.told["python"], out / "environments")
    link = folder / "env"
    link.unlink(missing_ok=True)
    link.symlink_to(environment)
    shutil.copyfile(case.folder / "mechanism.py", folder / "mechanism.py")
    (folder / "serve.py").write_bytes((ROOT / "hpcdp" / "serve.py").read_bytes())
    return [run_seed(case, side, seed, folder) for seed in range(1, seeds + 1)]


def run_seed(case: Case, side: str, seed: int, folder: Path) -> dict[str, Any]:
    """One run and its verdict, from its file if it has one."""
    kept = folder / f"seed-{seed}.json"
    if not kept.exists():
        study = folder / f"seed-{seed}.toml"
        text = (case.folder / "study.toml").read_text(encoding="utf-8")
        study.write_text(re.sub(r"(?m)^seed = \d+", f"seed = {seed}", text, count=1), encoding="utf-8")
        store, start = folder / f"seed-{seed}.zarr", time.monotonic()
        _hpcdp(["run", str(study), "--store", str(store), "--no-plot"], (0,))
        seconds = time.monotonic() - start
        verdict = json.loads(_hpcdp(["verify", str(store), "--format", "json"], (0, 3)))
        kept.write_text(json.dumps({"seed": seed, "seconds": round(seconds, 1), **_summary(verdict)}), encoding="utf-8")
        if seed == 1:
            _hpcdp(["plot", str(store), "-o", str(folder / f"{side}.png")], (0,))
        shutil.rmtree(store)
    if seed == 1 and side == case.sides[0]:
        with Image.open(folder / f"{side}.png") as picture:
            picture.convert("RGB").quantize(32).save(case.folder / "plot.png", optimize=True)
    return json.loads(kept.read_text(encoding="utf-8"))


def _hpcdp(arguments: list[str], codes: tuple[int, ...]) -> str:
    """What a command of hpcdp prints; in this process, since starting takes longer than most runs. Raises RuntimeError."""
    from hpcdp.cli.command import main as hpcdp

    printed, said = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(said):
        code = hpcdp(arguments)
    if code not in codes:
        raise RuntimeError(f"hpcdp {' '.join(arguments[:2])}: exit code {code}: {said.getvalue().strip()[-600:]}")
    return printed.getvalue()


def _summary(verdict: dict[str, Any]) -> dict[str, Any]:
    """The verdict, and the entry whose certified bound is farthest above the claim, or nearest below it."""
    cell = max(verdict["cells"], key=lambda cell: cell["lower"] - cell["claimed"])
    numbers = {name: float(f"{cell[name]:.6g}") for name in ("epsilon", "lower", "claimed")}
    return {"verdict": verdict["verdict"], "confidence": verdict["confidence"], **numbers}


def run_case(case: Case, seeds: dict[str, int], out: Path) -> bool:
    """Run a case and keep its results; whether every verdict is what it should be.

    A release that cannot be installed here keeps the results that it had.
    """
    results = case.results()
    for side in case.sides:
        try:
            results[side] = run_side(case, side, seeds[side], out)
        except CannotInstall as error:
            print(f"{case.name} {side}: not run: {error}", flush=True)
            continue
        found = [run["verdict"] for run in results[side]]
        line = ", ".join(f"{found.count(verdict)} {verdict}" for verdict in sorted(set(found)))
        print(f"{case.name} {side}: {line}; expected: {EXPECTED[side]}", flush=True)
        text = re.sub(r"\n {3,}", " ", json.dumps(results, indent=1)).replace("\n  }", " }")
        (case.folder / "result.json").write_text(text + "\n", encoding="utf-8")
    return all((run["verdict"] == "violation") == (side == "red") for side, runs in results.items() for run in runs)


def main(arguments: list[str]) -> int:
    """Run the cases that are named, or all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--red", type=int, default=2, metavar="N", help="seeds of releases with the bug (default: 2)")
    parser.add_argument("--green", type=int, default=3, metavar="N", help="seeds of mended releases (default: 3)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "wild", help="environments and runs")
    parser.add_argument("--page", action="store_true", help="write the page from kept results only")
    parser.add_argument("--pin", action="store_true", help="only choose the packages of the cases anew, with uv")
    options = parser.parse_args(arguments)
    if options.pin:
        for case in read_cases(options.cases):
            for side in case.releases:
                alone = case.told.get("without_dependencies", False)
                pin(case.packages(side), case.told["python"], case.folder / f"{side}.txt", alone)
        return 0
    right = True
    for case in [] if options.page else read_cases(options.cases):
        try:
            right &= run_case(case, {"red": options.red, "green": options.green}, options.out.resolve())
        except RuntimeError as error:
            print(f"{case.name}: {error}", flush=True)
            right = False
    write_page(ROOT / "docs" / "wild.md", read_cases())
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
