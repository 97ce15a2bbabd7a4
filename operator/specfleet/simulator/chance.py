"""Random numbers of one engine: SplitMix64, so that engines that run in turns do not disturb each other."""

import math

import numpy as np

from specfleet.simulator.compiled import compiled

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_THIRTY, _TWENTY_SEVEN, _THIRTY_ONE = np.uint64(30), np.uint64(27), np.uint64(31)
_ELEVEN = np.uint64(11)


@compiled
def uniform(state: np.ndarray) -> float:
    """Draw from [0, 1)."""
    state[0] += _STEP
    word = state[0]
    word = (word ^ (word >> _THIRTY)) * _FIRST
    word = (word ^ (word >> _TWENTY_SEVEN)) * _SECOND
    word = word ^ (word >> _THIRTY_ONE)
    return float(word >> _ELEVEN) * 2.0**-53


@compiled
def normal(state: np.ndarray) -> float:
    """Draw from the standard normal distribution."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(state)))
    return radius * math.cos(2.0 * math.pi * uniform(state))
