"""A notebook that a real kernel runs: results are shown, and progress without a word."""

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest
from commands import LONG
from pages import Page

CELLS = [
    """import hpcdp
study = hpcdp.Study.from_dict({
    "study": {"name": "note", "seed": 3, "claim": "laplace(epsilon=0.5)"},
    "mechanism": {"call": "laplace", "parameters": {"epsilon": 1.0}},
    "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
    "estimate": {"train": 4000, "test": 4000, "epsilons": [0.0, 1.0]},
})
result = hpcdp.run(study, "note.zarr", workers=0)
result""",
    'hpcdp.verify(result, "gaussian(mu=1)")',
    "hpcdp.Spectrum.of(result)",
    "hpcdp.run(study, 'other.zarr', workers=0, progress=hpcdp.engine.progress.Silent())",
    "result.plot()",
    "%matplotlib inline",
    "result.plot()",
]
RUN = """
import sys, nbformat, nbclient
cells = [nbformat.v4.new_code_cell(text) for text in nbformat.read(sys.argv[1], 4)["metadata"]["cells"]]
book = nbformat.v4.new_notebook(cells=cells)
nbclient.NotebookClient(book, kernel_name="python3", timeout=250).execute()
nbformat.write(book, sys.argv[1])
"""


@pytest.mark.slow
def test_a_notebook(nbclient: Path, tmp_path: Path) -> None:
    book = tmp_path / "book.ipynb"
    head = {"nbformat": 4, "nbformat_minor": 5, "cells": [], "metadata": {"cells": CELLS}}
    book.write_text(json.dumps(head))
    root = Path(__file__).resolve().parents[3]
    paths = os.pathsep.join([str(root), sysconfig.get_path("purelib")])
    done = subprocess.run(
        [str(nbclient), "-c", RUN, str(book)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths, "JUPYTER_ALLOW_INSECURE_WRITES": "1"},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outputs = [cell["outputs"] for cell in json.loads(book.read_text())["cells"]]
    lines = ["".join(one["data"]["text/plain"]) for one in outputs[0] if one["output_type"] == "display_data"]
    assert any(line.startswith("run: 100 %, done in ") for line in lines)
    assert [one["output_type"] for one in outputs[3]] == ["execute_result"]  # silent, as was asked for
    for shown in (outputs[4], outputs[6]):  # one picture, with and without matplotlib's own
        assert [one["output_type"] for one in shown] == ["execute_result"]
        assert len(shown[0]["data"]["image/png"]) > 10_000
    for shown, words in zip(
        outputs, ("note: The claim laplace(epsilon=0.5) is", "gaussian(mu=1)", "Spectrum"), strict=False
    ):
        data = shown[-1]["data"]
        assert "".join(data["text/plain"]).startswith("<hpcdp.")
        page = Page("".join(data["text/html"]))
        assert words in page.text
        assert len(page.named("svg")) == 1
