"""An algorithm's parameters: what its constructor takes, checked by its annotations."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal


class AlgorithmError(ValueError):
    """Everything that is wrong with an algorithm or its parameters, one fault a line."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True)
class Range:
    """What a parameter may be: `gain: Annotated[float, Range(0, 1)]`; both ends included."""

    least: float
    most: float
    unit: str = ""
    """Shown behind the numbers: `µs`, `segments`."""

    def __str__(self) -> str:
        return f"from {self.least} to {self.most} {self.unit}".strip()


def from_text(algorithm: Callable[..., Any], text: str) -> dict[str, Any]:
    """The parameters of `key=value,key=value`; `AlgorithmError` names everything that is wrong."""
    known = _known(algorithm)
    values: dict[str, Any] = {}
    faults = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            faults.append(f"`{part}` is not of the form key=value")
        elif key in values:
            faults.append(f"`{key}` is set twice")
        elif key not in known:
            faults.append(_unknown(algorithm, key, known))
        else:
            try:
                values[key] = known[key].read(value)
            except ValueError:
                faults.append(f"`{part}`: {key} must be {known[key]}")
    return _complete(algorithm, known, values, faults)


def checked(algorithm: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, when they are right; `AlgorithmError` names everything that is wrong."""
    known = _known(algorithm)
    faults = []
    for key, value in values.items():
        if key not in known:
            faults.append(_unknown(algorithm, key, known))
        elif not known[key].allows(value):
            faults.append(f"{key} is {value!r}: it must be {known[key]}")
    return _complete(algorithm, known, dict(values), faults)


def _complete(
    algorithm: Callable[..., Any],
    known: Mapping[str, _Parameter],
    values: dict[str, Any],
    faults: list[str],
) -> dict[str, Any]:
    for key, parameter in known.items():
        if parameter.required and key not in values and not faults:
            faults.append(f"{_name(algorithm)} needs its parameter `{key}`: {parameter}")
    if faults:
        raise AlgorithmError(faults)
    return values


def _name(algorithm: Callable[..., Any]) -> str:
    return getattr(algorithm, "__name__", repr(algorithm))


def _unknown(algorithm: Callable[..., Any], key: str, known: Mapping[str, _Parameter]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    if near:
        hint = f"did you mean `{near[0]}`?"
    elif known:
        hint = f"it has {', '.join(known)}"
    else:
        hint = "it has none"
    return f"{_name(algorithm)} has no parameter `{key}`; {hint}"


@dataclass(frozen=True)
class _Parameter:
    """One parameter: its type, `Annotated` with its range."""

    type: Any
    required: bool

    def __str__(self) -> str:
        return _described(self.type)

    def read(self, text: str) -> Any:
        value = _read(self.type, text)
        if not self.allows(value):
            raise ValueError(text)
        return value

    def allows(self, value: Any) -> bool:
        return _allows(self.type, value)


def _known(algorithm: Callable[..., Any]) -> dict[str, _Parameter]:
    try:
        signature = inspect.signature(algorithm)
    except (TypeError, ValueError):
        return {}
    constructor = getattr(algorithm, "__init__", algorithm)
    try:
        hints = typing.get_type_hints(constructor, include_extras=True)
    except (NameError, TypeError):
        hints = {}
    known = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        required = parameter.default is parameter.empty
        hint = hints.get(name)
        if hint is None and not required and isinstance(parameter.default, bool | int | float):
            hint = type(parameter.default)
        known[name] = _Parameter(Any if hint is None else hint, required)
    return known


_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _choices(kind: Any) -> tuple[Any, ...] | None:
    """The types of a union."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return typing.get_args(kind)
    return None


def _ranged(kind: Any) -> tuple[Any, Range | None]:
    """What `Annotated` annotates, and its range."""
    if typing.get_origin(kind) is typing.Annotated:
        kind, *notes = typing.get_args(kind)
        return kind, next((note for note in notes if isinstance(note, Range)), None)
    return kind, None


def _read(kind: Any, text: str) -> Any:
    annotated, (kind, _) = kind, _ranged(kind)
    if annotated is not kind:
        value = _read(kind, text)
        if not _allows(annotated, value):
            raise ValueError(text)
        return value
    if (choices := _choices(kind)) is not None:
        # `none` is a text as well: it means nothing where that is allowed.
        for choice in sorted(choices, key=lambda choice: choice is not type(None)):
            try:
                return _read(choice, text)
            except ValueError:
                continue
        raise ValueError(text)
    if typing.get_origin(kind) is Literal:
        for value in typing.get_args(kind):
            if str(value) == text:
                return value
        raise ValueError(text)
    if kind is bool:
        if text not in _TRUTHS:
            raise ValueError(text)
        return _TRUTHS[text]
    if kind is type(None):
        if text != "none":
            raise ValueError(text)
        return None
    if kind in (int, float):
        return kind(text)
    return text


def _allows(kind: Any, value: Any) -> bool:
    kind, span = _ranged(kind)
    if span is not None and value is not None:
        # What the type lets through may be no number all the same.
        with contextlib.suppress(TypeError):
            return _allows(kind, value) and span.least <= value <= span.most
        return False
    if (choices := _choices(kind)) is not None:
        return any(_allows(choice, value) for choice in choices)
    if typing.get_origin(kind) is Literal:
        return value in typing.get_args(kind)
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and not math.isnan(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in (bool, str, type(None)):
        return isinstance(value, kind)
    return True


def _described(kind: Any) -> str:
    kind, span = _ranged(kind)
    if span is not None:
        return f"{'a whole number' if kind is int else 'a number'} {span}"
    if (choices := _choices(kind)) is not None:
        return " or ".join(_described(choice) for choice in choices)
    if typing.get_origin(kind) is Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(kind))
    names = {bool: "`true` or `false`", int: "a whole number", float: "a number", str: "a text"}
    names[Any] = "a text"
    return names.get(kind, "`none`" if kind is type(None) else str(kind))
