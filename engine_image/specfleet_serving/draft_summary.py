"""What speculation did for one answer, in the shape of vLLM's ``--per-request-spec-decode-metrics``.

Counted as on ``/metrics``: trimmed to what the user got. So the sums over all answers are the counters.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from specfleet_serving.active import Output

Level = Literal["none", "summary", "detailed"]


@dataclass(slots=True)
class DraftSummary:
    """Drafts of one answer, step by step. ``choices``: vLLM tells nothing about more than one."""

    max_depth: int
    choices: int
    level: Level
    _drafted: list[int] = field(default_factory=list)
    _accepted: list[int] = field(default_factory=list)

    def count(self, output: Output) -> None:
        """Take note of one step; one without a draft is none of speculation's."""
        if output.drafted:
            self._drafted.append(output.drafted)
            self._accepted.append(output.accepted)

    def figures(self) -> dict[str, Any] | None:
        """Give the figures so far. None: nothing can speculate here, or there are several choices."""
        if not self.max_depth or self.choices > 1:
            return None
        steps, drafted, accepted = len(self._drafted), sum(self._drafted), sum(self._accepted)
        figures: dict[str, Any] = {
            "mean_acceptance_length": 1 + accepted / steps if steps else 1.0,
            "draft_acceptance_rate": accepted / drafted if drafted else 0.0,
            "acceptance_histogram": [self._accepted.count(length) for length in range(self.max_depth + 1)],
            "num_spec_steps": steps,
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": drafted,
            "num_spec_tokens": self.max_depth,
        }
        if self.level == "detailed":
            figures |= {"per_step_accepted": self._accepted, "per_step_drafted": self._drafted}
        return figures
