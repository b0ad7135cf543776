"""A learned policy as an algorithm: a small network in NumPy, which needs no torch.

    fairwater try examples/python/policy.py:Learned --against kernel:cubic

train.py beside this trained it in the simulator, on the environment of `fairwater.gym`.
`PolicyAdapter` computes from each report what the environment would have observed, and turns the
network's answer into cwnd as the environment does.
"""

from pathlib import Path

import numpy as np

import fairwater
from fairwater.gym import PROGRAM, PolicyAdapter

WEIGHTS = Path(__file__).with_name("policy.npz")


def load(path: str | Path = WEIGHTS) -> list[tuple[np.ndarray, np.ndarray]]:
    """The layers of a network: weights and biases."""
    with np.load(path) as arrays:
        return [(arrays[f"w{n}"], arrays[f"b{n}"]) for n in range(len(arrays.files) // 2)]


def act(layers: list[tuple[np.ndarray, np.ndarray]], observation: np.ndarray) -> float:
    """The network's action: tanh between layers, the last linear."""
    values = observation
    for weights, biases in layers[:-1]:
        values = np.tanh(weights @ values + biases)
    weights, biases = layers[-1]
    return float((weights @ values + biases)[0])


_layers = load()


class Learned(fairwater.Algorithm):
    """Sets cwnd once in a round trip by what a network makes of the last one."""

    programs = PROGRAM

    def new_flow(self, info, control):
        self.adapter = PolicyAdapter(info.mss)

    def on_report(self, report, control):
        action = act(_layers, self.adapter.observe(report))
        control.set_cwnd(self.adapter.apply(action))
