"""Scenarios from Python."""

import os
import signal
import sys
import threading
import time

import pyarrow as pa
import pytest
from conftest import EXAMPLES, PROGRAM, ROOT, scenario

import fairwater

GRID = """
    duration = "2s"
    seeds = 2
    dumbbell = { rate = "$rate", rtt = "20ms" }
    flow = [{ algorithm = "reno", count = 2 }, { algorithm = "native:cubic" }]
    sweep = { rate = ["12mbit", "24mbit"] }
"""


def test_tables_have_a_row_for_each_flow_of_each_run():
    results = fairwater.simulate(GRID)
    flows = results.flows
    assert len(flows) == 4 * 3
    assert list(flows["$rate"].unique()) == ["12mbit", "24mbit"]
    assert sorted(flows["point"].unique()) == [0, 1, 2, 3]
    assert flows["throughput_bps"].dtype == "float64"
    assert flows["segments"].dtype == "uint64"
    total = flows.groupby("point")["throughput_bps"].sum()
    assert total[0] > 8e6
    assert total[3] > 16e6
    assert len(results.groups) == 4 * 2
    assert "bottleneck" in set(results.edges["edge"])
    assert results.flow_series.empty
    assert results.notices == []


def test_an_arrow_table_is_the_same():
    results = fairwater.simulate(scenario("cubic"))
    table = results.arrow("flow_series")
    assert isinstance(table, pa.Table)
    assert table.num_rows == len(results.flow_series) > 400
    assert table.column("cwnd_bytes").to_pylist() == list(results.flow_series["cwnd_bytes"])
    with pytest.raises(KeyError, match="there are groups, flows"):
        results.table("flow")


def test_the_same_seed_gives_the_same_results_whatever_the_jobs():
    one, two = (fairwater.simulate(GRID, jobs=jobs) for jobs in (1, 2))
    for name in ("groups", "flows", "edges"):
        assert one.table(name).equals(two.table(name))


def test_an_algorithm_in_python_is_deterministic():
    text = scenario("python", count=2, more=', { algorithm = "cubic" }')
    runs = [
        fairwater.simulate(text, algorithms={"python": newreno()}).flow_series for _ in range(2)
    ]
    assert runs[0].equals(runs[1])


def newreno():
    sys.path.insert(0, str(EXAMPLES))
    from newreno import NewReno

    return NewReno


def test_settings_and_seed_change_the_scenario():
    path = ROOT / "scenarios" / "dumbbell.toml"
    results = fairwater.simulate(
        path,
        settings={"duration": "1s", "dumbbell.rate": "6mbit", "flow.0.algorithm": "reno"},
        seed=9,
    )
    assert set(results.flows["seed"]) == {9}
    assert results.groups["algorithm"][0] == "reno"
    assert results.flows["throughput_bps"].sum() < 6e6


def test_a_wrong_scenario_says_all_that_is_wrong():
    with pytest.raises(ValueError, match="`rate`") as refused:
        fairwater.simulate(scenario("cubik").replace("12mbit", "12mbits"))
    assert "cubic" in str(refused.value)
    with pytest.raises(FileNotFoundError):
        fairwater.simulate("no-such-file.toml")


def test_a_class_in_a_file_is_found_beside_the_scenario(write):
    write("helper.py", "GAIN = 2\n")
    algorithm = f"import helper\nclass Mine:\n    programs = '''{PROGRAM}'''\n"
    algorithm += "    def on_report(self, report, control):\n        control.set_cwnd(28960)\n"
    write("mine.py", algorithm)
    path = write("scenario.toml", scenario("mine.py:Mine"))
    results = fairwater.simulate(path)
    assert results.notices == []
    assert results.flow_series["cwnd_bytes"].iloc[-1] == 28960
    # A file that has changed is read again.
    os.utime(write("mine.py", algorithm.replace("28960", "14480")), (1, 1))
    assert fairwater.simulate(path).flow_series["cwnd_bytes"].iloc[-1] == 14480


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mine.py:Mien", "did you mean `"),
        ("mine.py", "says no class; there is `"),
        ("empty.py:Mine", "has no class `Mine`; it has no class with a method on_report"),
        ("missing.py:Mine", "missing.py: No such file or directory"),
        ("raises.py:Mine", 'raises.py", line 1'),
        ("syntax.py:Mine", "SyntaxError"),
    ],
)
def test_a_file_without_the_class_says_what_it_has(write, text, message):
    write("mine.py", "class Mine:\n    def on_report(self, report, control): ...\n")
    write("empty.py", "")
    write("raises.py", "raise RuntimeError('on import')\n")
    write("syntax.py", "def\n")
    path = write("scenario.toml", scenario(text))
    with pytest.raises(ValueError, match="algorithm") as refused:
        fairwater.simulate(path)
    assert message in str(refused.value)


