"""Environments for learning: gymnasium's rules, seeds, and what `docs/gym.md` says of them."""

import re
import socket
import threading
import warnings
from pathlib import Path

import pytest

gymnasium = pytest.importorskip("gymnasium", reason="needs fairwater[gym]")

import numpy as np
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import fairwater
import fairwater.gym
from fairwater.gym import FEATURES, ID, PROGRAM, PathEnv, PathVectorEnv, PolicyAdapter

ROOT = Path(__file__).parents[3]

FIXED = {"rate_mbit": 10, "rtt_ms": 40, "buffer_bdp": 2, "loss": 0}


def steady(observation):
    """Towards a queue of a tenth of a BDP."""
    return 0.8 * (0.1 - observation[..., 0:1])


def episode(env, seed, policy):
    observation, info = env.reset(seed=seed)
    seen = [(observation, 0.0, False, False, info)]
    while not (seen[-1][2] or seen[-1][3]):
        seen.append(env.step(policy(seen[-1][0])))
    return seen


def vector(count, **settings):
    return gymnasium.make_vec(
        ID, num_envs=count, vectorization_mode="vector_entry_point", **settings
    )


def test_gymnasium_finds_nothing_wrong():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(ID, steps=20).unwrapped, skip_render_check=True)


def test_the_same_seed_gives_the_same_and_another_does_not():
    env = gymnasium.make(ID, steps=30)
    one, again, other = (episode(env, seed, steady) for seed in (5, 5, 6))
    assert [step[1:] for step in one] == [step[1:] for step in again]
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(one, again, strict=True))
    assert one[0][4] != other[0][4]


def test_a_reset_without_a_seed_goes_on_to_the_next_path():
    def paths(env):
        first = env.reset(seed=3)[1]
        return [first] + [env.reset()[1] for _ in range(4)]

    found = paths(PathEnv(steps=5))
    assert found == paths(PathEnv(steps=5))
    assert len({info["path_rate_bps"] for info in found}) == 5


def test_each_of_a_vector_does_as_one_alone():
    envs = vector(4, steps=12)
    assert isinstance(envs, PathVectorEnv)
    alone = [PathEnv(steps=12) for _ in range(4)]
    observations, infos = envs.reset(seed=40)
    firsts = [env.reset(seed=40 + i) for i, env in enumerate(alone)]
    assert np.array_equal(observations, np.stack([first[0] for first in firsts]))
    actions = np.random.default_rng(1).uniform(-1, 1, (30, 4, 1)).astype(np.float32)
    for step in actions:
        observations, rewards, terminated, truncated, infos = envs.step(step)
        assert envs.observation_space.contains(observations)
        for i, env in enumerate(alone):
            expected, reward, ends, cut, info = env.step(step[i])
            assert (reward, ends, cut) == (rewards[i], terminated[i], truncated[i])
            if cut:
                assert infos["_final_obs"][i]
                assert np.array_equal(infos["final_obs"][i], expected)
                expected, info = env.reset()
            assert np.array_equal(observations[i], expected)
            assert {key: infos[key][i] for key in info} == info
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP


def test_a_vector_has_a_seed_for_each_if_it_is_given_them():
    envs = vector(3, steps=5)
    given, _ = envs.reset(seed=[7, 8, 7])
    assert np.array_equal(given[0], given[2])
    assert not np.array_equal(given[0], given[1])
    assert np.array_equal(given[:2], vector(2, steps=5).reset(seed=7)[0])


def test_observations_are_the_callers_to_keep():
    envs = vector(2)
    first, _ = envs.reset(seed=1)
    copy = first.copy()
    second, *_ = envs.step(np.ones((2, 1), np.float32))
    assert np.array_equal(first, copy)
    assert not np.array_equal(first, second)


def test_a_policy_that_fills_the_link_is_rewarded_for_it():
    rewards = {
        name: np.mean([step[1] for step in episode(PathEnv(**FIXED), 1, policy)][60:])
        for name, policy in [
            ("steady", steady),
            ("greedy", lambda _: np.ones(1, np.float32)),
            ("timid", lambda _: -np.ones(1, np.float32)),
        ]
    }
    assert rewards["steady"] > 0.8, rewards
    assert max(rewards["greedy"], rewards["timid"]) < 0.2, rewards


