"""Workers that do not see the disk with the store and the study's folder, and where that can be, of another Unix user."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster
from golden_studies import STUDIES

from hpcdp import Study, run
from hpcdp.errors import PlaceError
from hpcdp.store.copies import StoreCopy
from hpcdp.store.layout import Layout

ROOT = Path(__file__).parents[2]
USER = "nobody"

SOME = ("frequency", "mixed", "called-pairs", "distributional", "learned", "literal", "target-epsilon", "tape-rows")


@pytest.fixture(scope="module", name="hidden")
def hidden_fixture() -> Iterator[Path]:
    """A folder with the golden studies' modules, that the worker does not see."""
    with tempfile.TemporaryDirectory() as folder:
        for path in (ROOT / "tests" / "golden").glob("*.py"):
            shutil.copy(path, folder)
        yield Path(folder)


@pytest.fixture(scope="module", name="strange")
def strange_fixture(hidden: Path) -> Iterator[Client]:
    """A client whose one worker sees nothing of the folder."""
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        missing = "needs a mount namespace (root)"
        if os.environ.get("HPCDP_REQUIRE_STRANGER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
    ):
        Path(folder).chmod(0o1777)
        script = ROOT / "tests" / "support" / "diskless.py"
        words = [sys.executable, str(script), str(hidden), cluster.scheduler_address, folder, USER]
        worker = subprocess.Popen(["unshare", "-m", *words])
        try:
            with Client(cluster, set_as_default=False) as client:
                client.wait_for_workers(1, timeout=60)
                assert client.run(os.listdir, str(hidden)).popitem()[1] == []
                yield client
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.wait()


@pytest.fixture(name="own")
def own_fixture(hidden: Path) -> Iterator[Path]:
    """A new folder for stores, hidden too."""
    with tempfile.TemporaryDirectory(dir=hidden) as folder:
        yield Path(folder)


def copies(client: Client) -> list[str]:
    """Copies that the worker has."""
    (folder,) = (worker["local_directory"] for worker in client.scheduler_info()["workers"].values())
    return [name for name in client.run(os.listdir, folder).popitem()[1] if name.startswith("hpcdp-")]


def golden(name: str, folder: Path, **estimate: Any) -> Study:
    """A golden study that keeps no samples."""
    given = STUDIES[name]
    head = {"name": name, "seed": 1, **given["study"]}
    return Study.from_dict(
        {**given, "study": head, "estimate": {**given["estimate"], "keep": "none", **estimate}}, folder
    )


def same(left: Path, right: Path) -> bool:
    """Whether the results of two stores are equal to the bit."""
    found = [
        json.loads((store / "records" / "results.json").read_bytes())["body"]["digests"] for store in (left, right)
    ]
    return found[0] == found[1] and len(found[0]) > 3


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in SOME else pytest.mark.slow) for n in STUDIES if n != "reuse"]
)
def test_the_result_is_that_of_one_process(strange: Client, own: Path, name: str) -> None:
    study, before = golden(name, own.parent), copies(strange)  # of a driver that another test killed
    run(study, own / "here.zarr", workers=0)
    run(study, own / "there.zarr", client=strange)
    assert same(own / "here.zarr", own / "there.zarr")
    assert copies(strange) == before  # they end with their runs


def test_what_is_learned_comes_back_whatever_its_size(strange: Client, own: Path) -> None:
    study = golden("race", own.parent, train=200_000)
    run(study, own / "here.zarr", workers=0)
    run(study, own / "there.zarr", client=strange)
    assert same(own / "here.zarr", own / "there.zarr")
    (pilot,) = (own / "there.zarr" / "pilots").glob("*.npz")
    assert pilot.stat().st_size > 1 << 20
    assert pilot.read_bytes() == next((own / "here.zarr" / "pilots").glob("*.npz")).read_bytes()


def test_folders_that_are_not_sent(tmp_path: Path) -> None:
    """Of a home with large packages there is no copy; what is gone, or cannot be read, is left out."""
    run(golden("frequency", ROOT / "tests" / "golden"), tmp_path / "s.zarr", workers=0)
    layout, folder = Layout(tmp_path / "s.zarr"), tmp_path / "home"
    gone = StoreCopy.of(layout, 1, folder, True, None)
    (folder / "package").mkdir(parents=True)
    (folder / "own.py").write_text("")
    (folder / "loop.py").symlink_to("loop.py")
    (folder / "package" / "__init__.py").write_text("")
    found = StoreCopy.of(layout, 1, folder, True, None)
    assert found.files.keys() - gone.files.keys() == {"modules/own.py", "modules/package/__init__.py"}
    with (folder / "package" / "large.py").open("wb") as file:
        file.truncate(65 << 20)
    assert StoreCopy.of(layout, 1, folder, True, None) is None
    assert StoreCopy.of(layout, 1, folder, False, None) == gone


def test_kept_samples_need_the_disk(strange: Client, own: Path) -> None:
    study = golden("knn", own.parent, keep="all")
    with pytest.raises(PlaceError, match=r"cannot write to .*accepted: a store that all workers see, or estimate.keep"):
        run(study, own / "s.zarr", client=strange)
    run(study, own / "s.zarr")
    run(study, own / "whole.zarr")
    assert same(own / "s.zarr", own / "whole.zarr")
