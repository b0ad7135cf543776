"""The environments of `fairwater.gym`, which need gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from fairwater._fairwater import GYM_FEATURES, GymEnvironment, GymFleet


def _observation_space() -> gymnasium.spaces.Box:
    low = np.array([low for _, low, _, _ in GYM_FEATURES], np.float32)
    high = np.array([high for _, _, high, _ in GYM_FEATURES], np.float32)
    return gymnasium.spaces.Box(low, high, dtype=np.float32)


def _action_space() -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)


def _simulation_seed(generator: np.random.Generator) -> int:
    return int(generator.integers(2**63))


class PathEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One flow on a path drawn at random, stepped from report to report.

    A range is a pair, or one number for what is always the same. `reset(seed=…)` determines
    everything that follows; a reset without a seed goes on to the next path.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        *,
        rate_mbit: tuple[float, float] | float = (1.0, 24.0),
        rtt_ms: tuple[float, float] | float = (10.0, 80.0),
        buffer_bdp: tuple[float, float] | float = (0.5, 4.0),
        loss: tuple[float, float] | float = (0.0, 0.01),
        steps: int = 200,
        throughput_weight: float = 1.0,
        delay_weight: float = 0.5,
        loss_weight: float = 1.0,
        plane_delay_us: int = 50,
        render_mode: None = None,
    ) -> None:
        """Prepare; `ValueError` names every setting that is out of its range.

        Args:
            rate_mbit: the bottleneck's rate, Mbit/s, from 0.1 to 1000.
            rtt_ms: the round-trip time without queues, ms, from 1 to 1000.
            buffer_bdp: the bottleneck's buffer in bandwidth-delay products, from 0.05 to 20.
            loss: the share of packets lost at random, from 0 to 0.5.
            steps: after so many the episode is truncated.
            throughput_weight: weight of the reward's throughput, from 0 to 1000.
            delay_weight: weight of its queueing delay, from 0 to 1000.
            loss_weight: weight of its loss, from 0 to 1000.
            plane_delay_us: one way between the flow and the policy, µs, at most 1000000.
            render_mode: there is none.
        """
        self.render_mode = render_mode
        self.observation_space = _observation_space()
        self.action_space = _action_space()
        self._seeded = False
        self._environment = GymEnvironment(
            0,
            rate_mbit=rate_mbit,
            rtt_ms=rtt_ms,
            buffer_bdp=buffer_bdp,
            loss=loss,
            steps=steps,
            throughput_weight=throughput_weight,
            delay_weight=delay_weight,
            loss_weight=loss_weight,
            plane_delay_us=plane_delay_us,
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; the info has its path, and units (`docs/gym.md`)."""
        super().reset(seed=seed)
        fresh = seed is not None or not self._seeded
        self._seeded = True
        drawn = _simulation_seed(self.np_random) if fresh else None
        observation = self._environment.reset(drawn)
        return observation, self._environment.info()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Change cwnd by the action, and go on to the next report."""
        taken = float(np.asarray(action, np.float32).item())
        observation, reward, terminated, truncated = self._environment.step(taken)
        return observation, reward, terminated, truncated, self._environment.info()


class PathVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Several `PathEnv`, stepped in one call of Rust that holds no lock of the interpreter.

    Environment `i` under `reset(seed=s)` does as a `PathEnv` under `reset(seed=s + i)`. An
    episode that ends is followed by the next in the same step: its last observation is in
    `info["final_obs"]`, where `info["_final_obs"]`. What else is in the info is of the episode
    that then runs.
    """

    metadata: dict[str, Any] = {
        "render_modes": [],
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(self, num_envs: int = 8, *, render_mode: None = None, **settings: Any) -> None:
        """Prepare `num_envs` environments with `PathEnv`'s settings."""
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = _observation_space()
        self.single_action_space = _action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._shape = (num_envs, len(GYM_FEATURES))
        self._seeded = False
        self._fleet = GymFleet(num_envs, 0, **settings)
        self._everywhere = np.ones(num_envs, np.bool_)

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode in each; `seed` is for the first, or there is one for each."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**31))
        if seed is None:
            seeds: list[int | None] = [None] * self.num_envs
        elif isinstance(seed, int):
            seeds = [seed + index for index in range(self.num_envs)]
        else:
            seeds = list(seed)
        self._seeded = True
        drawn = [
            None if each is None else _simulation_seed(seeding.np_random(each)[0]) for each in seeds
        ]
        observations = np.empty(self._shape, np.float32)
        self._fleet.reset(drawn, observations)
        return observations, self._info()

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take an action in each."""
        count = self.num_envs
        observations = np.empty(self._shape, np.float32)
        last = np.zeros_like(observations)
        rewards = np.empty(count)
        terminated = np.empty(count, np.bool_)
        truncated = np.empty(count, np.bool_)
        taken = np.ascontiguousarray(actions, np.float32).reshape(-1)
        self._fleet.step(taken, observations, rewards, terminated, truncated, last)
        info = self._info()
        ended = terminated | truncated
        if ended.any():
            info["final_obs"] = last
            info["_final_obs"] = ended
        return observations, rewards, terminated, truncated, info

    def _info(self) -> dict[str, Any]:
        rows = np.empty((self.num_envs, len(GymFleet.INFO)))
        self._fleet.info(rows)
        info: dict[str, Any] = {}
        for name, column in zip(GymFleet.INFO, rows.T, strict=True):
            info[name] = column
            info[f"_{name}"] = self._everywhere
        return info
