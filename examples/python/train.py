"""Train a small policy with stable-baselines3's PPO, and keep its weights as NumPy arrays.

    pip install .[gym] -r examples/python/train-requirements.txt
    python examples/python/train.py --seed 1

It takes some minutes on one core, and writes examples/python/policy.npz, which
examples/python/policy.py runs without torch: in the simulator, and on real TCP.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

import fairwater.gym

HERE = Path(__file__).parent

STEPS = 200
"""Steps of an episode, as the environment has them by default."""


class Adapter(VecEnv):
    """Fairwater's vectorised environment as stable-baselines3 has them."""

    def __init__(self, envs: fairwater.gym.PathVectorEnv) -> None:
        self.envs = envs
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        self.started = False
        self.actions = np.zeros((envs.num_envs, 1), np.float32)

    def reset(self) -> np.ndarray:
        seed = None if self._seeds[0] is None else self._seeds[0]
        self._reset_seeds()
        return self.envs.reset(seed=seed)[0]

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        observations, rewards, terminated, truncated, info = self.envs.step(self.actions)
        ended = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index in np.flatnonzero(ended):
            infos[index]["terminal_observation"] = info["final_obs"][index]
            infos[index]["TimeLimit.truncated"] = bool(truncated[index])
        return observations, rewards, ended, infos

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.envs, name, None)] * self.num_envs

    def set_attr(self, name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError("environments are alike, and stay as they are")

    def env_method(self, name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError("environments have no methods of their own")

    def env_is_wrapped(self, wrapper: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def mean_reward(model: PPO, seed: int, episodes: int = 64) -> float:
    """The mean reward of a step under the policy's mean action, over paths not trained on."""
    envs = gymnasium.make_vec(fairwater.gym.ID, episodes, vectorization_mode="vector_entry_point")
    observations, _ = envs.reset(seed=seed)
    total = 0.0
    for _ in range(STEPS):
        actions, _ = model.predict(observations, deterministic=True)
        observations, rewards, _, _, _ = envs.step(actions)
        total += rewards.mean()
    return total / STEPS


def weights(model: PPO) -> dict[str, np.ndarray]:
    """The layers of the policy's network: `w0`, `b0` and so on, the last being the action's."""
    policy = model.policy
    layers = [m for m in policy.mlp_extractor.policy_net if isinstance(m, torch.nn.Linear)]
    arrays = {}
    for index, layer in enumerate([*layers, policy.action_net]):
        arrays[f"w{index}"] = layer.weight.detach().numpy().astype(np.float32)
        arrays[f"b{index}"] = layer.bias.detach().numpy().astype(np.float32)
    return arrays


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the policy of policy.py.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=600_000, help="steps of environments")
    parser.add_argument("--out", type=Path, default=HERE / "policy.npz")
    options = parser.parse_args()

    torch.set_num_threads(1)
    envs = gymnasium.make_vec(fairwater.gym.ID, 16, vectorization_mode="vector_entry_point")
    model = PPO(
        "MlpPolicy",
        Adapter(envs),
        n_steps=256,
        batch_size=1024,
        n_epochs=8,
        learning_rate=lambda left: 1e-3 * left + 1e-5,
        gamma=0.97,
        gae_lambda=0.95,
        policy_kwargs={"net_arch": {"pi": [32, 32], "vf": [64, 64]}, "log_std_init": -0.7},
        seed=options.seed,
        device="cpu",
    )
    held_out = 1_000_000
    before = mean_reward(model, held_out)
    begun = time.perf_counter()
    model.learn(options.steps)
    took = time.perf_counter() - begun
    after = mean_reward(model, held_out)
    np.savez(options.out, **weights(model))
    print(f"{options.steps} steps in {took:.0f} s")
    print(f"reward of a step on 64 paths not trained on: {before:.3f} before, {after:.3f} after")
    print(f"wrote {options.out}, {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
