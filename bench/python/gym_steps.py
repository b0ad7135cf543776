"""Steps a second of eight environments of `fairwater.gym` on one core.

taskset -c 0 python bench/python/gym_steps.py
"""

import argparse
import os
import statistics
import time

import gymnasium
import numpy as np

import fairwater.gym

ENVIRONMENTS = 8


def steps_a_second(steps: int, seed: int) -> float:
    """The rate of so many steps of all environments, actions drawn evenly at random."""
    envs = gymnasium.make_vec(
        fairwater.gym.ID, ENVIRONMENTS, vectorization_mode="vector_entry_point"
    )
    envs.reset(seed=seed)
    actions = np.random.default_rng(seed).uniform(-1, 1, (steps, ENVIRONMENTS, 1))
    actions = actions.astype(np.float32)
    begun = time.perf_counter()
    for action in actions:
        envs.step(action)
    return ENVIRONMENTS * steps / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4000, help="of each environment, in a run")
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    if cores > 1:
        print(f"This may use {cores} cores: taskset -c 0 keeps it to one.")
    steps_a_second(500, 0)
    rates = [steps_a_second(options.steps, seed) for seed in range(1, options.runs + 1)]
    print(
        f"{statistics.median(rates):,.0f} steps/s of {ENVIRONMENTS} environments "
        f"({min(rates):,.0f} to {max(rates):,.0f} in {len(rates)} runs, each of another seed)"
    )


if __name__ == "__main__":
    main()
