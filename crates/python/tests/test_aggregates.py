"""Flows that one instance controls together."""

import pytest
from conftest import PROGRAM, scenario

import fairwater

MSS = 1448
WINDOW = 24 * MSS


class Shared(fairwater.Algorithm):
    """Divides a window among the flows of a key."""

    programs = PROGRAM
    made: list["Shared"]

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int]] = []
        self.left: list[int] = []
        self.ended = 0
        type(self).made.append(self)

    def aggregate_by(self, info):
        return "all"

    def divide(self, group):
        for control in group:
            control.set_cwnd(WINDOW // len(group))

    def new_flow(self, info, control):
        self.divide(control.group)

    def on_report(self, report, control):
        self.seen.append((control.member, len(control.group), report.cwnd))

    def on_leave(self, member, group):
        self.left.append(member)
        self.divide(group)

    def on_close(self):
        self.ended += 1


@pytest.fixture
def shared() -> type[Shared]:
    """The class anew, to be looked at and inherited from."""
    return type("Fresh", (Shared,), {"made": []})


def simulated(algorithm, text):
    return fairwater.simulate(text, algorithms={"shared": algorithm})


def with_flows(algorithm):
    """The instances that had flows."""
    return [each for each in algorithm.made if each.seen]


def test_flows_of_a_key_share_an_instance_and_its_window(shared):
    assert simulated(shared, scenario("shared", count=3)).notices == []
    [one] = with_flows(shared)
    members = {member for member, *_ in one.seen}
    assert members == {0, 1, 2}
    late = one.seen[-20:]
    assert {count for _, count, _ in late} == {3}
    assert {cwnd for *_, cwnd in late} == {WINDOW // 3}


def test_flows_of_other_keys_have_instances_of_their_own(shared):
    class Keyed(shared):
        keys = iter(["1", 1, b"1", ("1", 1), "1"])

        def aggregate_by(self, info):
            return next(Keyed.keys)

    assert simulated(Keyed, scenario("shared", count=5)).notices == []
    sizes = sorted(max(count for _, count, _ in each.seen) for each in with_flows(Keyed))
    assert sizes == [1, 1, 1, 2]


def test_who_leaves_is_told_and_the_others_have_its_part(shared):
    more = ', { algorithm = "shared", traffic = { bytes = "50kB" } }'
    assert simulated(shared, scenario("shared", count=1, more=more)).notices == []
    [one] = with_flows(shared)
    assert len(one.left) == 1
    assert one.seen[-1][1:] == (1, WINDOW)
    assert one.ended == 0


def test_the_last_that_leaves_ends_it(shared):
    text = scenario("shared", count=2).replace(
        "count = 2", 'count = 2, traffic = { bytes = "50kB" }'
    )
    assert simulated(shared, text).notices == []
    [one] = with_flows(shared)
    assert sorted(one.left) == [0, 1]
    assert one.ended == 1


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: 1.5, "TypeError: aggregate_by returned a value of type float"),
        (lambda: ("a", None), "TypeError: aggregate_by returned a value of type tuple"),
        (lambda: None, None),
    ],
)
def test_a_flow_without_a_key_runs_alone(shared, monkeypatch, returned, told):
    class Keyless(shared):
        def aggregate_by(self, info):
            return returned()

    raised = []
    monkeypatch.setattr("sys.unraisablehook", raised.append)
    results = simulated(Keyless, scenario("shared", count=3))
    assert results.notices == []
    alone = with_flows(Keyless)
    assert len(alone) == 3
    for each in alone:
        assert {(member, count) for member, count, _ in each.seen} == {(0, 1)}
        assert each.seen[-1][2] == WINDOW
    texts = [f"{each.exc_type.__name__}: {each.exc_value}" for each in raised]
    assert len(texts) == (told is not None)
    assert all(text.startswith(told) for text in texts)


def test_what_raises_for_a_member_gives_that_one_up_and_takes_no_effect(shared):
    class Raises(shared):
        def on_report(self, report, control):
            super().on_report(report, control)
            if control.member == 1:
                for each in control.group:
                    each.set_cwnd(7 * MSS)
                raise RuntimeError("not this one")

    results = simulated(Raises, scenario("shared", count=3))
    [notice] = results.notices
    assert "on_report raised" in notice.text
    assert "RuntimeError: not this one" in notice.text
    [one] = with_flows(Raises)
    assert one.left == [1]
    assert {cwnd for *_, cwnd in one.seen[-20:]} == {WINDOW // 2}
    assert 7 * MSS not in {cwnd for *_, cwnd in one.seen}


def test_the_control_of_a_member_ends_with_it(shared):
    class Keeps(shared):
        def new_flow(self, info, control):
            super().new_flow(info, control)
            self.kept = [*getattr(self, "kept", []), control]

        def on_leave(self, member, group):
            with pytest.raises(RuntimeError, match="the call that it was given to"):
                self.kept[member].set_cwnd(1)
            super().on_leave(member, group)

    more = ', { algorithm = "shared", traffic = { bytes = "50kB" } }'
    assert simulated(Keeps, scenario("shared", count=1, more=more)).notices == []
    [one] = with_flows(Keeps)
    for control in one.kept:
        with pytest.raises(RuntimeError, match="the call that it was given to"):
            control.set_cwnd(1)


def test_a_constructor_that_raises_for_an_aggregate_gives_its_flows_up(shared):
    class Refuses(shared):
        def __init__(self) -> None:
            super().__init__()
            if len(type(self).made) > 2:
                raise RuntimeError("no more of us")

    results = simulated(Refuses, scenario("shared", count=2))
    texts = [notice.text for notice in results.notices]
    assert all("the constructor raised" in text for text in texts), texts
    assert "RuntimeError: no more of us" in "".join(texts)
