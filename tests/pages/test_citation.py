"""The citation file names this version and its license."""

from pathlib import Path

import hpcdp


def test_the_citation_names_this_version_and_license() -> None:
    text = (Path(__file__).parents[2] / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {hpcdp.__version__}\n" in text
    assert "\nlicense: Apache-2.0\n" in text
