"""May the depth be changed in this engine? Asked once, before the first step."""

from collections.abc import Collection
from enum import StrEnum
from pathlib import Path

# Releases that the end-to-end tests run (0.32), or whose names were compared with these (0.33 too): the
# fixtures of tests/unit/vllm_plugin/test_names.py, written by dev/captures/vllm_names.py.
KNOWN_VERSIONS = ("0.32", "0.33")
SCHEDULER_NAMES = (
    "running",
    "requests",
    "num_spec_tokens",
    "dynamic_sd_lookup",
    "get_num_unfinished_requests",
)
STEP_NAMES = (
    *("num_scheduled_tokens", "scheduled_spec_decode_tokens"),
    *("num_spec_tokens_to_schedule", "num_invalid_spec_tokens"),
)


class NotLive(StrEnum):
    """Why the schedule file is not followed: the label of ``specfleet_schedule_live``."""

    ENGINE_VERSION = "engine_version"
    ENGINE_INTERNALS = "engine_internals"
    NO_STARTUP_SCHEDULE = "no_startup_schedule"
    NO_FILE_NAMED = "no_file_named"
    PLUGIN_FAILED = "plugin_failed"


class Unfit(Exception):
    """This engine's depth cannot be changed while it serves; it keeps its own schedule."""

    def __init__(self, reason: NotLive, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def check_engine(version: str, scheduler: object, step_names: Collection[str]) -> None:
    """Raise Unfit unless the plug-in knows this release and finds what it uses.

    ``step_names`` are the fields of what ``schedule()`` returns.
    """
    if ".".join(version.split(".")[:2]) not in KNOWN_VERSIONS:
        known = " and ".join(KNOWN_VERSIONS)
        raise Unfit(
            NotLive.ENGINE_VERSION, f"vLLM {version} is not known to this plug-in, which knows {known}"
        )
    missing = [name for name in SCHEDULER_NAMES if not hasattr(scheduler, name)]
    missing += [name for name in STEP_NAMES if name not in step_names]
    if missing:
        raise Unfit(
            NotLive.ENGINE_INTERNALS, f"vLLM {version} has no {', '.join(missing)} where it was expected"
        )


def check_start(lookup: list[int] | None, file: str | None) -> tuple[list[int], Path]:
    """Give vLLM's own depths and the file to follow. Raises Unfit where vLLM cannot follow one."""
    if lookup is None:
        raise Unfit(
            NotLive.NO_STARTUP_SCHEDULE,
            "vLLM runs without num_speculative_tokens_per_batch_size: it was not given, or was dropped, as "
            "vLLM does with data parallelism",
        )
    if not file:
        raise Unfit(NotLive.NO_FILE_NAMED, "SPECFLEET_SCHEDULE_FILE is not set")
    return lookup, Path(file)
