"""An algorithm's parameters, and what is found to be wrong before anything runs."""

from types import MappingProxyType
from typing import Annotated, Literal

import pytest
from conftest import PROGRAM, scenario

import fairwater


class Tuned(fairwater.Algorithm):
    """Has a parameter of each kind."""

    programs = PROGRAM
    made: list["Tuned"] = []

    def __init__(
        self,
        gain: Annotated[float, fairwater.Range(0, 1, "per RTT")] = 0.5,
        mode: Literal["slow", "fast"] = "slow",
        limit: int | None = None,
        keep: bool = False,
        period=10,
        share: Annotated[int, fairwater.Range(1, 9, "%")] | None = None,
    ):
        self.gain, self.mode, self.limit, self.keep, self.period = gain, mode, limit, keep, period
        self.share = share
        Tuned.made.append(self)

    def on_report(self, report, control):
        pass


def simulated(text, algorithm=Tuned):
    return fairwater.simulate(scenario(text, duration="100ms"), algorithms={"tuned": algorithm})


def test_texts_become_values_of_the_annotated_types():
    Tuned.made.clear()
    simulated("tuned:gain=1,mode=fast,limit=7,keep=yes,period=20")
    flow = Tuned.made[-1]
    assert (flow.gain, flow.mode, flow.limit, flow.keep, flow.period) == (1.0, "fast", 7, True, 20)
    simulated("tuned: limit = none ")
    assert Tuned.made[-1].limit is None
    simulated("tuned:share=9")
    assert Tuned.made[-1].share == 9
    simulated("tuned:share=none")
    assert Tuned.made[-1].share is None


@pytest.mark.parametrize(
    ("settings", "messages"),
    [
        ("gain=7", ["`gain=7`: gain must be a number from 0 to 1 per RTT"]),
        ("gain=nan", ["gain must be a number from 0 to 1 per RTT"]),
        ("gian=0.5", ["Tuned has no parameter `gian`; did you mean `gain`?"]),
        ("zzz=1", ["it has gain, mode, limit, keep, period, share"]),
        ("mode=medium", ["mode must be `slow` or `fast`"]),
        ("limit=1.5", ["limit must be a whole number or `none`"]),
        ("keep=maybe", ["keep must be `true` or `false`"]),
        ("period=x", ["period must be a whole number"]),
        ("share=10", ["`share=10`: share must be a whole number from 1 to 9 % or `none`"]),
        ("gain", ["`gain` is not of the form key=value"]),
        ("gain=0.1,gain=0.2", ["`gain` is set twice"]),
        ("gain=2,mode=x,limit=y", ["gain must be", "mode must be", "limit must be"]),
    ],
)
def test_everything_that_is_wrong_is_named(settings, messages):
    with pytest.raises(ValueError, match="algorithm") as refused:
        simulated(f"tuned:{settings}")
    for message in messages:
        assert message in str(refused.value)


@pytest.mark.parametrize(
    "values",
    [
        {"gain": 7},
        {"gain": "0.5"},
        {"gain": True},
        {"mode": "x"},
        {"limit": 1.5},
        {"share": 0},
        {"share": 1.5},
    ],
)
def test_values_from_python_are_checked_alike(values):
    (key,) = values
    with pytest.raises(fairwater.AlgorithmError, match=f"{key} is .*: it must be"):
        fairwater.speed(Tuned, reports=1, **values)
    with pytest.raises(fairwater.AlgorithmError, match=f"{key} is .*: it must be"):
        fairwater.attach(Tuned, **values)


def test_a_parameter_without_a_default_is_asked_for():
    class Needs(Tuned):
        def __init__(self, rate: int):
            self.rate = rate

    with pytest.raises(ValueError, match="needs its parameter `rate`: a whole number"):
        simulated("tuned", Needs)
    simulated("tuned:rate=3", Needs)


def test_programs_may_depend_on_parameters():
    class Written(Tuned):
        def __init__(self, after: int = 1):
            self.programs = f"(when (> Micros {after}) (report) (reset))"

        def on_report(self, report, control):
            pass

    assert fairwater.speed(Written, reports=10, after=3).reports == 10


def test_programs_may_be_any_mapping():
    class Mapped(Tuned):
        programs = MappingProxyType({"first": PROGRAM, "second": PROGRAM})

    assert fairwater.speed(Mapped, reports=10).reports == 10


def test_every_program_that_does_not_compile_is_shown_with_its_place():
    class Wrong(Tuned):
        programs = {"first": "(when true (:= Report.x 1) (foo))", "second": "(when"}

    with pytest.raises(fairwater.AlgorithmError) as refused:
        fairwater.speed(Wrong)
    text = str(refused.value)
    assert "error[undeclared]: `Report.x` is not declared" in text
    assert "--> first:1:16" in text
    assert "`foo` is not an operator" in text
    assert "error[unclosed-parenthesis]" in text
    assert "--> second:1:1" in text
    assert len(refused.value.faults) == 2


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"programs": PROGRAM}, "has no method on_report"),
        ({"on_report": print}, "has no `programs`"),
        ({"on_report": print, "programs": 3}, "`programs` of Odd is int: it must be"),
        ({"on_report": print, "programs": {}}, "`programs` of Odd is dict: it must be"),
        ({"on_report": print, "programs": {"a": 3}}, "`programs` of Odd is dict: it must be"),
        ({"on_report": print, "programs": PROGRAM, "idle_restart": 3}, "TypeError"),
    ],
)
def test_what_a_class_lacks_is_said(members, message):
    with pytest.raises(fairwater.AlgorithmError) as refused:
        fairwater.speed(type("Odd", (), members))
    assert message in str(refused.value)


def test_a_constructor_that_raises_is_shown_with_its_traceback():
    class Raises(Tuned):
        def __init__(self):
            raise RuntimeError("no such luck")

    with pytest.raises(fairwater.AlgorithmError, match="no such luck") as refused:
        fairwater.speed(Raises)
    assert "test_parameters.py" in str(refused.value)
