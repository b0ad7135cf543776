"""The build backend of the Python package: maturin, compiling in a temporary folder.

`pip install .` then leaves nothing in the source, where cargo's `target` would take a gigabyte. A
`CARGO_TARGET_DIR` that is set is used, and kept.
"""

import contextlib
import os
import tempfile

import maturin
from maturin import (  # noqa: F401 (hooks of PEP 517 and PEP 660)
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

_TARGET = "CARGO_TARGET_DIR"


@contextlib.contextmanager
def _target_outside_the_source():
    if _TARGET in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="fairwater-build-") as folder:
        os.environ[_TARGET] = folder
        try:
            yield
        finally:
            del os.environ[_TARGET]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with _target_outside_the_source():
        return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    with _target_outside_the_source():
        return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    with _target_outside_the_source():
        return maturin.build_sdist(sdist_directory, config_settings)
