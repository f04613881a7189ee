"""The documentation: its code blocks run and print what it says, its links lead somewhere, its tables name what exists.

What is done with a block is in `followed`.
"""

import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import call
from followed import BLOCK, DOCS, PAGES, Follower, Reader, agrees, pages_before, read_blocks, slug
from illustrated import AGAIN, ENDINGS, is_picture_of, shown_on
from loaded import load_script
from study_keys import study_keys_page

import hpcdp
from hpcdp._base.messages import keys_of
from hpcdp.losses import LOSSES
from hpcdp.mechanisms import BUILTINS, READERS, SCORES, STORED, load_builtin
from hpcdp.results.load import load_result
from hpcdp.study.claims import FORMS
from hpcdp.study.file import Study
from hpcdp.study.schema import OF_STORES

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = load_script("site_build", ROOT / "docs" / "site" / "build.py").SECTIONS
CHECKED = ("python", "toml", "csv", "console")  # languages whose blocks must say what is done with them


_NOTE = re.compile(r"file: \S+|python|run|run: exit \d+|output|not run: .+")


@pytest.fixture(scope="module")
def follower(tmp_path_factory: pytest.TempPathFactory) -> Follower:
    return Follower(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def read(follower: Follower) -> Callable[[str], Path]:
    """Follow a page once, to its end; returns the folder in which it was followed."""
    return follower.follow


@pytest.mark.promise
@pytest.mark.slow
def test_the_quickstart_prints_what_the_readme_says(scheduler: str, tmp_path: Path) -> None:
    """`make quickstart`, of the file as it is, but for where its store lies."""
    (block,) = [block for block in read_blocks("README.md") if block.note.startswith("not run: make quickstart")]
    command, _, said = block.text.partition("\n")
    assert command == "$ hpcdp run workflows/diabetes_mean.toml"
    study = ROOT / "workflows" / "diabetes_mean.toml"
    found = call("run", study, "--store", tmp_path / "s.zarr", "--cluster", scheduler, "--plot").stdout
    assert agrees(f"{said}...\n", found), found
    assert (tmp_path / "s.png").read_bytes() == (ROOT / "docs" / "images" / "diabetes_mean.png").read_bytes()


FOLLOWED = ["README.md", *(f"docs/{name}" for name in DOCS if any(b.note for b in read_blocks(f"docs/{name}")))]
"""The pages with blocks of which something is said."""


def marked(pages: Sequence[str]) -> list[Any]:
    """The README is in make test; pages that go on in the folders of others take long."""
    kinds = {True: pytest.mark.slow, False: ()}
    return [
        pytest.param(p, marks=pytest.mark.promise if p == "README.md" else kinds[bool(pages_before(p))]) for p in pages
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", marked(FOLLOWED))
def test_blocks_do_what_the_page_says(page: str, read: Callable[[str], Path]) -> None:
    assert read(page).is_dir()


@pytest.mark.slow
def test_the_script_prints_the_spectrum_of_its_store(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    done = reader.call(sys.executable, str(ROOT / "workflows" / "examples" / "dask_client.py"), "script.zarr")
    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    result = load_result(tmp_path / "script.zarr")
    assert result.complete
    assert f"{len(result.pairs)} pairs" in head
    shown = [float(re.search(r"δ ≥ (\S+)", line)[1]) for line in lines]
    assert shown == [round(row["lower"], 5) for row in result.spectrum()]
    assert len(lines) == 6
    assert shown[0] > 0.3


@pytest.mark.slow
def test_the_reference_study_is_valid_and_has_every_default(read: Callable[[str], Path]) -> None:
    study = Study.from_toml(read("docs/study.md") / "reference.toml")
    least = study.to_dict()
    least["estimate"] = {"epsilons": least["estimate"]["epsilons"], "etas": least["estimate"]["etas"]}
    least["estimate"]["parameters"] = study.estimate.parameters
    assert Study.from_dict(least).to_dict() == study.to_dict()


def test_every_block_says_what_is_done_with_it() -> None:
    blocks = [block for page in PAGES for block in read_blocks(page)]
    assert len(blocks) > 30
    for block in blocks:
        assert block.language not in CHECKED or _NOTE.fullmatch(block.note), f"{block.page}: {block.text}"


def test_texts_are_compared_line_by_line() -> None:
    for expected, found in (("a 1\n", "a 1 \n\n"), ("a\n...\nz\n", "a\nb\nc\nz\n"), ("took ... s\n", "took 1.5 s\n")):
        assert agrees(expected, found)
    for expected, found in (("a 1\n", "a 2\n"), ("a\n...\nz\n", "a\nb\nc\n"), ("a\n", "a\nb\n")):
        assert not agrees(expected, found)


def without_blocks(page: Path) -> str:
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def test_local_links_lead_somewhere() -> None:
    pages = [ROOT / name for name in PAGES]
    links = [(page, target) for page in pages for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page))]
    assert {ROOT / "README.md", ROOT / "docs" / "design.md"} <= {page for page, _ in links}
    for page, target in links:
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        assert "://" in target or found.exists(), f"{page}: {target}"
        headings = re.findall(r"^#+ (.*)$", without_blocks(found), flags=re.M) if anchor and found.exists() else []
        assert "://" in target or not anchor or anchor in map(slug, headings), f"{page}: {target}"


def test_pictures_are_shown_and_have_words() -> None:
    pictures = set((ROOT / "docs" / "images").iterdir())
    shown = re.findall(
        r"!\[([^\]]*)\]\((?:docs/)?(images/[^)]+)\)", "".join((ROOT / page).read_text() for page in PAGES)
    )
    assert {ROOT / "docs" / place for _, place in shown} == pictures
    assert all(len(words.split()) >= 5 for words, _ in shown)


LED = (
    "README.md",
    *(f"{page}.md" for part in ("Start", "How to") for page in SECTIONS[part] if f"{page}.md" in FOLLOWED),
)
"""Pages that lead step by step."""


@pytest.mark.slow
@pytest.mark.parametrize("page", LED)
def test_each_picture_that_a_page_makes_is_shown_as_it_is(page: str, follower: Follower) -> None:
    """But for those beside stores that nobody asked for: whether these are drawn, the machine's speed decides."""
    folder, shown = follower.follow(page), shown_on(page)
    made = follower.made(page, *ENDINGS) - AGAIN.get(page, set())
    unasked = {name for name in made if (folder / re.sub(r"(-audit)?\.png$", ".zarr", name)).is_dir()}
    assert made - unasked <= set(shown)
    for name, picture in shown.items():
        assert is_picture_of(picture, folder / name), f"python tests/support/illustrated.py {page}"


def test_the_citation_names_this_version_and_license() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {hpcdp.__version__}\n" in text
    assert "\nlicense: Apache-2.0\n" in text


def rows_of(page: str, first: str) -> list[list[str]]:
    """Cells of the rows of the tables whose first column has this name."""
    tables = re.findall(r"(?:^\|.*\n)+", (ROOT / page).read_text(encoding="utf-8"), flags=re.M)
    cut = [[re.split(r" (?<!\\)\| ", line.strip("| \n")) for line in table.splitlines()] for table in tables]
    return [row for table in cut if table[0][0] == first for row in table[2:]]


def names_in(cell: str) -> list[str]:
    """What is in backticks in a cell of a table."""
    return re.findall(r"`([^`]+)`", cell)


def entries() -> dict[str, tuple[str, str]]:
    """Of each key on the page of study keys: what may stand there, and what it means."""
    found = re.findall(r"^\[\*\*`(\S+)`\*\*\]\{#\S+\}\n: (.+)\n: (.+)\n$", study_keys_page(), flags=re.M)
    return {key: (types, meaning) for key, types, meaning in found}


def default_in(types: str) -> object:
    """The default that a line of types names; ... where it says required, None where it says neither."""
    default = re.search(r"default `(.+)`$", types)
    return ... if types.endswith("*required*") else None if default is None else json.loads(default[1])


def test_every_key_and_parameter_is_on_its_page_with_its_default() -> None:
    page = entries()
    keys = {key: m.model_fields[name] for key, m, name in keys_of(Study) if "." in key and m not in OF_STORES}
    parameters = {f"{n}.{k}": f for n, kind in LOSSES.items() for k, f in kind.parameters.model_fields.items()}
    literal = {key for key in parameters if key.startswith("literal-knn.")}  # those of knn, which the page says
    assert set(page) == keys.keys() | parameters.keys() - literal
    del keys["estimate.epsilons"]  # [pure] and some losses do without, so that a schema does not require it
    for key, field in (keys | parameters).items():
        said = default_in(page[key.removeprefix("literal-")][0])
        default = ... if field.is_required() else field.get_default(call_default_factory=True)
        assert said == (list(default) if isinstance(default, tuple) else default), key
        assert type(said) is type(default) or isinstance(default, tuple), key
    for key, size in zip(("train", "test"), LOSSES["auto"].sizes, strict=True):
        assert page[f"estimate.{key}"][1].endswith(f": {size}")


def test_every_built_in_is_documented_with_its_parameters() -> None:
    documented = {names_in(row[0])[0]: names_in(row[1]) for row in rows_of("docs/study.md", "call")}
    assert set(documented) == {*BUILTINS, *READERS}
    assert documented[STORED] == ["files"]
    assert documented[SCORES] == ["files", "score", "parameters = {}"]
    for name in BUILTINS:
        own = inspect.signature(load_builtin(name)).parameters.values()
        own = {p.name: p.default for p in own if p.kind is p.KEYWORD_ONLY}
        assert {text.partition(" =")[0] for text in documented[name]} == set(own), name
        given = {k: v for text in documented[name] if "=" in text for k, v in tomllib.loads(text).items()}
        assert {k: v for k, v in own.items() if v not in (inspect.Parameter.empty, None)} == given, name


@pytest.mark.slow
def test_every_claim_is_documented() -> None:
    claims = {names_in(row[0])[0].partition("(")[0] for row in rows_of("docs/study.md", "claim")}
    assert claims == set(FORMS)


@pytest.mark.slow
def test_every_array_and_json_key_is_documented(read: Callable[[str], Path]) -> None:
    result = load_result(read("docs/store.md") / "runs" / "damage.zarr")
    arrays = {name for row in rows_of("docs/store.md", "array") for name in names_in(row[0])}
    pure = {name for name in arrays if name.startswith(("pure_", "risk_"))}  # of studies with such a section
    named = {"order", "variational_lower", "variational_level", "variational_promise"}  # of estimate.renyi
    named |= {"bin_counts", "bin_atom", "pair_laws"}  # of histograms
    named |= {"special"}  # where outputs are NaN, infinite, None or exceptions
    named |= {"several_losses", "dependence"}  # where thresholds were added, and where draws depend on each other
    assert arrays == set(result.arrays) | {"errors", "tests", "block_exceed", "block_test"} | pure | named
    keys = {name: set(names_in(row[1])) for row in rows_of("docs/store.md", "key") for name in names_in(row[0])}
    found = json.loads(result.to_json())
    assert set(found) == set(keys) - {"reuse", "pure", "risk", "sequential_audits"}  # which other stores have
    assert set(found["cells"][0]) == keys["cells"] - {"errors", "tests", "estimate.certify", "certified"}
    assert set(found["spectrum"][0]) == keys["spectrum"] - {"certified"}
    assert set(found["tradeoff"][0]) == keys["tradeoff"]
