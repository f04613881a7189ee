"""Modules and packages of studies' folders: in one process each study gets its own, and what it is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdp.keys import digest_bytes
from hpcdp.mechanisms.user_code import import_callable, source_digest


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


LAYOUTS = {
    "a module": ("one:value", {"one.py": "def value():\n    return {}\n"}),
    "a module that imports another": (
        "two:value",
        {
            "two.py": "from two_helper import number\n\ndef value():\n    return number\n",
            "two_helper.py": "number = {}\n",
        },
    ),
    "a module that imports when it is called": (
        "late:value",
        {
            "late.py": "def value():\n    import late_helper\n    return late_helper.number\n",
            "late_helper.py": "number = {}\n",
        },
    ),
    "a package's module": (
        "pack.impl:value",
        {"pack/__init__.py": "", "pack/impl.py": "def value():\n    return {}\n"},
    ),
    "a package that hands it on": (
        "handed:value",
        {"handed/__init__.py": "from handed.impl import value\n", "handed/impl.py": "def value():\n    return {}\n"},
    ),
    "a folder without __init__": ("spaces.impl:value", {"spaces/impl.py": "def value():\n    return {}\n"}),
}


@pytest.mark.parametrize("path, files", LAYOUTS.values(), ids=LAYOUTS)
def test_each_folder_has_its_own(tmp_path: Path, path: str, files: dict[str, str]) -> None:
    folders = [
        write(tmp_path / str(number), {name: text.format(number) for name, text in files.items()}) for number in (1, 22)
    ]
    for folder in (*folders, *folders):
        assert import_callable(path, folder, "here")() == int(folder.name)
    same = import_callable(path, folders[1], "here")
    assert import_callable(path, folders[1], "here") is same, "what did not change is imported once"


@pytest.mark.parametrize("path, files", LAYOUTS.values(), ids=LAYOUTS)
def test_what_changed_is_imported_anew(tmp_path: Path, path: str, files: dict[str, str]) -> None:
    for number in (1, 22, 333):
        write(tmp_path, {name: text.format(number) for name, text in files.items()})
        assert import_callable(path, tmp_path, "here")() == number


def test_other_studies_modules_stay(tmp_path: Path) -> None:
    write(tmp_path / "a", {"only_a.py": "def value():\n    return 1\n"})
    write(tmp_path / "b", {"only_b.py": "def value():\n    return 2\n"})
    first = import_callable("only_a:value", tmp_path / "a", "here")
    assert import_callable("only_b:value", tmp_path / "b", "here")() == 2
    assert import_callable("only_a:value", tmp_path / "a", "here") is first
    assert import_callable("math:sqrt", tmp_path / "a", "here")(4.0) == 2.0


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
