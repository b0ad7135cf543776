"""What an algorithm reads, and what it may do with it."""

import itertools

import pytest
from conftest import PROGRAM, scenario

import fairwater


def flows_of(on_report, *, new_flow=None, programs=PROGRAM, **options):
    """Simulate an algorithm with these methods; returns the results."""
    members = {"programs": programs, "on_report": on_report}
    if new_flow is not None:
        members["new_flow"] = new_flow
    algorithm = type("Tested", (fairwater.Algorithm,), members)
    return fairwater.simulate(scenario("tested", **options), algorithms={"tested": algorithm})


def test_fields_are_attributes_in_the_programs_units():
    seen = []

    def on_report(self, report, control):
        seen.append(
            (report.time_us, report.cwnd, report.rate, report.acked, report.timeout, report.srtt)
        )
        assert report["acked"] == report.acked
        assert report.program == control.program == "tested"

    results = flows_of(on_report)
    assert results.notices == []
    assert len(seen) > 20
    times = [time for time, *_ in seen]
    assert times == sorted(times)
    # One report a round trip of 20 ms and more.
    assert all(later - sooner >= 20_000 for sooner, later in itertools.pairwise(times))
    assert {cwnd for _, cwnd, *_ in seen} == {14_480}
    assert {rate for _, _, rate, *_ in seen} == {0}
    assert all(acked > 0 and isinstance(acked, int) for *_, acked, _, _ in seen)
    assert {timeout for *_, timeout, _ in seen} == {False}
    assert all(timeout is False for *_, timeout, _ in seen)
    assert {srtt for *_, srtt in seen} == {fairwater.INFINITY}


def test_new_flow_knows_the_flow():
    seen = []

    def new_flow(self, info, control):
        seen.append(info)
        control.set_cwnd(20 * info.mss)

    def on_report(self, report, control):
        assert report.cwnd == 20 * 1448

    results = flows_of(on_report, new_flow=new_flow, count=2)
    assert results.notices == []
    assert [info.mss for info in seen] == [1448, 1448]
    assert all(info.cwnd == 14_480 and info.srtt_us >= 20_000 for info in seen)
    assert len({info.local for info in seen}) == 2


def test_what_is_asked_for_takes_effect():
    cwnds = []

    def on_report(self, report, control):
        cwnds.append(report.cwnd)
        # A float is rounded down, and the datapath to whole segments.
        control.set_cwnd(len(cwnds) * 1448 + 0.5)

    assert flows_of(on_report).notices == []
    assert cwnds[1:] == [n * 1448 for n in range(1, len(cwnds))]


def test_a_rate_is_in_the_report_after():
    rates = []

    def on_report(self, report, control):
        rates.append(report.rate)
        control.set_rate(1_000_000)

    assert flows_of(on_report).notices == []
    assert rates[0] == 0
    assert set(rates[1:]) == {1_000_000}


def test_switching_and_variables():
    programs = {
        "first": "(def (Report (a 0))) (when true (:= Report.a 1) (report))",
        "second": "(def (Report (b 0)) (v 5) (flag false))"
        " (when true (:= Report.b (+ v (if flag 100 0))) (report))",
    }
    seen = []

    def on_report(self, report, control):
        if report.program == "first":
            control.switch("second", flag=True)
            assert control.program == "second"
            control.update(v=7)
        else:
            seen.append(report.b)

    assert flows_of(on_report, programs=programs).notices == []
    assert set(seen) == {107}


