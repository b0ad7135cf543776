"""The notebook of the first hour runs from its first cell to its last."""

import asyncio
import os
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs nbformat, nbclient and ipykernel")
nbclient = pytest.importorskip("nbclient", reason="needs nbformat, nbclient and ipykernel")
pytest.importorskip("ipykernel", reason="needs nbformat, nbclient and ipykernel")
pytest.importorskip("gymnasium", reason="needs fairwater[gym]")
pytest.importorskip("matplotlib", reason="needs fairwater[plot]")

FILE = Path(__file__).parents[3] / "examples/python/first_hour.ipynb"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of each cell, by the first line of its code."""
    notebook = nbformat.read(FILE, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not to be kept"
    folder = tmp_path_factory.mktemp("notebook")
    client = nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(folder)}}
    )
    asyncio.run(client.async_execute())
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def texts(outputs):
    for each in outputs:
        yield each.get("text") or each.get("data", {}).get("text/plain", "")


def test_tables_and_plots_are_shown(outputs):
    assert "cubic" in "".join(texts(outputs[0]))
    pictures = [each for cell in outputs for each in cell if "image/png" in each.get("data", {})]
    assert len(pictures) == 3


def test_mistakes_are_shown_where_they_were_made(outputs):
    said = "".join(text for cell in outputs for text in texts(cell))
    assert "Ack.bytes_aked" in said
    assert "Ack.bytes_acked" in said


def test_real_tcp_runs_or_says_what_it_needs(outputs):
    said = "".join(texts(outputs[-1]))
    required = os.environ.get("FAIRWATER_REQUIRE_PRIVILEGED") == "1"
    assert "50 MB were sent under fw_first" in said or (not required and "Not here: " in said)
