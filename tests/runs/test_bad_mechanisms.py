"""Mechanisms that do wrong: refused before anything runs, or set aside by the chunk when they show it later."""

from __future__ import annotations

import json
import math
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import MECHANISM, SEED, call, nothing_lost, show, started, write_study
from refusing import GOOD, HEAD, refusal
from some_slow import some_slow

from hpcdp import load_result
from hpcdp.keys import digest_array, law_key, stream

BODIES = {
    "raise ValueError('no luck')": "ValueError: no luck",
    "sys.exit('enough')": "SystemExit: enough",
    "return rng.random(size + 1)": "shape (17,)",
    "return rng.random((size, 2, 2))": "shape (16, 2, 2)",
    "return rng.random((size, 0))": "shape (16, 0)",
    "return None": "the mechanism returned None; accepted: (16,) or (16, d)",
    "return {'outputs': rng.random(size)}": "shape ()",
    "return np.array([rng] * size)": "object array",
    "return [[1.0], [1.0, 2.0]] * (size // 2)": "ignores its rng",
    "return rng.random(size) + 1j": "complex128",
    "return rng.random(size).astype(np.longdouble)": "float128",
    "return np.full(size, 2**64 - 1, np.uint64)": "2**63 - 1",
    "return [2**63 + 5, 1] * (size // 2)": "the integer 9223372036854775813; accepted: 64-bit signed integers",
    "return [(2**63 + 5, 0.5)] * size": "the integer 9223372036854775813; accepted: 64-bit signed integers",
    "return np.array([2**63 + 5, -1] * (size // 2), object)": "the integer 9223372036854775813; accepted: 64-bit signed",
    "return np.full(size, '2020-01-01', 'M8[D]')": "datetime64",
    "return ['\\ud800'] * size": "Unicode",
    "return np.random.laplace(size=size)": "could not be repeated or resumed",
    "return np.random.default_rng(0).laplace(size=size)": "ignores its rng",
    "return np.random.default_rng(0).choice(['a', 'b'], size)": "ignores its rng",
    "return np.full(size, rng.laplace())": "of 512 pairs of neighbours 512 are equal, but of two calls' outputs 0 of 512 are",
    "return np.repeat(rng.integers(0, 9, (size + 1) // 2), 2)[:size]": "repeat each other within a call",
    "return np.repeat(rng.laplace(size=size), 2)[1 : size + 1]": "of 511 pairs of neighbours 511 are equal",
    "return ['ab'[rng.integers(2)] + str(rng.random())] * size": "repeat each other within a call",
}


@pytest.mark.parametrize("share", some_slow([0.5, 0.9, 0.999], lambda share: share != 0.9))
def test_outputs_that_are_equal_by_chance_are_used(share: float, tmp_path: Path) -> None:
    """The mechanism of the seeds that look worst too: neighbours are equal, and outputs of two calls now and then not."""
    source = f"def noisy(database, size, rng):\n    return rng.random(size) < {share}\n"
    for seed in range(30):
        call("plan", write_study(tmp_path, source, seed=seed))


ONE_BY_ONE = {
    "return {'a'} if rng.random() < 0.5 else {1.0}": "type set",
    "return 'a' if rng.random() < 0.5 else 1.0": "strings for some outputs and numbers for others",
    "return ('a', 1) if rng.random() < 0.5 else 1.0": "the number 1 among outputs that are strings or sequences",
    "return ('a', {}) if rng.random() < 0.5 else ('b',)": "type dict",
    "return None": "None each time; does it return a value?",
    "raise OSError('gone')": "OSError: gone",
}


@pytest.mark.parametrize(
    "arguments, body, words",
    [
        *(("database, size, rng", *entry) for entry in BODIES.items()),
        *(("database, rng", *entry) for entry in ONE_BY_ONE.items()),
    ],
)
def test_outputs_that_cannot_be_used(arguments, body, words, tmp_path, capsys):
    message = refusal(tmp_path, capsys, f"def noisy({arguments}):\n    {body}\n")
    assert "mechanism.call own:noisy" in message
    assert words in message


