"""How long a step takes: the cost model of design/tuning.md, section 5.

Its parts are set from two numbers that a user can picture, the time of a lone decode step and the knee, in
the proportions of the section's worked example. Drafting is cheap, as looking up n-grams is.
"""

from dataclasses import dataclass

OVERHEAD_SHARE = 0.2  # 3.7 ms of 18.1 ms
KV_SHARE_PER_TOKEN = 2.6e-6  # 4.77e-8 s of 18.1 ms
DRAFT_SHARE = 0.005
DRAFT_SHARE_PER_TOKEN = 0.0025


@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds of a step. ``step_seconds``: one request at depth 0; ``knee_tokens``: m / c of the section."""

    step_seconds: float
    knee_tokens: float

    def decode_seconds(self, tokens: int, kv_tokens: int, depth: int) -> float:
        """Give the time to verify ``tokens`` rows over ``kv_tokens`` cached tokens."""
        cache = KV_SHARE_PER_TOKEN * kv_tokens * self.step_seconds
        return self._forward_seconds(tokens) + cache + self.draft_seconds(depth)

    def draft_seconds(self, depth: int) -> float:
        """Give the time to draft; nothing at depth 0."""
        return (DRAFT_SHARE + DRAFT_SHARE_PER_TOKEN * depth) * self.step_seconds if depth else 0.0

    def prompt_seconds(self, tokens: int) -> float:
        """Give the time to read ``tokens`` of prompts."""
        return self._forward_seconds(tokens)

    def _forward_seconds(self, tokens: int) -> float:
        memory = (1 - OVERHEAD_SHARE) * self.step_seconds
        compute = memory * tokens / self.knee_tokens
        return OVERHEAD_SHARE * self.step_seconds + float((memory**4 + compute**4) ** 0.25)
