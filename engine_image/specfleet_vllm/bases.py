"""Where vLLM's own scheduler classes are, in the releases that are known and in one that has moved them.

`specfleet_vllm.scheduler` is imported by vLLM while it starts: what is not found there would end the engine,
before the plug-in could say that it does not know the release. So vLLM itself is asked then which class it
would take, and the check of the version follows once that class is at work.
"""

import importlib
from dataclasses import fields

_MODULES = "vllm.v1.core.sched"


def scheduler_class(module: str, name: str, *, asynchronous: bool) -> type:
    """Give a scheduler class by its module, or the one that vLLM would take. Raises what vLLM raises."""
    try:
        found: type = getattr(importlib.import_module(f"{_MODULES}.{module}"), name)
    except (ImportError, AttributeError):
        config = importlib.import_module("vllm.config").SchedulerConfig
        # Its method reads these two, and a configuration needs many more to be made.
        asked = type("Asked", (), {"scheduler_cls": None, "async_scheduling": asynchronous})()
        found = config.get_scheduler_cls(asked)
    return found


def step_names() -> frozenset[str]:
    """Give the fields of what ``schedule()`` returns; none: they are not where they were."""
    try:
        output = importlib.import_module(f"{_MODULES}.output").SchedulerOutput
    except (ImportError, AttributeError):
        return frozenset()
    return frozenset(field.name for field in fields(output))