@pytest.mark.parametrize(
    "module, settings, words",
    [
        (GOOD, {"call": "missing_module:noisy"}, ["mechanism.call", "cannot import module 'missing_module'"]),
        ("def noisy(:\n", {}, ["mechanism.call", "SyntaxError"]),
        ("sys.exit(0)", {}, ["mechanism.call", "ended the program"]),
        ("raise RuntimeError('no licence')", {}, ["mechanism.call", "RuntimeError: no licence"]),
        (GOOD, {"call": "own:nosy"}, ["mechanism.call", "has no 'nosy'"]),
        ("noisy = 3", {}, ["mechanism.call", "a callable", "int"]),
        (GOOD, {"parameters": {"scale": 1.0}}, ["mechanism.parameters", "scale", "accepted by own:noisy: none"]),
        (GOOD.replace("rng)", "rng, *, scale)"), {}, ["mechanism.parameters", "scale"]),
        (GOOD, {"parameters": {"rng": 1}}, ["mechanism.parameters.rng"]),
        ("def noisy(database, size):\n    return np.zeros(size)\n", {}, ["mechanism.call", "no rng"]),
        (GOOD, {"call": "laplacian"}, ["mechanism.call", "'laplacian'", "gaussian"]),
        (GOOD, {"call": "own.noisy"}, ["mechanism.call", "package.module:callable"]),
        (GOOD, {"call": "laplace", "parameters": {"epsilom": 1.0}}, ["mechanism.parameters", "epsilom", "epsilon"]),
        (GOOD, {"call": "laplace", "parameters": {"epsilon": -1.0}}, ["mechanism", "epsilon", "-1"]),
        (GOOD, {"call": "gaussian", "parameters": {"epsilon": 1.0}}, ["mechanism", "delta"]),
        (GOOD, {"call": "stored", "parameters": {"files": ["none.npy"]}}, ["mechanism.parameters.files", "none.npy"]),
        (GOOD, {"call": "stored"}, ["mechanism.parameters.files"]),
    ],
)
def test_names_and_parameters_that_do_not_fit(module, settings, words, tmp_path, capsys):
    message = refusal(tmp_path, capsys, module, **settings)
    assert [word for word in words if word not in message] == []


# Does on the chunks whose random streams stand in a file what follows them there.
TOUCHY = (
    MECHANISM
    + """

BAD = os.path.join(os.path.dirname(LOG), "bad.txt")


def touchy(database, size, rng):
    words = f"{rng.bit_generator.state['state']['state']:x}"
    found = {"outputs": noisy(database, size, rng)}
    with open(BAD) as lines:
        for bad, what in (line.split(maxsplit=1) for line in lines):
            if bad == words:
                exec(what, globals(), found)
    return found["outputs"]
"""
)
DATABASE = [0.0, 0.5, 1.0]


def state(removed: int | None, stage: str, chunk: int) -> str:
    """The random stream of a chunk of the database without one of its rows."""
    database = np.asarray(DATABASE) if removed is None else np.delete(np.asarray(DATABASE), removed)
    rng = stream(SEED, law_key("own:touchy", {}, digest_array(database)), stage, chunk)
    return f"{rng.bit_generator.state['state']['state']:x}"


def complete_pairs(store: Path) -> set[int]:
    """The pairs of an incomplete store's cells, after a check that each has all of them."""
    found = json.loads(show(store))
    assert found["complete"] is False
    pairs = [cell["pair"] for cell in found["cells"]]
    assert all(pairs.count(pair) == 6 for pair in pairs)
    return set(pairs)


@pytest.fixture(scope="module", name="honest")
def honest_fixture(tmp_path_factory: pytest.TempPathFactory, scheduler: str) -> str:
    """The JSON of the touchy mechanism's study when nothing is wrong."""
    folder = tmp_path_factory.mktemp("honest")
    study = write_study(folder, TOUCHY, call="own:touchy", databases=[DATABASE])
    (folder / "bad.txt").write_text("")
    call("run", study, "--store", folder / "s.zarr", "--cluster", scheduler)
    return show(folder / "s.zarr")