def raising(results):
    """The one notice that shows a traceback, and how many flows were given up."""
    texts = [notice.text for notice in results.notices]
    shown = [text for text in texts if "Traceback (most recent call last)" in text]
    assert len(shown) == 1, texts
    return shown[0], len(texts)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("report.ackd", "no report field `ackd`; did you mean `acked`?"),
        ("report['ackd']", "no report field `ackd`; did you mean `acked`?"),
        ("setattr(report, 'acked', 3)", "`acked` is what the datapath reported"),
        ("control.set_cwnd(0)", "cwnd is 0: it must be from 1"),
        ("control.set_cwnd(-1)", "cwnd is -1: it must be from 1"),
        ("control.set_cwnd(2**64)", "it must be from 1 to 2**64 - 1"),
        ("control.set_cwnd(float('nan'))", "cwnd is nan"),
        ("control.set_cwnd(float('inf'))", "cwnd is inf"),
        ("control.set_cwnd('many')", "cwnd is 'many': it must be a number"),
        ("control.set_cwnd(None)", "cwnd is None: it must be a number"),
        ("control.set_rate(2**41)", "rate is 2199023255552: it must be from 0"),
        ("control.update(gian=1)", "no control variable `gian`; did you mean `gain`?"),
        ("control.update(acked=1)", "no control variable `acked`"),
        ("control.update(gain=-3)", "gain is -3"),
        ("control.update(probing=3)", "`probing` is 3: it must be True or False"),
        ("control.switch('testd')", "no program `testd`; did you mean `tested`?"),
        ("control.cwnd = 3", "cwnd"),
        ("1 / 0", "ZeroDivisionError"),
        ("exit(3)", "SystemExit: 3"),
    ],
)
def test_what_raises_gives_its_flows_up_and_is_told_once(line, message):
    source = f"def on_report(self, report, control):\n    control.set_cwnd(5000)\n    {line}\n"
    scope = {}
    exec(source, scope)
    results = flows_of(
        scope["on_report"], count=2, more=', { algorithm = "reno", name = "beside" }'
    )
    text, given_up = raising(results)
    assert given_up == 2
    assert message in text
    assert "in the plane: a report of program `tested` at" in text
    assert ", lost 0" in text
    # Nothing of the call took effect, the fallback goes on, and so does the other.
    assert "cwnd 14480 bytes" in text
    throughput = results.flows.set_index("group")["throughput_bps"]
    assert (throughput > 500_000).all()


def test_a_traceback_is_shown_once_whatever_the_messages_say():
    numbers = itertools.count()

    def on_report(self, report, control):
        number = next(numbers)
        try:
            {}[f"nothing of {number}"]
        except KeyError as error:
            raise RuntimeError(f"flow {number}\nhas nothing") from error

    results = flows_of(on_report, count=3)
    texts = [notice.text for notice in results.notices]
    assert len(texts) == 3
    assert texts[0].count("Traceback (most recent call last)") == 2
    assert "nothing of 0" in texts[0]
    for number in (1, 2):
        assert f"on_report raised as before: RuntimeError: flow {number}; in" in texts[number]


def test_what_raises_in_new_flow_gives_the_flow_up():
    def new_flow(self, info, control):
        raise RuntimeError("not this one")

    results = flows_of(lambda self, report, control: None, new_flow=new_flow)
    text, given_up = raising(results)
    assert given_up == 1
    assert "new_flow raised" in text
    assert "RuntimeError: not this one" in text
    assert results.flows["throughput_bps"][0] > 5e6


def test_a_returned_value_is_not_lost_in_silence():
    [notice] = flows_of(lambda self, report, control: 14_480).notices
    assert "TypeError: on_report returned a value of type int" in notice.text


def test_a_flow_can_be_given_up():
    def on_report(self, report, control):
        control.withdraw("it is not worth it")

    results = flows_of(on_report)
    assert [notice.text.split(": ", 2)[2] for notice in results.notices] == ["it is not worth it"]


def test_report_and_control_end_with_their_call():
    kept = []

    def new_flow(self, info, control):
        kept.append(control)

    def on_report(self, report, control):
        kept.append(report)

    flows_of(on_report, new_flow=new_flow)
    control, report = kept[0], kept[1]
    with pytest.raises(RuntimeError, match="the call that it was given to"):
        control.set_cwnd(14_480)
    with pytest.raises(RuntimeError, match="the on_report that it was given to"):
        _ = report.acked
    assert "former report" in repr(report)


def test_a_field_hides_what_a_report_has_of_its_own():
    program = "(def (Report (rate 0))) (when true (:= Report.rate 77) (report))"
    seen = set()

    def on_report(self, report, control):
        seen.add(report.rate)

    flows_of(on_report, programs=program)
    assert seen == {77}


def test_on_close_is_told_of_the_end():
    ends = []

    class Ends(fairwater.Algorithm):
        programs = PROGRAM

        def on_report(self, report, control):
            self.last = report.time_us

        def on_close(self):
            ends.append(self.last)

    text = scenario("ends").replace("count = 1", 'traffic = { bytes = "100kB" }')
    assert fairwater.simulate(text, algorithms={"ends": Ends}).notices == []
    assert len(ends) == 1
