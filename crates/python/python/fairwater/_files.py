"""Algorithms in files, as the command line and scenarios name them: `my_alg.py:MyAlg`."""

from __future__ import annotations

import difflib
import importlib.util
import itertools
import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from fairwater._parameters import AlgorithmError, from_text

_modules: dict[Path, tuple[tuple[int, int], ModuleType]] = {}
_numbers = itertools.count()
_loading = threading.RLock()


def find(file: os.PathLike[str] | str, text: str) -> tuple[type, dict[str, Any]]:
    """The class in that file, and its parameters, that `Class:key=value,key=value` stands for.

    The file is run once, and again when it has changed. What it raises passes through;
    `AlgorithmError` says whatever else is wrong.
    """
    path = Path(file)
    name, _, parameters = text.partition(":")
    name = name.strip()
    module = _module(path)
    found = getattr(module, name, None) if name else None
    if not isinstance(found, type):
        raise AlgorithmError([_no_class(path, name, module)])
    return found, from_text(found, parameters)


def forget(folder: Path) -> None:
    """Let go of the modules of a folder that is about to go."""
    with _loading:
        for path in [path for path in _modules if path.is_relative_to(folder)]:
            _, module = _modules.pop(path)
            sys.modules.pop(module.__name__, None)
        sys.path[:] = [each for each in sys.path if not Path(each).is_relative_to(folder)]


def _no_class(path: Path, name: str, module: ModuleType) -> str:
    classes = [
        each
        for each, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and hasattr(value, "on_report")
    ]
    if not classes:
        there = "it has no class with a method on_report"
    elif near := difflib.get_close_matches(name, classes, n=1):
        there = f"did you mean `{path}:{near[0]}`?"
    else:
        there = f"there is {' and '.join(f'`{path}:{each}`' for each in classes)}"
    if name:
        return f"{path} has no class `{name}`; {there}"
    return f"`{path}` says no class; {there}"


def _module(path: Path) -> ModuleType:
    try:
        path = path.resolve(strict=True)
        status = path.stat()
    except OSError as error:
        raise AlgorithmError([f"{path}: {error.strerror}"]) from error
    version = (status.st_mtime_ns, status.st_size)
    with _loading:
        former = _modules.get(path)
        if former is not None and former[0] == version:
            return former[1]
        name = f"fairwater_algorithm_{path.stem}_{next(_numbers)}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise AlgorithmError([f"{path} is no Python file"])
        module = importlib.util.module_from_spec(spec)
        # What stands beside the file can be imported, as in a script.
        folder = str(path.parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        # Dataclasses and pickling look the module up by its name.
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        _modules[path] = (version, module)
        return module