@pytest.mark.slow
@pytest.mark.parametrize("other, name", [("np.float32", "float32"), ("np.int64", "integers"), ("np.float64", None)])
def test_chunks_of_another_type_are_said(other: str, name: str | None, tmp_path: Path) -> None:
    """Integers may stand for reals, and narrow reals too; whoever mixes them hears of it, once."""
    source = f"""
import numpy as np


def mixed(database, size, rng):
    outputs = database.sum() + np.round(rng.laplace(size=size))
    return outputs.astype({other}) if outputs[0] > 0 and size == 10 else outputs
"""
    settings = {"call": "own:mixed", "databases": [[0.0, 1.0]], "train": 100, "test": 100, "chunk": 10}
    study = write_study(tmp_path, source, **settings)
    said = call("run", study, "--store", tmp_path / "s", "--workers", 0).stderr
    lines = [line for line in said.splitlines() if "types of outputs differ" in line]
    assert [(name in line, line.count("float64"), line.count(" chunk ")) for line in lines] == [(True, 1, 2)] * bool(
        name
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "keep, removed, stage, chunk, what, words",
    [
        ("all", 1, "test", 3, "outputs = outputs[:-1]", "shape"),
        ("none", 1, "test", 3, "raise ValueError('no luck')", "no luck"),
        ("none", 2, "train", 1, "outputs = outputs[:-1]", "shape"),
        ("all", None, "train", 0, "raise MemoryError", "MemoryError"),  # of the database that all pairs share
    ],
)
def test_a_chunk_that_fails_is_set_aside_and_named(
    keep,
    removed,
    stage,
    chunk,
    what,
    words,
    honest,
    tmp_path,
    scheduler,
):
    study = write_study(tmp_path, TOUCHY, call="own:touchy", databases=[DATABASE], keep=keep)
    store = tmp_path / "s.zarr"
    (tmp_path / "bad.txt").write_text(f"{state(removed, stage, chunk)} {what}\n")
    error = call("run", study, "--store", store, "--cluster", scheduler, code=1).stderr
    whose = "database 0" if removed is None else f"database 0 without row {removed}"
    assert f"{stage} chunk {chunk} of {whose}: " in error
    assert words in error
    assert error.count("the mechanism r") == 1, "one cause is told once"
    assert ("3 more cannot go on without it" in error) == (removed is None)
    assert f"hpcdp resume {store}" in error
    assert complete_pairs(store) == (set() if removed is None else {0, 1, 2} - {removed})
    assert f"{stage} chunk {chunk}" in call("status", store).stdout
    (tmp_path / "bad.txt").write_text("")
    with nothing_lost(store):
        call("resume", store, "--cluster", scheduler)
    assert show(store) == honest


def show_but_for_code(store: Path) -> str:
    """What is shown of a store, but for the warning that its code changed, which must be there."""
    (words,) = load_result(store).code_warnings
    told = json.dumps(words, ensure_ascii=False)
    return show(store).replace(f"{told}, ", "").replace(told, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "keep, workers, death",
    [
        ("all", 2, "os._exit(3)"),
        ("none", 2, "__import__('ctypes').string_at(0)"),
        ("all", 0, "__import__('ctypes').string_at(0)"),
        ("none", 0, "os._exit(3)"),
    ],
)
def test_a_mechanism_that_ends_its_process(keep: str, workers: int, death: str, honest: str, tmp_path: Path) -> None:
    """Two chunks do, each with its law of its own: both are named, and all else is done."""
    study = write_study(tmp_path, TOUCHY, call="own:touchy", databases=[DATABASE], keep=keep)
    store, chunks = tmp_path / "s.zarr", [(1, "test", 3), (2, "train", 1)]
    (tmp_path / "bad.txt").write_text("".join(f"{state(*chunk)} {death}\n" for chunk in chunks))
    error = call("run", study, "--store", store, "--workers", workers, code=1).stderr
    lines = [line for line in error.splitlines() if "ended its worker" in line]
    assert all(line.startswith("  task ") for line in lines)
    for removed, stage, chunk in chunks:
        (line,) = [line for line in lines if f"database 0 without row {removed}" in line]
        assert f"at {stage} chunk {chunk} of" in line
    assert complete_pairs(store) == {0}
    (tmp_path / "bad.txt").write_text("")
    with nothing_lost(store):
        call("resume", store, "--workers", 0)
    assert show(store) == honest


CACHED = f"""{MECHANISM}

KEPT = {{}}
honest = noisy


def noisy(database, size, rng):
    outputs = honest(database, size, rng)
    return outputs if size < 250 else KEPT.setdefault(size, outputs)
"""
TARGET = {"test": 1 << 20, "target": {"epsilon": 0.5, "relative_error": 0.05, "most": 100_000}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"keep": "all"},
        {"keep": "none"},
        {"keep": "none", **TARGET},
        {"keep": "none", **TARGET, "databases": [[i / 12 for i in range(13)]]},
    ],
    ids=["kept", "streamed", "target", "race"],
)
def test_chunks_that_become_identical_later(changes: dict[str, Any], tmp_path: Path, scheduler: str) -> None:
    """A mechanism that keeps its first large array: its trial draws are sound, its bounds would not be."""
    settings: dict[str, Any] = {"databases": [DATABASE], "test": 2250, "chunk": 1000, **changes}
    study, store = write_study(tmp_path, CACHED, **settings), tmp_path / "s.zarr"
    for command in (("run", study, "--store", store), ("resume", store)):
        error = call(*command, "--cluster", scheduler, code=1).stderr
        assert "identical" in error
        assert "chunk 0 of" in error
        assert "--allow-changed-code" in error
        assert complete_pairs(store) == set()
    write_study(tmp_path, MECHANISM, **settings)
    call("resume", store, "--allow-changed-code", "--cluster", scheduler)
    call("run", study, "--store", tmp_path / "anew.zarr", "--cluster", scheduler)
    assert show_but_for_code(store) == show(tmp_path / "anew.zarr")


