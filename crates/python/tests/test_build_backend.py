"""`pip install .` leaves nothing in the source."""

import os
import sys
from pathlib import Path

import pytest
from conftest import ROOT

maturin = pytest.importorskip("maturin")


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "crates" / "python"))
    monkeypatch.delitem(sys.modules, "build_backend", raising=False)
    import build_backend

    return build_backend


@pytest.mark.parametrize("hook", ["build_wheel", "build_editable", "build_sdist"])
def test_it_compiles_in_a_folder_that_goes(backend, hook, monkeypatch, tmp_path):
    seen = []

    def build(*arguments):
        folder = Path(os.environ["CARGO_TARGET_DIR"])
        (folder / "release").mkdir()
        seen.append(folder)
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(maturin, hook, build)
    monkeypatch.delenv("CARGO_TARGET_DIR", raising=False)
    with pytest.raises(RuntimeError, match="no compiler here"):
        getattr(backend, hook)(str(tmp_path))
    assert not seen[0].exists()
    assert not seen[0].is_relative_to(ROOT)
    assert "CARGO_TARGET_DIR" not in os.environ


def test_a_folder_that_is_set_is_used_and_kept(backend, monkeypatch, tmp_path):
    folders = []
    monkeypatch.setattr(
        maturin, "build_wheel", lambda *_: folders.append(os.environ["CARGO_TARGET_DIR"])
    )
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    backend.build_wheel(str(tmp_path))
    assert folders == [str(tmp_path)]
    assert tmp_path.exists()
