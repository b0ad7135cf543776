"""Environments for learning congestion control, for gymnasium.

`import fairwater.gym` registers `Fairwater/Path-v0`:

    import gymnasium
    import fairwater.gym

    env = gymnasium.make("Fairwater/Path-v0", rtt_ms=(10, 40), loss=0.0)
    envs = gymnasium.make_vec(
        "Fairwater/Path-v0", num_envs=8, vectorization_mode="vector_entry_point")

An episode is one flow on a path drawn at random, in the simulator; a step goes from one report of
the flow's datapath program (`PROGRAM`) to the next, about a round trip. `docs/gym.md` of the
project says what is observed, what an action does and what is rewarded.

`PolicyAdapter` computes the same observations from the same program's reports in an algorithm, so
that a policy runs wherever algorithms do. It needs no gymnasium.
"""

from __future__ import annotations

from typing import Any

from fairwater._fairwater import GYM_FEATURES, GYM_PROGRAM, PolicyAdapter

__all__ = ["FEATURES", "ID", "PROGRAM", "PathEnv", "PathVectorEnv", "PolicyAdapter"]

ID = "Fairwater/Path-v0"
"""The name that gymnasium knows `PathEnv` and `PathVectorEnv` by."""

PROGRAM: str = GYM_PROGRAM
"""The datapath program whose reports are observed: an algorithm's `programs`."""

FEATURES: list[tuple[str, float, float, str]] = GYM_FEATURES
"""What an observation's numbers are, in order: name, least value, greatest value, meaning."""

try:
    import gymnasium

    from fairwater._environments import PathEnv, PathVectorEnv
except ModuleNotFoundError as _missing:
    if _missing.name is None or not _missing.name.startswith("gymnasium"):
        raise

    def __getattr__(name: str) -> Any:
        if name in ("PathEnv", "PathVectorEnv"):
            message = "environments need gymnasium: `pip install fairwater[gym]`"
            raise ModuleNotFoundError(message, name="gymnasium")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

else:
    gymnasium.register(
        ID,
        entry_point="fairwater.gym:PathEnv",
        vector_entry_point="fairwater.gym:PathVectorEnv",
    )