def test_what_is_wrong_is_named_with_its_range():
    with pytest.raises(ValueError, match="rate") as refused:
        PathEnv(rate_mbit=(0, 5), loss=0.7, steps=0)
    for part in ("0.1 to 1000", "0 to 0.5", "1 to 1000000"):
        assert part in str(refused.value)
    with pytest.raises(ValueError, match="`rtt`"):
        PathVectorEnv(2, rtt=(10, 20))
    env = PathEnv()
    env.reset(seed=1)
    with pytest.raises(ValueError, match="not a number"):
        env.step(np.array([np.nan], np.float32))
    envs = vector(2)
    envs.reset(seed=1)
    with pytest.raises(ValueError, match="environment 1"):
        envs.step(np.array([[0], [np.nan]], np.float32))
    with pytest.raises(ValueError, match="expected 2"):
        envs.step(np.zeros((3, 1), np.float32))


def test_the_page_says_what_there_is():
    page = (ROOT / "docs/gym.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d \| `(\w+)` \| (\S+) to (\S+) \|", page, re.MULTILINE)
    told = [
        (name, float(low.replace("\N{MINUS SIGN}", "-")), float(high)) for name, low, high in rows
    ]
    assert told == [feature[:3] for feature in FEATURES]


class Steered(fairwater.Algorithm):
    """The policy of the tests above, as an algorithm."""

    programs = PROGRAM
    seen: list = []

    def new_flow(self, info, control):
        self.adapter = PolicyAdapter(info.mss)

    def on_report(self, report, control):
        observation = self.adapter.observe(report)
        self.seen.append((report.elapsed, observation))
        control.set_cwnd(self.adapter.apply(steady(observation).item()))


def test_an_algorithm_observes_what_the_environment_does():
    Steered.seen.clear()
    fairwater.simulate(
        """
        duration = "6s"
        [dumbbell]
        rate = "10mbit"
        rtt = "40ms"
        buffer = "2bdp"
        [[flow]]
        algorithm = "steered"
        """,
        algorithms={"steered": Steered},
    )
    env = PathEnv(steps=len(Steered.seen), **FIXED)
    here = np.stack([step[0] for step in episode(env, 1, steady)])
    there = np.stack([observation for _, observation in Steered.seen])
    # Slow start with the same first windows, and the same state in the end.
    assert np.allclose(here[:4], there[:4], atol=0.15), (here[:4], there[:4])
    assert np.allclose(here[60:100].mean(0), there[60:100].mean(0), atol=0.05)


def test_the_policy_of_the_examples_fills_links_without_long_queues():
    policy = ROOT / "examples/python/policy.py"
    results = fairwater.simulate(
        f"""
        duration = "12s"
        [sweep]
        rate = ["5mbit", "20mbit"]
        loss = ["0%", "1%"]
        [dumbbell]
        rate = "$rate"
        rtt = "30ms"
        buffer = "2bdp"
        loss = "$loss"
        [measure]
        from = "3s"
        [[flow]]
        algorithm = "{policy}:Learned"
        """
    )
    assert results.notices == []
    there = results.edges[results.edges["edge"] == "bottleneck"]
    assert len(there) == 4
    assert (there["utilisation"] > 0.9).all(), there
    # A queue of a third of the RTT; the buffer has room for two RTTs.
    assert (there["queueing_us_p95"] < 10_000).all(), there


@pytest.mark.usefixtures("privileged")
def test_the_policy_of_the_examples_runs_on_real_tcp(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples/python")
    from policy import Learned

    attachment = fairwater.attach(Learned)
    size = 20 << 20
    with (
        attachment as name,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket() as sender,
    ):
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        sender.connect(server.getsockname())
        receiver, _ = server.accept()
        sending = threading.Thread(target=sender.sendall, args=(bytes(size),))
        sending.start()
        with receiver:
            received = 0
            while received < size:
                received += len(receiver.recv(1 << 20))
        sending.join()
    assert received == size
    assert attachment.notices == []
