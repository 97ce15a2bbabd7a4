"""One request while it lives in the engine: its tokens, how far its KV goes, and its random stream.

Data only. `scheduler` decides about sequences, `cache` owns the blocks that they name.
"""

from collections.abc import Sequence as Many

import numpy as np
import numpy.typing as npt

from specfleet_engine.stream import RandomStream
from specfleet_serving.core import Request, Sampling

__all__ = ["Sequence", "Tokens"]

Tokens = npt.NDArray[np.int64]


class Sequence:
    """A request's tokens, prompt first, and where they stand.

    ``written`` tokens have their KV in ``blocks``. While ``prefilling``, the rest is read in chunks; while
    decoding, only the last token has none yet. Rejected drafts never become tokens: rolling them back needs
    nothing, their slots are written again.
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
        self.prompt_read = 0
        self.prefilling = True
        self.preempted = False
        self._tokens: Tokens = np.empty(max(self.limit, self.prompt_length), dtype=np.int64)
        self._tokens[: self.prompt_length] = request.prompt
        self._length = self.prompt_length

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
