"""Drafts as users got them, per position: the counters of speculation.

Part of `metrics`. A step that passes the end of its request counts as a draft of the part that the user got,
so that accepted tokens never exceed generated ones; vLLM counts the rest too.
"""

from prometheus_client import Counter

from specfleet_serving.events import Delivered
from specfleet_serving.instruments import Instruments, total
from specfleet_serving.schedule_metrics import numbered

__all__ = ["DraftMetrics"]


class DraftMetrics:
    """Counters of drafts up to ``max_depth`` positions."""

    def __init__(self, make: Instruments, max_depth: int) -> None:
        self._drafts = make.counter("spec_decode_num_drafts", "Number of spec decoding drafts.")
        self._draft_tokens = make.counter("spec_decode_num_draft_tokens", "Number of draft tokens.")
        self._accepted = make.counter("spec_decode_num_accepted_tokens", "Number of accepted tokens.")
        per_position = Counter(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Accepted tokens per draft position.",
            [*make.labels, "position"],
            registry=make.registry,
        )
        self._accepted_at = [
            per_position.labels(**make.labels, position=str(position)) for position in range(max_depth)
        ]
        self._drafted_at = numbered(
            make.registry,
            "position",
            max_depth,
            "specfleet_draft_positions",
            "Drafts that proposed a token at the position.",
        )

    def count(self, sequence: Delivered) -> None:
        """Count what one request got from one step, if anything was drafted for it."""
        if not sequence.drafted:
            return
        self._drafts.inc()
        self._draft_tokens.inc(sequence.drafted)
        self._accepted.inc(sequence.accepted)
        for position in range(sequence.drafted):
            self._drafted_at[position].inc()
        for position in range(sequence.accepted):
            self._accepted_at[position].inc()

    def counts(self) -> dict[str, int | list[int]]:
        """Give all of them, named as in ``GET /v1/speculation``."""
        return {
            "drafts": total(self._drafts),
            "draftTokens": total(self._draft_tokens),
            "acceptedTokens": total(self._accepted),
            "acceptedTokensPerPosition": [total(counter) for counter in self._accepted_at],
            "draftsPerPosition": [total(counter) for counter in self._drafted_at],
        }
