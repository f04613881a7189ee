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
def test_each_folder_has_its_own_and_what_changed_is_imported_anew(
    tmp_path: Path, path: str, files: dict[str, str]
) -> None:
    def filled(folder: str, number: int) -> Path:
        return write(tmp_path / folder, {name: text.format(number) for name, text in files.items()})

    folders = {number: filled(str(number), number) for number in (1, 22)}
    for number, folder in [*folders.items(), *folders.items()]:
        assert import_callable(path, folder, "here")() == number
    same = import_callable(path, folders[22], "here")
    assert import_callable(path, folders[22], "here") is same, "what did not change is imported once"
    for number in (333, 4444):
        assert import_callable(path, filled("22", number), "here")() == number


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
