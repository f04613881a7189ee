"""A method of another package, as docs/extending.md writes it: it runs, goes on and shows, and its bounds hold."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from journals import records

from hpcdp.analytic import LaplaceShift

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
LEVELS = [0.0, 0.5, 0.9]
STUDY = """
study = { name = "hashed", seed = 3 }
mechanism = { call = "laplace", parameters = { epsilon = 1.0 } }
pairs = { given = [ { d = [0.0], d_prime = [1.0] } ] }
[estimate]
method = "hashed"
keep = "none"
"""


class Site:
    """A folder of installed packages with the page's method, and commands that see it."""

    def __init__(self, folder: Path, change: tuple[str, str] = ("", "")) -> None:
        self.folder, site = folder, folder / "site"
        (site / "own-1.0.dist-info").mkdir(parents=True)
        page = PAGE.read_text()
        for name, code in re.findall(r"<!-- file: (\w+\.py) -->\n```python\n(.*?)```", page, re.DOTALL):
            assert change[0] in code or name != "hashed_method.py"
            (site / name).write_text(code.replace(*change) if change[0] else code)
        (site / "own-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
        groups = re.findall(r'^\[project\.entry-points\."(.*)"\]\n(.*) = "(.*)"$', page, re.MULTILINE)
        assert len(groups) == 6
        lines = "".join(f"[{group}]\n{name} = {where}\n" for group, name, where in groups)
        (site / "own-1.0.dist-info" / "entry_points.txt").write_text(lines)
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(PAGE.parents[1])])}

    def call(self, *words: object, code: int = 0) -> str:
        command = [sys.executable, "-m", "hpcdp", *map(str, words)]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def study(self, **estimate: object) -> Path:
        """A study of Laplace noise that names the method."""
        sizes = {"train": 100_000, "test": 100_000, "chunk": 10_000, "epsilons": LEVELS, **estimate}
        path = self.folder / "study.toml"
        path.write_text(STUDY + "".join(f"{key} = {value}\n" for key, value in sizes.items()))
        return path


@pytest.mark.promise
@pytest.mark.slow
def test_a_method_of_another_package_runs_goes_on_and_shows(tmp_path: Path) -> None:
    site = Site(tmp_path)
    study = site.study()
    assert re.search(r"tasks +\d+ hash", site.call("plan", study))
    site.call("run", study, "--store", "s.zarr", "--workers", 0)
    first = json.loads(site.call("show", "s.zarr", "--format", "json"))
    exact = LaplaceShift(1.0).delta(np.array(LEVELS), "forward")
    for row, delta in zip(first["spectrum"], exact, strict=True):
        assert 0.0 < row["lower"] <= delta
    assert "count test" in site.call("status", "s.zarr")
    before = {record: record.read_bytes() for record in records(tmp_path / "s.zarr", "counts")}
    site.call("run", site.study(test=150_000), "--store", "s.zarr", "--workers", 0)  # counts of full chunks serve again
    assert {record: record.read_bytes() for record in before} == before
    long = site.study(train=10**9, test=10**9, chunk=10**6)  # counted in many tasks, before which nothing is learned
    assert re.search(r"tasks +\d\d+ hash\n", site.call("plan", long, "--workers", 2))
    more = json.loads(site.call("show", "s.zarr", "--format", "json"))
    assert {tuple(cell["test"]) for cell in more["cells"]} == {(150_000, 150_000)}
    site.call("verify", "s.zarr", "--claim", "dp(epsilon=1)")
    site.call("plot", "s.zarr", "-o", tmp_path / "s.png")


@pytest.mark.slow
def test_a_method_that_takes_sets_from_test_samples_is_caught(tmp_path: Path) -> None:
    """A planted fault: sets that the test samples chose themselves show more than δ where δ is 0."""
    exceeds = []
    for name, change in (
        ("good", ("", "")),
        ("bad", ("return entries_of_outcomes(problem, training,", "return entries_of_outcomes(problem, test,")),
    ):
        site = Site(tmp_path / name, change)
        study = site.study(train=2_000, test=2_000, chunk=1_000, epsilons=[1.0])
        site.call("run", study, "--store", "s.zarr", "--workers", 0)
        shown = json.loads(site.call("show", "s.zarr", "--format", "json"))
        exceeds.append(shown["spectrum"][0]["delta"])
    assert exceeds[0] < exceeds[1]


@pytest.mark.slow
def test_all_that_another_package_offers_is_found_by_name(tmp_path: Path) -> None:
    site = Site(tmp_path)
    study = site.study(train=4_000, test=4_000, chunk=1_000)
    body = study.read_text().replace('method = "hashed"', 'loss = "linear"').replace('"laplace"', '"noise"')
    study.write_text(body)
    site.call("run", study, "--store", "s.zarr", "--workers", 0)
    spectrum = json.loads(site.call("show", "s.zarr", "--format", "json"))["spectrum"]
    assert site.call("show", "s.zarr", "--format", "plain") == "".join(
        f"{row['epsilon']:g} {row['lower']:.3f}\n" for row in spectrum
    )
    (row,) = json.loads(site.call("show", "s.zarr", "--notion", "variation", "--format", "json"))["variation"]
    exact = float(LaplaceShift(1.0).delta(np.zeros(1), "forward")[0])
    assert 0.0 < row["lower"] == max(one["lower"] for one in spectrum) <= exact
    assert "certified ≥" in site.call("show", "s.zarr", "--notion", "variation")
    assert "--delta, --notion: accepted: one of them; given: both" in site.call(
        "show", "s.zarr", "--notion", "variation", "--delta", 0, code=2
    )
    site.call("verify", "s.zarr", "--claim", "shifted(epsilon0=1)")
    site.call("verify", "s.zarr", "--claim", "shifted(epsilon0=0.1)", code=3)


def test_an_unknown_method_is_refused(tmp_path: Path) -> None:
    site = Site(tmp_path)
    study = site.study()
    study.write_text(study.read_text().replace('"hashed"\nkeep', '"hashes"\nkeep'))
    assert "estimate.method: hashed; given: 'hashes'" in site.call("plan", study, code=2)
