"""One request while it lives in the engine: its tokens, how far its KV goes, and its random stream.

Data only. `scheduler` decides about sequences, `cache` owns the blocks that they name.
"""

from collections.abc import Sequence as Many
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from specfleet_engine.cache import BLOCK_SIZE
from specfleet_engine.stream import RandomStream
from specfleet_serving.core import Request, Sampling

__all__ = ["Sequence", "Tokens"]

Tokens = npt.NDArray[np.int64]


class Sequence:
    """A request's tokens, prompt first, and where they stand.

    ``written`` tokens have their KV in ``blocks``; the first ``published`` blocks may be shared. While
    ``prefilling``, the rest is read in chunks; while decoding, only the last token has none yet. Rejected
    drafts never become tokens: rolling them back needs nothing, their slots are written again.
    """

    def __init__(self, request: Request, max_model_len: int) -> None:
        sampling = request.sampling
        self.id = request.id
        self.sampling: Sampling = sampling
        self.prompt_length = len(request.prompt)
        self.limit = min(self.prompt_length + sampling.max_tokens, max_model_len)
        self.stream = RandomStream(sampling.seed)
        self.blocks: list[int] = []
        self.written = 0
        self.published = 0
        self.prefilling = True
        self.prompt_read = 0  # however often it is read again after a preemption
        self.announced = False  # its admission
        self._tokens: Tokens = np.empty(max(self.limit, self.prompt_length), dtype=np.int64)
        self._tokens[: self.prompt_length] = request.prompt
        self._length = self.prompt_length
        self._keys: list[bytes] = []

    def __len__(self) -> int:
        return self._length

    @property
    def tokens(self) -> Tokens:
        """Prompt and output so far."""
        return self._tokens[: self._length]

    @property
    def remaining(self) -> int:
        """How many tokens may still be generated."""
        return self.limit - self._length

    @property
    def decoding(self) -> bool:
        return not self.prefilling and self.remaining > 0

    def append(self, tokens: Many[int]) -> None:
        """Take new tokens, which must not be more than ``remaining``."""
        end = self._length + len(tokens)
        self._tokens[self._length : end] = tokens
        self._length = end
        self.stream.use(len(tokens))

    def rewind(self) -> None:
        """Go back to the state before any token was read; ``blocks`` are gone."""
        self.written = 0
        self.published = 0
        self.prefilling = True

    def keys(self, blocks: int) -> list[bytes]:
        """Keys of the first full blocks: each stands for its tokens and for all before them.

        A cryptographic hash, since equal keys of different texts would hand one user another's context.
        """
        while len(self._keys) < blocks:
            begin = len(self._keys) * BLOCK_SIZE
            before = self._keys[-1] if self._keys else b""
            tokens = self._tokens[begin : begin + BLOCK_SIZE].tobytes()
            self._keys.append(sha256(before + tokens).digest())
        return self._keys[:blocks]
