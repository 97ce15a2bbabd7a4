"""One request while the loop runs it: its end, its times, and what of a step its user gets."""

import logging
from dataclasses import dataclass
from typing import Literal

from specfleet_serving.core import Request, SequenceStep, TokenLogprob
from specfleet_serving.events import Delivered, RequestTimes
from specfleet_serving.text import Assembler

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Output:
    """What a request got from a step. Its last output has ``finish``.

    Everything is trimmed to the request's end: ``logprobs`` has one entry for each token if the request wants
    them, ``drafted`` and ``accepted`` count drafts that could reach the user.
    """

    request_id: str
    tokens: tuple[int, ...]
    text: str
    finish: Literal["stop", "length", "error"] | None
    logprobs: tuple[TokenLogprob, ...] = ()
    drafted: int = 0
    accepted: int = 0


@dataclass(slots=True)
class Active:
    """A request in the loop. Times are seconds of one monotonic clock; None: not there yet."""

    request: Request
    assembler: Assembler
    arrived: float
    admitted: float | None = None
    first_token: float | None = None
    last_token: float | None = None

    def times(self) -> RequestTimes:
        """Give its stages so far."""
        return RequestTimes(
            self.arrived, self.admitted, self.first_token, self.last_token, self.assembler.count
        )

    def take(self, sequence: SequenceStep, now: float) -> tuple[Delivered, Output]:
        """Trim what a step gave to the request's end, for the metrics and for the user."""
        room = self.assembler.remaining
        piece = self.assembler.push(sequence.tokens)
        kept = len(piece.tokens)
        # Drafts past the request's end could not be delivered: they count neither as proposed nor as
        # accepted.
        reach = kept if kept < len(sequence.tokens) else room
        drafted, accepted = min(sequence.drafted, reach), min(sequence.accepted, reach)
        gap = None if self.last_token is None else now - self.last_token
        if self.first_token is None:
            self.first_token = now
        self.last_token = now
        return (
            Delivered(kept, drafted, accepted, gap),
            Output(
                sequence.request_id,
                piece.tokens,
                piece.text,
                piece.finish,
                sequence.logprobs[:kept],
                drafted,
                accepted,
            ),
        )


def taken(active: Active, sequence: SequenceStep, now: float) -> tuple[Delivered, Output] | None:
    """What `Active.take` gives. None: this request is lost, and the others of the step are none the worse."""
    if sequence.failed:
        return None
    try:
        return active.take(sequence, now)
    except Exception:
        logger.exception("the tokens of a request cannot be read")
        return None
