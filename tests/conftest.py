"""Settings and clusters that all tests share."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alarms import within
from compiled import cache_folder
from hypothesis import settings
from reached import reached

if TYPE_CHECKING:
    from distributed import Client

# The same examples in every run, and no time limit, which would measure how busy the machine is.
settings.register_profile("hpcdp", derandomize=True, deadline=None, database=None)
settings.load_profile("hpcdp")

os.environ["COLUMNS"] = "120"  # sentences are wrapped as where the output is no terminal

LONGEST = 600.0  # seconds that a step of a test takes at most


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """What hangs fails, and says where it was."""
    with limited(item):
        return (yield)


pytest_runtest_call = pytest_runtest_teardown = pytest_runtest_setup


def limited(item: pytest.Item) -> AbstractContextManager[None]:
    """A limit for a step of a test, but for those whose point is that they are long."""
    return nullcontext() if item.get_closest_marker("release") else within(LONGEST, item.nodeid)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options for a random order and for one case of each test."""
    parser.addoption("--first", action="store_true", help="run one case of each test, and none on a cluster")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of each, in a random order")


@pytest.hookimpl(tryfirst=True)  # before pytest looks at marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Apply both options and the mark `few`. Files are shuffled whole, so that a fixture of a file is still made once."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("slow"):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for family in families.values():
        kept = {0, (len(family) - 1) // 2, len(family) - 1}
        for number, case in enumerate(family):
            if number not in kept:
                case.add_marker(pytest.mark.slow)
    if config.option.first:
        cases: dict[str, list[pytest.Item]] = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        first = [case for case, *_ in cases.values() if "client" not in getattr(case, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in first])
        items[:] = first
    if (seed := config.option.shuffle) is not None:
        rng, files = random.Random(seed), sorted({item.path for item in items})
        rng.shuffle(files)
        places = {path: place for place, path in enumerate(files)}
        rng.shuffle(items)
        items.sort(key=lambda item: places[item.path])


def pytest_configure(config: pytest.Config) -> None:
    """Keep windows, and Dask's configuration files, away from whoever runs the tests."""
    os.environ["MPLBACKEND"] = "Agg"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what is to run in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # where jobs on this machine keep them too: compiling them all takes a minute, and there would be two copies
    folder = tempfile.TemporaryDirectory(prefix="hpcdp-dask-")
    config.add_cleanup(folder.cleanup)
    os.environ["DASK_CONFIG"] = folder.name  # importing dask-jobqueue writes into this folder
    os.environ["NUMBA_CACHE_DIR"] = str(cache_folder())


ROOT = Path(__file__).resolve().parents[1]  # which may itself lie below the folder for temporary files


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[object]:
    """Modules of studies' folders that a test imports are loaded in no other, as in processes of their own."""
    path = list(sys.path)
    done = yield
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        with suppress(Exception):  # some modules raise what they like when they are asked for anything
            places = getattr(module, "__path__", None) or [getattr(module, "__file__", None)]
            if any(
                str(place).startswith(tempfile.gettempdir()) and ROOT not in Path(place).parents for place in places
            ):
                sys.modules.pop(name, None)
    return done


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """In CI, print what passing tests print: pytest's own -rP looks at all tests for each of them, a minute for 4,000."""
    for report in terminalreporter.getreports("passed") if os.environ.get("CI") == "true" else []:
        if report.capstdout:
            terminalreporter.write_line(f"{report.nodeid}\n{report.capstdout}")


@pytest.fixture(scope="session", name="client")
def client_fixture() -> Iterator[Callable[[], Client]]:
    """A client of a local cluster of two workers of one thread, started when one is first asked for."""
    from hpcdp.clusters.scheduler import open_local  # Dask reads its configuration's place when it is imported

    with ExitStack() as ending:
        yield cache(lambda: ending.enter_context(open_local(2)).client)


@pytest.fixture(scope="session", name="scheduler")
def scheduler_fixture() -> Iterator[str]:
    """The address of a scheduler with two workers, for commands that need no processes of their own."""
    with reached() as address:
        yield address