RESPONSE = """
def noisy(database, size, rng):
    return int(database[0]) ^ (rng.random(size) < SHARE).astype(np.uint8)
"""


@pytest.mark.slow
def test_two_studies_at_once_on_one_cluster(tmp_path: Path, scheduler: str) -> None:
    """Their modules have one name, and so have their tasks; each gets the mechanism of its own folder."""
    shares = {"a": 0.25, "b": 0.45}
    pairs = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    with ExitStack() as stack:
        for name, share in shares.items():
            module = HEAD + RESPONSE.replace("SHARE", str(share))
            study = write_study(tmp_path / name, module, pairs=pairs, train=2000, test=5000, epsilons=[0.0])
            command = ("run", study, "--store", tmp_path / name / "s.zarr", "--cluster", scheduler)
            process = stack.enter_context(started(*command, folder=tmp_path / name))
            stack.callback(process.communicate)  # last in, first out: it is waited for before it would be killed
    for name, share in shares.items():
        (forward, reverse) = json.loads(show(tmp_path / name / "s.zarr"))["cells"]
        for cell in (forward, reverse):
            assert abs(cell["delta"] - (1 - 2 * share)) < 6 * math.sqrt(2 * 0.25 / 5000)


# Few random streams for many chunks: those of training and testing differ, those of the other stages come again.
FEW_STREAMS = """
import numpy as np


def noisy(database, size, rng):
    return database.sum() + np.random.default_rng(rng.integers(60)).laplace(size=size)
"""
DRAWN_BESIDE = {
    "refined": {"loss": "knn", "train": 300, "test": 300, "refine": 9_000, "validation": 9_000},
    "literal": {"loss": "literal-knn", "train": 600, "test": 900},
}


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=() if k == "refined" else pytest.mark.slow) for k in DRAWN_BESIDE]
)
def test_streams_that_come_again_in_any_stage_are_refused(kind: str, tmp_path: Path) -> None:
    """What rests on equal chunks is set aside, so that a repaired mechanism gives what it gives in a new store."""
    settings = {"databases": None, "rows": None, "pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]", "etas": []}
    study = write_study(
        tmp_path, FEW_STREAMS, **settings, chunk=300, keep="none", epsilons=[0.0, 0.5], **DRAWN_BESIDE[kind]
    )
    store = tmp_path / "s.zarr"
    assert re.search(
        r"chunk \d+ of .* are identical", call("run", study, "--store", store, "--workers", 0, code=1).stderr
    )
    (tmp_path / "own.py").write_text(FEW_STREAMS.replace("np.random.default_rng(rng.integers(60))", "rng"))
    call("resume", store, "--workers", 0, "--allow-changed-code")
    call("run", study, "--store", tmp_path / "new.zarr", "--workers", 0)
    repaired, new = (json.loads(show(path)) for path in (store, tmp_path / "new.zarr"))
    assert repaired["cells"] == new["cells"]


def test_streams_that_come_again_are_refused_of_a_law_of_several_pairs(tmp_path: Path) -> None:
    """It is D of one pair and D′ of two, whose chunks are drawn by turns in one task; the other laws' streams are sound."""
    source = FEW_STREAMS.replace("np.random.default_rng(rng.integers(60))", "few(database, rng)")
    source += "\n\ndef few(database, rng):\n    return np.random.default_rng(rng.integers(60)) if database[0] == 1.0 else rng\n"
    pairs = "given = [ { d = [0.0], d_prime = [1.0] }, { d = [2.0], d_prime = [1.0] }, { d = [1.0], d_prime = [2.0] } ]"
    settings = {
        "databases": None,
        "rows": None,
        "pairs": pairs,
        "train": 300,
        "test": 9_000,
        "chunk": 300,
        "keep": "none",
    }
    study = write_study(tmp_path, source, **settings, loss="knn")
    done = call("run", study, "--store", tmp_path / "s.zarr", "--workers", 0, code=1)
    assert re.search(r"chunk \d+ of .* are identical", done.stderr)
