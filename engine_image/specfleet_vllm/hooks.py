"""The subclass's part: calls the plug-in around three methods of whichever scheduler it stands before."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from specfleet_vllm.engine import Deliveries, Scheduled
from specfleet_vllm.plugin import DEFAULT_PORT, PORT, Plugin

if TYPE_CHECKING:

    class _Base:
        running: Any
        requests: Any
        num_spec_tokens: int
        dynamic_sd_lookup: list[int] | None

        def __init__(self, *arguments: Any, **named: Any) -> None: ...
        def schedule(self, *arguments: Any, **named: Any) -> Scheduled: ...
        def update_from_output(self, *arguments: Any, **named: Any) -> Mapping[int, Deliveries]: ...
        def get_num_unfinished_requests(self) -> int: ...
        def shutdown(self) -> None: ...

else:
    _Base = object


class FollowsSchedule(_Base):
    """Stands before a scheduler class of vLLM among the bases of a subclass."""

    # Given by the subclass, which knows vLLM.
    engine_version: str
    step_names: frozenset[str]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._specfleet = Plugin(self, self.engine_version, self.step_names, os.environ)
        self._specfleet.serve_metrics(os.environ.get(PORT, DEFAULT_PORT))

    def schedule(self, *arguments: Any, **named: Any) -> Scheduled:
        """Schedule a step at the depth that the file asks for."""
        self._specfleet.before_schedule(self)
        step = super().schedule(*arguments, **named)
        self._specfleet.after_schedule(step)
        return step

    def update_from_output(self, *arguments: Any, **named: Any) -> Mapping[int, Deliveries]:
        """Take the outcome of a step, and count it. A release that is not known may pass more than two."""
        given = (*arguments, *named.values())
        self._specfleet.before_update(self, *given[:1])
        delivered = super().update_from_output(*arguments, **named)
        self._specfleet.after_update(self, delivered, *given[:2])
        return delivered

    def shutdown(self) -> None:
        """End with the engine."""
        super().shutdown()
        self._specfleet.close()
