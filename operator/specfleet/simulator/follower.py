"""How a pod follows its schedule file: the engines' own rules for what is refused.

Source: design/contracts.md, "Schedule file"; design/tuning.md, section 9.
"""

from collections import Counter
from dataclasses import dataclass, field

from specfleet.api.schedule import Document


@dataclass(slots=True)
class Follower:
    """The document in force in one pod, and how often a file was refused, by reason."""

    max_depth: int
    document: Document
    rejected: Counter[str] = field(default_factory=Counter)

    def read(self, text: str) -> bool:
        """Take a file's text; False: it is refused, the last good table stays."""
        try:
            document = Document.from_json(text)
        except ValueError:
            self.rejected["not_json" if not text.startswith("{") else "wrong_type"] += 1
            return False
        reason = self._refusal(document)
        if reason is not None:
            self.rejected[reason] += 1
            return False
        self.document = document
        return True

    def _refusal(self, document: Document) -> str | None:
        if max(row.depth for row in document.table) > self.max_depth:
            return "depth_out_of_range"
        if document.fence < self.document.fence:
            return "lower_fence"
        if document.fence == self.document.fence and document.version <= self.document.version:
            return "old_version"
        return None