def test_progress_is_told_and_may_stop_it():
    shares = []
    fairwater.simulate(GRID, jobs=1, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0

    def stop(share):
        raise StopIteration(share)

    with pytest.raises(StopIteration):
        fairwater.simulate(GRID, jobs=1, progress=stop)


class Blocks(fairwater.Algorithm):
    """Goes round in circles, once it has said that it does."""

    programs = PROGRAM
    blocked = threading.Event()

    def on_report(self, report, control):
        Blocks.blocked.set()
        while True:
            time.sleep(0.01)


def test_ctrl_c_interrupts_an_algorithm_that_blocks():
    def interrupt():
        Blocks.blocked.wait(60)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        fairwater.simulate(scenario("blocks", duration="1000s"), algorithms={"blocks": Blocks})


class Ends(fairwater.Algorithm):
    """Interrupts when its flow ends, which is not the end of a grid."""

    programs = PROGRAM
    ended = 0

    def on_report(self, report, control):
        pass

    def on_close(self):
        Ends.ended += 1
        raise KeyboardInterrupt


def test_ctrl_c_in_on_close_is_not_lost():
    text = scenario("ends", duration="1s").replace("count = 1", 'traffic = { bytes = "100kB" }')
    text = "seeds = 20\n" + text
    with pytest.raises(KeyboardInterrupt):
        fairwater.simulate(text, algorithms={"ends": Ends})
    assert Ends.ended == 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_grid_of_short_points_tells_of_its_progress_and_takes_ctrl_c(jobs):
    # Each point takes far less than the time from one telling to the next.
    text = "seeds = 100000\n" + scenario("reno", duration="20ms")
    told = []

    def tell(share):
        told.append(share)
        if len(told) == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fairwater.simulate(text, jobs=jobs, progress=tell)
    assert len(told) == 3
    assert told == sorted(told)
    assert 0 < told[-1] < 1


def test_other_threads_run_while_rust_simulates():
    counted = []
    ended = threading.Event()

    def count():
        while not ended.is_set():
            counted.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    fairwater.simulate(GRID, settings={"duration": "20s"}, jobs=1)
    ended.set()
    thread.join()
    assert len(counted) > 10


@pytest.mark.parametrize(("name", "share"), [("aimd.py:Aimd", 0.75), ("newreno.py:NewReno", 0.9)])
def test_the_examples_use_a_link(name, share):
    text = scenario(str(EXAMPLES / name), duration="20s")
    results = fairwater.simulate(text)
    assert results.notices == []
    assert results.flows["throughput_bps"][0] > share * 12e6
    assert results.flows["timeouts"][0] == 0


def test_newreno_is_the_kernels_on_the_reproductions_fixed_link():
    """96 Mbit/s, 20 ms and one BDP of buffer: Table 1 of CCP, §3.1 of the reproduction."""
    text = scenario("$sender", duration="30s").replace("12mbit", "96mbit")
    senders = f'"{EXAMPLES / "newreno.py"}:NewReno", "native:reno"'
    results = fairwater.simulate(text + f"sweep = {{ sender = [{senders}] }}\n")
    ours, kernels = results.flows["throughput_bps"]
    assert ours > 0.97 * kernels


def test_a_flow_that_fell_back_is_a_warning_and_in_the_table():
    class Raises(fairwater.Algorithm):
        programs = PROGRAM

        def on_report(self, report, control):
            raise RuntimeError("at once")

    other = ', { algorithm = "reno" }'
    text = scenario("raises", more=other)
    with pytest.warns(fairwater.FallbackWarning, match="RuntimeError: at once") as warned:
        results = fairwater.simulate(text, algorithms={"raises": Raises})
    assert warned[0].filename == __file__
    assert list(results.flows.fallback_share > 0.5) == [True, False]
    assert list(results.flows.fallback_reason) == ["on_report raised RuntimeError: at once", ""]
