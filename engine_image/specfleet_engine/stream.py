"""The random numbers of one request.

Each output position has its own, fixed by the seed alone. So nothing that others do, no change of depth and
no preemption moves them: a step that drafts looks ahead, and uses up only what it emitted. What was drawn for
a position that a rejection cut off is drawn again with the same numbers, which no emitted token has seen.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["DRAFT", "JUDGE", "OWN", "RandomStream", "Uniforms"]

Uniforms = npt.NDArray[np.float64]

# Columns of `RandomStream.peek`: for the target's own token, for the test of a draft, and for drawing one.
OWN, JUDGE, DRAFT = range(3)

# Multiples of 2^-48 stay below 1 even when multiplied by a rounded sum of probabilities.
_GRAIN = 1 << 48
# Positions that are drawn at once: a call for each would cost more than the numbers.
_AHEAD = 32


class RandomStream:
    """Three uniform numbers in [0, 1) for each output position. Without a seed they are fresh ones."""

    def __init__(self, seed: int | None) -> None:
        # OpenAI's interface allows negative seeds, numpy does not.
        self._generator = np.random.default_rng(None if seed is None else seed % (1 << 64))
        self._ahead: Uniforms = np.empty((0, 3))

    def peek(self, count: int) -> Uniforms:
        """Give the numbers of the next ``count`` output positions [count, 3], without using them up."""
        while len(self._ahead) < count:
            fresh = self._generator.integers(_GRAIN, size=(_AHEAD, 3)) / _GRAIN
            self._ahead = np.concatenate([self._ahead, fresh])
        return self._ahead[:count]

    def use(self, count: int) -> None:
        """Move on by ``count`` output positions, which have been peeked at."""
        self._ahead = self._ahead[count:]
