"""A canary in the databases: no message, status, log, record, page or export shows it, unless --show-rows asks for contents."""

from __future__ import annotations

import json
import re
import struct
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call

import hpcdp._base.doing
from hpcdp.errors import StudyError
from hpcdp.mechanisms import load_builtin
from hpcdp.results.load import load_result
from hpcdp.study.file import Study
from hpcdp.study.problem import describe_pairs
from hpcdp.study.resolving import resolve

CANARY = 7431957.25
FOUND = re.compile(r"7,?431,?957|7\.43(19|2)|0x1\.c59d5")  # in full, in thousands, rounded, and as float.hex has it
BYTES = [struct.pack(order + "d", CANARY) for order in "<>"]

OWN = """
import time

import numpy as np

from hpcdp.keys import stream

TRIALS = [stream(1, "0" * 32, None, number).bit_generator.state["state"]["state"] for number in range(9)]

def noisy(database, size, rng):
    return rng.laplace(size=size)

def failing(database, size, rng):
    if rng.bit_generator.state["state"]["state"] not in TRIALS:
        raise ValueError("no luck")
    return noisy(database, size, rng)

def slow(database, size, rng, slept=[]):
    if not slept:  # in the first of the trial draws
        slept.append(True)
        time.sleep(11.5)
    return noisy(database, size, rng)

def integers(size, rng):
    return np.zeros((size, 3), np.int64)

def reals(size, rng):
    return np.zeros((size, 3))

def own_utility(database, outcomes):
    return database
"""

EDITS = {"relative": {"databases": [[CANARY, 1.0]], "relation": "edit"}}
GIVEN = {"given": [{"d": [CANARY], "d_prime": [CANARY, 1.0]}]}


def body(pairs: dict[str, Any], call: str = "own:noisy", **more: Any) -> dict[str, Any]:
    sizes = {"train": 60, "test": 60, "chunk": 30, "epsilons": [0.0, 1.0], "etas": [1.0], **more.pop("estimate", {})}
    head = {"name": "s", "seed": 1, "stream": "numpy", "claim": "dp(epsilon=1)"}
    return {"study": head, "mechanism": {"call": call, **more}, "pairs": pairs, "estimate": sizes}


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


def write(path: Path, study: dict[str, Any]) -> Path:
    path.write_text("".join(f"{name} = {toml(section)}\n" for name, section in study.items()))
    return path


def prints(*words: Any, code: int | None = 0) -> str:
    done = call(*words, code=code)
    return done.stdout + done.stderr


