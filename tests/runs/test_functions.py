"""Functions as mechanisms: of modules, scripts, notebooks and other functions; what a store keeps of them, and who goes on."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, kept, one_message, python, write_study
from given_objects import SMALL, locked, study_of

import hpcdp
from hpcdp._base import doing
from hpcdp.errors import StudyError
from hpcdp.results.shown import VIOLATION

SURE = 1.0 - 1e-6
"""Confidence of the tests: each is wrong with at most one in a million seeds, and its seed is fixed."""

SIZES: dict[str, Any] = {"train": 20_000, "test": 40_000, "chunk": 10_000, "epsilons": [0.0, 0.5], "confidence": SURE}


def noisy(scale: float) -> Callable[..., Any]:
    """Laplace noise on a sum, many outputs a call."""

    def sampled(database: Any, size: int, rng: np.random.Generator) -> Any:
        return database.sum() + rng.laplace(scale=scale, size=size)

    return sampled


@pytest.mark.few
@pytest.mark.parametrize("form", ["many", "one", "a lambda", "a part", "a method", "an object"])
def test_laplace_noise(form: str) -> None:
    """At its exact curve no violation is found, at a smaller one there is; whatever form the function has."""

    def one(database: Any, rng: np.random.Generator) -> float:
        return float(database.sum() + rng.laplace(scale=1.25))

    forms: dict[str, Any] = {
        "many": noisy(1.25),
        "one": one,
        "a lambda": lambda database, size, rng: database.sum() + 1.25 * rng.laplace(size=size),
        "a part": partial(one),
        "a method": Scaled(1.25).draw,
        "an object": Scaled(1.25),
    }
    result = hpcdp.spectrum(forms[form], [0.0], np.array([1.0]), seed=3, **SIZES)
    assert hpcdp.verify(result, "laplace(epsilon=0.8)").verdict != VIOLATION
    assert hpcdp.verify(result, "laplace(epsilon=0.64)").verdict == VIOLATION


class Scaled:
    """Noise by a method, and by the object itself."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def draw(self, database: Any, size: int, rng: np.random.Generator) -> Any:
        return database.sum() + rng.laplace(scale=self.scale, size=size)

    __call__ = draw


@pytest.mark.slow
def test_audits_of_a_function_a_study_and_a_result(tmp_path: Path) -> None:
    mu = 1.1

    def gaussian(database: Any, size: int, rng: np.random.Generator) -> Any:
        return rng.normal(database.sum(), 1.0 / mu, size)

    right, wrong = f"gaussian(mu={mu})", f"gaussian(mu={0.8 * mu})"
    found = hpcdp.audit(gaussian, [0.0], [1.0], claim=wrong, seed=3, **SIZES)
    assert found.verdict == VIOLATION
    assert hpcdp.audit(found.result, right).verdict != VIOLATION
    assert found.bounds.mu[0] <= mu
    study = found.result.study.to_dict()
    claimed = {"mechanism": {"call": gaussian}, "study": {**study["study"], "claim": wrong}}
    again = hpcdp.Study.from_dict({**study, **claimed})
    of_study = hpcdp.audit(again, store=tmp_path / "s.zarr")
    assert [box.alpha for box in of_study.boxes] == [box.alpha for box in found.boxes]
    assert hpcdp.audit(again, right, store=tmp_path / "s.zarr").verdict != VIOLATION


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((3,), "audit: a Result, a Study or a function; given: a int"),
        ((study_of("laplace", parameters={"epsilon": 1.0}),), "claim is missing"),
        ((noisy(1.0), [0.0], [1.0]), "claim is missing"),
    ],
)
def test_what_cannot_be_audited(given: tuple[Any, ...], words: str) -> None:
    with pytest.raises(StudyError, match=words):
        hpcdp.audit(*given)


OWN = "def noisy(database, size, rng):\n    return database.sum() + SCALE * rng.laplace(size=size)\n\n\nSCALE = 1.0\n"


