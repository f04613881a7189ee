"""Modules and packages of studies' folders: each study gets its own, and what it is now."""

from __future__ import annotations

from pathlib import Path

import pytest
from given_objects import SMALL

import hpcdp
from hpcdp.keys import digest_bytes
from hpcdp.mechanisms.user_code import import_callable, source_digest


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


VALUE = "def value():\n    return {}\n"
LAYOUTS = {
    "a module": ("one:value", {"one.py": VALUE}),
    "a module that imports another": (
        "two:value",
        {"two.py": f"from two_helper import number\n\n{VALUE.format('number')}", "two_helper.py": "number = {}\n"},
    ),
    "a module that imports when it is called": (
        "late:value",
        {
            "late.py": "def value():\n    import late_helper as l\n    return l.number\n",
            "late_helper.py": "number = {}\n",
        },
    ),
    "a package's module": ("pack.impl:value", {"pack/__init__.py": "", "pack/impl.py": VALUE}),
    "a package that hands it on": (
        "handed:value",
        {"handed/__init__.py": "from handed.impl import value\n", "handed/impl.py": VALUE},
    ),
    "a folder without __init__": ("spaces.impl:value", {"spaces/impl.py": VALUE}),
}


@pytest.mark.parametrize("path, files", LAYOUTS.values(), ids=LAYOUTS)
def test_they_are_imported_without_a_trace(path: str, files: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, {name: text.format(22) for name, text in files.items()})
    found = import_callable(path, tmp_path, "here")
    assert import_callable(path, tmp_path, "here") is found
    assert not list(tmp_path.rglob("__pycache__"))
    assert found() == 22


@pytest.mark.slow
def test_each_run_imports_what_its_folder_has_now(tmp_path: Path) -> None:
    """Also where other studies, whose modules are called the same, ran in this process before."""
    study = {
        "study": {"name": "s", "seed": 1},
        "mechanism": {"call": "own_run:value"},
        "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
        "estimate": SMALL,
    }
    own = "from own_run_helper import share\ndef value(database, size, rng):\n    return rng.random(size) < share * database[0]\n"
    for share, folder in ((0.2, "a"), (0.4, "b"), (0.6, "a"), (0.8, "b")):
        write(tmp_path / folder, {"own_run.py": own, "own_run_helper.py": f"share = {share}\n"})
        result = hpcdp.run(hpcdp.Study.from_dict(study, tmp_path / folder), tmp_path / f"{share}.zarr", workers=0)
        assert abs(result.spectrum()[0]["delta"] - share) < 0.08  # six standard errors of a difference of two shares


def test_the_digest_is_of_the_file_that_defines_it_too(tmp_path: Path) -> None:
    files = {"shop/__init__.py": "from shop.impl import value\n", "shop/impl.py": "def value():\n    return 1\n"}
    write(tmp_path, files)
    before = source_digest("shop:value", tmp_path)
    assert source_digest("shop:value", tmp_path) == before
    direct = source_digest("shop.impl:value", tmp_path)
    write(tmp_path, {"shop/impl.py": "def value():\n    return 2\n"})
    assert source_digest("shop:value", tmp_path) != before
    assert source_digest("shop.impl:value", tmp_path) != direct
    write(tmp_path, files)
    assert source_digest("shop:value", tmp_path) == before
    assert (
        source_digest("shop.impl:value", tmp_path) == direct == digest_bytes(b"source", files["shop/impl.py"].encode())
    )
