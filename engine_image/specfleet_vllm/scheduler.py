"""The classes for vLLM's `--scheduler-cls`. Which one: the plain where vLLM itself takes its plain scheduler.

By default that is so for n-gram, suffix, medusa, MLP speculators and custom classes.
"""

import logging
import sys
from typing import Any

import vllm

from specfleet_vllm.bases import scheduler_class, step_names
from specfleet_vllm.hooks import FollowsSchedule

AsyncScheduler = scheduler_class("async_scheduler", "AsyncScheduler", asynchronous=True)
Scheduler = scheduler_class("scheduler", "Scheduler", asynchronous=False)


class _InVllm(FollowsSchedule):
    engine_version = vllm.__version__
    step_names = step_names()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        log_to_stderr()
        super().__init__(*arguments, **named)


class SpecfleetAsyncScheduler(_InVllm, AsyncScheduler):  # type: ignore[misc, valid-type]
    """vLLM's asynchronous scheduler, following the schedule file."""


class SpecfleetScheduler(_InVllm, Scheduler):  # type: ignore[misc, valid-type]
    """vLLM's plain scheduler, following the schedule file."""


def log_to_stderr() -> None:
    """Show the plug-in's lines in the engine's log: vLLM sets its own loggers up, and no others."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("specfleet_vllm: %(levelname)s %(message)s"))
    for name in ("specfleet_serving", "specfleet_vllm"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.handlers = [handler]