def imported(name: str, source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the user's own."""
    (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


@pytest.fixture(name="own")
def own_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return imported("functions_own", OWN, tmp_path, monkeypatch)


@pytest.mark.slow
def test_a_function_of_a_module_is_its_import_path(own: Any, tmp_path: Path) -> None:
    """The same study, the same keys and the same store, whether workers import it or this process calls it."""
    named, given = study_of("functions_own:noisy", tmp_path), study_of(own.noisy, tmp_path)
    assert named.to_dict() == given.to_dict()
    hpcdp.run(named, tmp_path / "n.zarr")
    hpcdp.run(given, tmp_path / "g.zarr")
    hpcdp.run(given, tmp_path / "w.zarr", workers=1)
    both = [kept(tmp_path / f"{name}.zarr") for name in "ng"]
    assert both[0] == both[1]
    assert kept(tmp_path / "w.zarr") == kept(tmp_path / "n.zarr")
    assert hpcdp.run(given, tmp_path / "n.zarr").complete
    assert hpcdp.resume(tmp_path / "g.zarr").complete


def test_by_value_where_an_import_finds_another(own: Any, tmp_path: Path) -> None:
    before = own.noisy
    importlib.reload(own)
    assert study_of(before, tmp_path).to_dict()["mechanism"]["call"]["function"] == "noisy"
    assert study_of(own.noisy, tmp_path).mechanism.call == "functions_own:noisy"


@pytest.mark.parametrize("where", ["process", "file"])
def test_a_module_that_was_changed_in_this_process_or_its_file_alone(where: str, own: Any, tmp_path: Path) -> None:
    """Is refused: the processes that draw import it anew, and would call another."""
    if where == "process":
        own.SCALE = 2.0
    else:
        (tmp_path / "functions_own.py").write_text(OWN.replace("SCALE * rng", "2 * SCALE * rng"))
    with pytest.raises(StudyError, match="is not the function that was given, where it is imported anew"):
        hpcdp.run(study_of(own.noisy, tmp_path), tmp_path / "s.zarr")


@pytest.mark.promise
@pytest.mark.slow
def test_the_same_bits_here_and_in_workers(scheduler: str, tmp_path: Path) -> None:
    study = study_of(noisy(1.5))
    places: dict[str, dict[str, Any]] = {"here": {}, "one": {"workers": 1}, "none": {"workers": 0}}
    for name, how in {**places, "scheduler": {"cluster": scheduler}}.items():
        assert hpcdp.run(study, tmp_path / f"{name}.zarr", **how).complete
    for name, settings in {"apart": {"isolated": True}, "limited": {"timeout": 60.0}}.items():
        assert hpcdp.run(study_of(noisy(1.5), **settings), tmp_path / f"{name}.zarr").complete
    assert len({str(kept(store)) for store in tmp_path.glob("*.zarr")}) == 1


def test_what_cannot_be_sent_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """Before anything runs; a module may make it where it is called."""
    with pytest.raises(
        StudyError, match=r"held cannot be sent to another process: .*lock.*; accepted: a function of a mod"
    ):
        hpcdp.run(study_of(locked()), tmp_path / "s.zarr")
    assert not (tmp_path / "s.zarr").exists()
    large = np.zeros(3 << 20)
    with pytest.raises(StudyError, match="24 MiB; accepted: at most 16 MiB"):
        hpcdp.run(study_of(lambda _, rng: rng.laplace() + large[0]), tmp_path / "l.zarr")
    (tmp_path / "makes.py").write_text(
        "import threading\n\n\ndef make():\n    lock = threading.Lock()\n\n    def held(database, size, rng):\n"
        "        with lock:\n            return database.sum() + rng.laplace(size=size)\n\n    return held\n"
    )
    study = hpcdp.Study.from_dict(
        {**study_of("laplace", parameters={"epsilon": 1.0}).to_dict(), "mechanism": {"call": "makes:make()"}}, tmp_path
    )
    assert hpcdp.run(study, tmp_path / "s.zarr").complete


def asserting(database: Any, size: int, rng: np.random.Generator) -> Any:
    """A function of a module that pytest compiles otherwise than Python does."""
    assert size > 0
    return helped(database) + rng.laplace(size=size)


def helped(database: Any) -> Any:
    assert database.shape == (1,)
    return database.sum()


@pytest.mark.slow
def test_functions_of_test_modules_are_sent_by_value(tmp_path: Path) -> None:
    study = study_of(asserting)
    assert study.mechanism.call.function == "asserting"  # type: ignore[union-attr]
    hpcdp.run(study, tmp_path / "w.zarr", workers=1)
    hpcdp.run(study, tmp_path / "h.zarr")
    assert kept(tmp_path / "w.zarr") == kept(tmp_path / "h.zarr")


def test_a_store_keeps_name_and_digest(tmp_path: Path) -> None:
    """Nothing in it can be called, so that it is gone on with by who gives the function again."""
    store = tmp_path / "s.zarr"
    hpcdp.run(study_of(noisy(1.25)), store)
    call_of_study = hpcdp.load_result(store).study.to_dict()["mechanism"]["call"]
    assert call_of_study == {**study_of(noisy(1.25)).to_dict()["mechanism"]["call"], "function": "sampled"}
    assert not any(b"cloudpickle" in body for body in kept(store).values())
    said = one_message(call("resume", store, code=2))
    assert said.endswith("give the function again to hpcdp.run")
    with pytest.raises(StudyError, match=r"give the function again to hpcdp\.run"):
        hpcdp.resume(store)
    assert ": complete, " in call("status", store).stdout
    assert hpcdp.run(study_of(noisy(1.25)), store).complete, "made anew, it is the same"


def test_a_changed_function_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    hpcdp.run(study_of(noisy(1.25)), store)
    words = r"^mechanism\.call: sampled, or what it reads, changed since the store was made, .* allow_changed_code=True goes on"
    with pytest.raises(StudyError, match=words):
        hpcdp.run(study_of(noisy(1.5)), store)
    assert hpcdp.run(study_of(noisy(1.5)), store, allow_changed_code=True).complete
    with pytest.raises(StudyError, match=r"mechanism\.call\.function"):
        hpcdp.run(study_of(Scaled(1.0)), store)
    with pytest.raises(StudyError, match=r"mechanism\.call \("):
        hpcdp.run(study_of("laplace", parameters={"epsilon": 1.0}), store)


def test_what_failed_names_what_to_do(tmp_path: Path) -> None:
    """A printed command would not do; and of a store that went with its folder nothing is said."""

    def fails(database: Any, size: int, rng: np.random.Generator) -> Any:
        if "trial outputs" not in str(doing.step()):
            raise ValueError("no luck")
        return database.sum() + rng.laplace(size=size)

    store = tmp_path / "s.zarr"
    with pytest.raises(hpcdp.RunFailed, match="no luck") as failed:
        hpcdp.run(study_of(fails), store)
    assert f"hpcdp.run with the study's function or DataFrames given again, and the store {store}" in str(failed.value)
    assert f"go on with     hpcdp.run with the study's function or DataFrames given again, and the store {store}" in (
        call("status", store).stdout
    )
    with pytest.raises(hpcdp.RunFailed, match="the same call with a store, which keeps what is done"):
        hpcdp.spectrum(fails, [0.0], [1.0], **SMALL)


def test_a_temporary_store_goes_with_its_result() -> None:
    result = hpcdp.spectrum(noisy(1.0), [0.0], [1.0], **SMALL)
    folder = result.store.parent
    assert folder.exists()
    del result
    gc.collect()
    assert not folder.exists()


def test_randomness_of_its_own(tmp_path: Path) -> None:
    """A function without rng is told apart from one that ignores it."""
    source = np.random.default_rng(5)

    def own(database: Any) -> float:
        return float(database.sum() + source.laplace())

    with pytest.raises(StudyError, match=r"function own takes \(database\) and no rng"):
        hpcdp.spectrum(own, [0.0], [1.0], **SMALL)
    assert hpcdp.spectrum(own, [0.0], [1.0], reproducible=False, **SMALL).complete


@pytest.mark.slow
def test_equal_databases_are_told_beside_every_number(tmp_path: Path) -> None:
    """Else whoever compares a database with itself would read that nothing was found."""
    found = hpcdp.spectrum(noisy(1.0), [1.0], [1.0], claim="dp(epsilon=1)", **SMALL)
    assert found.pairs == [{"pair": 0, "equal": True}]
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (str(found), str(hpcdp.verify(found)), page):
        assert "WARNING: D and D′ are equal in pair 0: δ is 0 there, whatever the mechanism does" in text


def test_a_function_of_which_no_output_is_a_number_has_a_warning() -> None:
    """Else a broken function reads as a private one."""

    def sometimes(_: Any, size: int, rng: np.random.Generator, share: float) -> Any:
        return np.where(rng.random(size) < share, np.nan, 1.0)

    for share in (1.0, 0.5):
        said = " ".join(str(hpcdp.spectrum(sometimes, [0.0], [1.0], parameters={"share": share}, **SMALL)).split())
        words = "NaN, infinities and None are values of their own: of the test outputs of pair 0"
        assert words in said
        assert (
            (f"WARNING: {words}" in said)
            == ("which is every output: see whether the mechanism works" in said)
            == (share == 1.0)
        )


@pytest.mark.parametrize("given", ["abc", None, np.float64(1.0), {"a": [1.0]}])
def test_what_is_no_database_is_refused_by_its_name(given: Any) -> None:
    accepted = "was given; accepted: a list or an array, an entry a row, or a DataFrame"
    for key, pair in (("d", (given, [1.0])), ("d_prime", ([1.0], given))):
        with pytest.raises(StudyError, match=f"^{key}: .*{accepted}$"):
            hpcdp.spectrum(noisy(1.0), *pair, **SMALL)
    with pytest.raises(StudyError, match=r"^function: 3 was given; accepted: a function"):
        hpcdp.spectrum(3, [0.0], [1.0], **SMALL)  # type: ignore[arg-type]


SCRIPT = """
import hpcdp
print("begun")
scale = 1.0
def noisy(database, size, rng):
    return database.sum() + rng.laplace(scale=scale, size=size)
for how in PLACES:
    result = hpcdp.spectrum(noisy, [0.0], [1.0], train=1000, test=1500, epsilons=[0.0, 0.5], **how)
    print(result.study.mechanism.call.digest, result.spectrum()[0]["delta"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["file", "stdin", "-c", "cells"])
def test_scripts_without_a_guard_and_cells_of_a_notebook(way: str, tmp_path: Path) -> None:
    """All draw the same, with workers and without, and none runs twice; the file's text has a digest of its own."""
    script = SCRIPT.replace("PLACES", "({'workers': 2}, {})")
    (tmp_path / "script.py").write_text(script)
    cells = f"import __main__; exec(compile({script!r}, '<cell 1>', 'exec'), vars(__main__))"
    command = {"file": ["script.py"], "stdin": ["-"], "-c": ["-c", script], "cells": ["-c", cells]}[way]
    done = python(tmp_path, *command, input=script if way == "stdin" else None)
    assert (done.returncode, done.stderr) == (0, "")
    begun, *rest = done.stdout.splitlines()
    assert (begun, len(rest), len(set(rest))) == ("begun", 2, 1)
    (digest, delta), (of_code, same) = rest[0].split(), said_once().split()
    assert (delta, digest != of_code) == (same, way == "file")


@cache
def said_once() -> str:
    """What the script says when it runs in a module's namespace here."""
    script: dict[str, Any] = {"__name__": "__main__", "print": print}
    exec(compile(SCRIPT.replace("PLACES", "[{}]"), "elsewhere.py", "exec", dont_inherit=True), script)
    return f"{script['result'].study.mechanism.call.digest} {script['result'].spectrum()[0]['delta']}"


MAIN = """
import hpcdp


def noisy(database, size, rng):
    return database.sum() + rng.laplace(size=size)


GUARD
    study = hpcdp.Study.from_toml("study.toml")
    print(hpcdp.run(study, "s.zarr", workers=1).complete)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "guard", "code", "words"),
    [
        ("file", 'if __name__ == "__main__":', 0, ""),
        ("file", "if True:", 1, "what it runs must stand below"),
        ("stdin", 'if __name__ == "__main__":', 1, "which is in no file"),
    ],
)
def test_a_mechanism_of_the_script_itself(way: str, guard: str, code: int, words: str, tmp_path: Path) -> None:
    write_study(tmp_path, call="__main__:noisy", rows=[0], train=500, test=500, databases=[[0.0, 1.0]])
    source = MAIN.replace("GUARD", guard)
    (tmp_path / "script.py").write_text(source)
    command, given = (["script.py"], None) if way == "file" else (["-"], source)
    done = python(tmp_path, *command, input=given)
    assert (done.returncode, done.stdout) == (code, "" if code else "True\n"), done.stderr
    assert words in done.stderr.splitlines()[-1] if code else done.stderr == ""
    assert not (tmp_path / "s.zarr" / "records").exists() or not code


BY_NAME = """
class Own:
    \"\"\"A loss that tells nothing.\"\"\"

def pairs(): return [([0.0], [1.0])]
def laws(size, rng): return rng.integers(0, 2, (size, 3))
def impossible(outputs): return outputs < 0
def mean(database): return database.mean()
"""
MECHANISM = {"call": "laplace", "parameters": {"epsilon": 1.0}}
HEAD = {"study": {"name": "s", "seed": 7}}
WHOLE = {**HEAD, "mechanism": MECHANISM, "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]}, "estimate": SMALL}
RISK = {"rows": 9, "pairs": 9, "scale": 1.0, "cover": [0.5]}


@pytest.mark.parametrize(
    "body",
    [
        lambda of: {**WHOLE, "pairs": {"given": {"call": of("pairs")}}},
        lambda of: {**WHOLE, "pairs": {"relative": {"call": of("pairs")}}},
        lambda of: {**WHOLE, "pairs": {"distributional": [{"call": of("laws"), "values": [0, 1]}]}},
        lambda of: {**WHOLE, "estimate": {**SMALL, "loss": of("Own")}},
        lambda of: {
            **WHOLE,
            "mechanism": {**MECHANISM, "impossible": of("impossible")},
            "estimate": {"epsilons": [0.0], "tape": True},
        },
        lambda of: {**HEAD, "at_risk": {"query": of("mean"), "population": {"call": of("laws")}, **RISK}},
    ],
)
def test_objects_stand_for_their_names(body: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = imported("by_name_own", BY_NAME, tmp_path, monkeypatch)
    named = hpcdp.Study.from_dict(body(lambda name: f"by_name_own:{name}"), tmp_path)
    given = hpcdp.Study.from_dict(body(partial(getattr, own)), tmp_path)
    assert named.to_dict() == given.to_dict()
    for unnamed in (lambda name: partial(getattr(own, name)), lambda name: lambda: name):
        refused = r"(call|loss|query|impossible): .* was given, an object that no import finds by its name"
        with pytest.raises(StudyError, match=refused):
            hpcdp.Study.from_dict(body(unnamed), tmp_path)