@pytest.fixture(scope="module", name="ground")
def ground_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two studies whose databases hold the canary, the store of each, and what each run printed."""
    ground = tmp_path_factory.mktemp("canary")
    (ground / "own.py").write_text(OWN)
    for name, study, code in (("edited", body(EDITS), 0), ("failed", body(GIVEN, "own:failing"), 1)):
        place = ("--store", ground / f"{name}.zarr", "--workers", "0", "--no-plot")
        (ground / f"{name}.said").write_text(prints("run", write(ground / f"{name}.toml", study), *place, code=code))
    logs = ground / "edited.zarr" / "jobs" / "logs"
    logs.mkdir(parents=True)
    (logs / "driver-1.log").write_text((ground / "failed.said").read_text())
    return ground


def refused(study: dict[str, Any], folder: Path) -> str:
    """The traceback of what refuses a study, before or in its trial draws."""
    with pytest.raises(StudyError) as caught:
        resolve(Study.from_dict(study, folder))
    return "".join(traceback.format_exception(caught.value))


def refused_file(ground: Path, pairs: str) -> str:
    (ground / "wrong.toml").write_text(
        f'[study]\nname = "s"\nseed = 1\n[mechanism]\ncall = "own:noisy"\n[estimate]\nepsilons = [1.0]\n[pairs]\n{pairs}\n'
    )
    return prints("plan", ground / "wrong.toml", code=2)


def slow(ground: Path, pairs: dict[str, Any]) -> str:
    notes: list[str] = []
    resolve(Study.from_dict(body(pairs, "own:slow"), ground), notes.append)
    assert any(note.startswith("still drawing") for note in notes)
    return "\n".join(notes)


def table_of(ground: Path, text: str) -> str:
    (ground / "table.csv").write_text(text)
    return refused(body({"relative": {"file": "table.csv"}}), ground)


def held(name: str, values: list[Any]) -> dict[str, Any]:
    return {"distributional": {"call": f"own:{name}", "index": [1], "values": values}}


def described(ground: Path, pairs: dict[str, Any]) -> str:
    """What every law and pair is called in messages, and what Python shows of the objects in a notebook or a log."""
    study = Study.from_dict(body(pairs), ground)
    problem, _ = resolve(study)
    found = [*map(problem.describe_law, problem.laws), describe_pairs(problem, [0]), repr(study), repr(problem)]
    return "\n".join([*found, *map(repr, problem.pairs)])


def builtin(name: str, database: Any, **parameters: Any) -> str:
    with pytest.raises(ValueError, match="accepted") as caught:
        load_builtin(name)(np.asarray(database), 4, np.random.default_rng(0), **parameters)
    return str(caught.value)


def utility(ground: Path) -> str:
    parameters = {"outcomes": [0, 1, 2], "epsilon": 1.0, "sensitivity": 1.0, "utility": "own:own_utility"}
    return refused(body(GIVEN, "exponential", parameters=parameters), ground)


def exported(ground: Path) -> str:
    prints("export", ground / "edited.zarr", ground / "copy")
    data = [path.read_bytes() for path in (ground / "copy").iterdir()]
    assert len(data) > 3
    assert not any(held in one for held in BYTES for one in data)
    return b"\n".join(data).decode(errors="replace")


def read(ground: Path, *words: str) -> Callable[[], str]:
    return lambda: "\n".join(path.read_text(errors="replace") for word in words for path in ground.glob(word))


def without_studies(records: str) -> str:
    """Records but for copies of the study, which holds its databases as study/ does."""
    return "\n".join(line for line in records.splitlines() if '"kind":"study"' not in line)


Path_ = tuple[Callable[[Path], str], str]


def shown(tells: str, *words: Any, file: str = "", code: int | None = 0) -> Path_:
    """What a command prints, and writes into a file, of the stores and studies that are named in {}."""

    def made(ground: Path) -> str:
        said = prints(*(str(word).format(ground) for word in words), code=code)
        return said + (read(ground, file)() if file else "")

    return made, tells


HERE = ("--workers", "0", "--no-plot")
PATHS: dict[str, Path_] = {
    # commands that read a complete store
    **{
        " ".join(words): shown(tells, words[0], "{}/edited.zarr", *words[1:])
        for words, tells in (
            (("show",), "δ̂"),
            (("show", "--format", "json"), '"value"'),
            (("show", "--format", "csv"), "database"),
            (("show", "--rows"), "row"),
            (("show", "--rows", "--format", "json"), '"row"'),
            (("show", "--rows", "--format", "csv"), "row"),
            (("show", "--delta", "0.1"), "ε"),
            (("show", "--delta", "0.1", "--format", "json"), "levels"),
            (("show", "--accuracy"), "error"),
            (("show", "--renyi", "2"), "order"),
            (("show", "--zcdp"), "ρ"),
            (("show", "--risk", "0.5"), "P["),
            (("verify",), "claim"),
            (("verify", "--format", "json"), "claim"),
            (("verify", "--format", "junit"), "testcase"),
            (("verify", "--format", "markdown"), "claim"),
            (("status",), "complete"),
            (("logs",), "no luck"),
            (("resume",), "edited.zarr"),
        )
    },
    "plan": shown("pairs", "plan", "{}/edited.toml"),
    "run": (lambda ground: read(ground, "edited.said")(), "edited.zarr"),
    "plot": shown("svg", "plot", "{}/edited.zarr", "-o", "{}/p.svg", file="p.svg"),
    "report": shown("<html", "report", "{}/edited.zarr", "-o", "{}/page.html", file="page.html"),
    "report of failures": shown("its text is left out", "report", "{}/failed.zarr", "-o", "{}/f.html", file="f.html"),
    "export": (exported, "hpcdp_export"),
    "compare": shown("edited", "compare", "{}/edited.zarr", "{}/edited.zarr", "-o", "{}/c.png", code=None),
    "audit": shown("claim", "audit", "{}/edited.toml", "--store", "{}/a.zarr", *HERE, code=None),
    "sequential audit": shown(
        *("claim", "audit", "{}/edited.toml", "--store", "{}/q.zarr", *HERE),
        *("--sequential", "--batch", "20", "--budget", "40"),
        code=None,
    ),
    # runs that fail, what is kept of them, and objects as Python shows them
    "a chunk fails": (lambda ground: read(ground, "failed.said")(), "no luck"),
    "status of failures": shown("no luck", "status", "{}/failed.zarr"),
    "show of failures": shown("INCOMPLETE", "show", "{}/failed.zarr"),
    "records of runs": (lambda ground: without_studies(read(ground, "*.zarr/records/*.jsonl")()), "no luck"),
    "slow trial draws, given": (lambda ground: slow(ground, GIVEN), "d of pair 0"),
    "slow trial draws, relative": (lambda ground: slow(ground, EDITS), "trial outputs of database 0"),
    "slow trial draws, held": (lambda ground: slow(ground, held("reals", [CANARY, 0.0])), "first value of pair 0"),
    "laws, given": (lambda ground: described(ground, GIVEN), "d of pair 0"),
    "laws, relative": (lambda ground: described(ground, EDITS), "row 0 edited"),
    "laws, held": (lambda ground: described(ground, held("reals", [0.0, CANARY])), "second value of pair 0"),
    "result": (lambda ground: repr(load_result(ground / "edited.zarr")), "pairs"),
    # refusals of studies, in a file and from Python with its traceback
    **{
        f"file: {pairs.partition('=')[0].strip()} {number}": (
            lambda ground, pairs=pairs: refused_file(ground, pairs),
            tells,
        )
        for number, (pairs, tells) in enumerate(
            (
                (f"given = [{{ d = {CANARY}, d_prime = [0.0] }}]", "pairs.given.0.d"),
                (f'given = [{{ d = "{CANARY}", d_prime = [0.0] }}]', "pairs.given.0.d"),
                (f"given = [{{ d = [{CANARY}], dprime = [{CANARY}] }}]", "unknown key (given: a list of 1)"),
                (f"given = [{{ d = [[{CANARY}], [1.0, 2.0]], d_prime = [0.0] }}]", "different lengths"),
                (f"given = [[{CANARY}], [0.0]]", "pairs.given.0"),
                (f"given = [{CANARY}, 1.0]", "pairs.given.0"),
                (f"databases = [[{CANARY}]]", "unknown key"),
                (f"relative = {{ databases = [{CANARY}] }}", "pairs.relative.databases.0"),
                (f'relative = {{ databases = [["{CANARY}"]] }}', "text in row 0"),
                (f'relative = {{ databases = [[{CANARY}]], relation = "edit", values = {CANARY} }}', "values"),
                (f'relative = {{ databases = [[1.0]], relation = "edit", values = [[{CANARY}]] }}', "shape"),
                (f'distributional = {{ call = "own:reals", values = {CANARY} }}', "values"),
                (f"relative = [[{CANARY}]]\n[databases]\nd = [{CANARY}]", "databases"),
            )
        )
    },
    "array": (
        lambda ground: refused(body({"given": [{"d": np.array(CANARY), "d_prime": [0.0]}]}), ground),
        "pairs.given.0.d",
    ),
    "stored": (
        lambda ground: refused(body(GIVEN, "stored", parameters={"files": ["edited.toml"]}), ground),
        "given: ",
    ),
    "held beside integers": (lambda ground: refused(body(held("integers", [0, CANARY])), ground), "cannot hold"),
    "held twice": (
        lambda ground: refused(body(held("reals", [CANARY, int(CANARY), CANARY])), ground),
        "distinct",
    ),
    "held list": (lambda ground: refused(body(held("reals", [0.0, [CANARY]])), ground), "given: a list of 1"),
    "no header": (
        lambda ground: table_of(ground, f"{CANARY},Ada\n{CANARY},1\n{CANARY},2\nx,4\n"),
        "not numeric in row 2",
    ),
    "text": (lambda ground: table_of(ground, f"age\n{CANARY}x\n"), "not numeric in row 0"),
    "beyond": (lambda _: builtin("truncated", [CANARY], noise="laplace", scale=1.0, lower=0.0, upper=1.0), "(1,)"),
    "infinite": (lambda _: builtin("laplace", [CANARY, np.inf], scale=1.0), "(2,)"),
    "exponential": (lambda _: builtin("exponential_real", [CANARY], rate=1.0, lower=1.0, upper=2.0), "(1,)"),
    "utility": (utility, "float64 of shape (1,) was given"),
    "another study": (
        lambda ground: prints(
            *("run", write(ground / "other.toml", body({"relative": {**EDITS["relative"], "values": [CANARY, 2.0]}}))),
            *("--store", ground / "edited.zarr", "--workers", "0"),
            code=2,
        ),
        "changed: pairs.relative.values",
    ),
}
"""What is looked at, by name: what makes its text, and words that show that it is the text that is meant."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.promise if name in ("show --rows", "export") else ()) for name in PATHS],
)
def test_no_path_shows_what_is_in_a_database(ground: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpcdp._base.doing, "LONG", 1.0)
    make, tells = PATHS[name]
    text = make(ground)
    assert tells in text
    found = FOUND.search(text)
    assert found is None, text[max(0, found.start() - 200) : found.end() + 50]


@pytest.mark.slow
def test_contents_are_shown_where_they_are_asked_for(ground: Path) -> None:
    """So that the canary would be seen."""
    assert FOUND.search(call("show", ground / "edited.zarr", "--rows", "--show-rows").stdout)
    call("export", ground / "edited.zarr", ground / "open", "--show-rows")
    assert FOUND.search((ground / "open" / "result.json").read_text())
    assert load_result(ground / "edited.zarr").pairs[0]["value"] == 1.0
