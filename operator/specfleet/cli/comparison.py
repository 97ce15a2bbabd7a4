"""The runs behind `specfleet simulate`, and their table. Apart, because it needs the extra ``simulator``."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from specfleet.api.schedule import flat
from specfleet.simulator.picture import draw_run
from specfleet.simulator.policies import POLICIES
from specfleet.simulator.policy import Policy
from specfleet.simulator.request import SimulationRequest
from specfleet.simulator.run import simulate
from specfleet.simulator.summary import Summary, summarise

OFF, STATIC, OURS, ORACLE = "hard-off", "static", "ours", "oracle"
_NAMES = {OFF: "no speculation", STATIC: "always depth {depth}", OURS: "specfleet", ORACLE: "oracle"}
_COLUMNS = ("latency", "p95", "1st token p95", "per token", "kept", "depth", "pushes")


def compare(body: Any, picture: Path | None, say: Callable[[str], None]) -> None:
    """Run the four and print their table; ``say`` is told which one begins.

    Raises ValueError, pydantic's among them, for a wrong request, and OSError for a picture that cannot be
    written.
    """
    request = SimulationRequest.model_validate(body)
    scenario = request.scenario()
    found: dict[str, Summary] = {}
    for number, name in enumerate(_NAMES, start=1):
        say(f"{number} of {len(_NAMES)}: {_title(name, request.depth.initial)}, {request.traffic.hours:g} h")
        policy = Policy(name, flat(request.depth.initial)) if name == STATIC else POLICIES[name](scenario)
        run = simulate(scenario, policy, request.seed)
        found[name] = summarise(run)
        if name == OURS and picture is not None:
            draw_run(run, picture)
    _show(request.depth.initial, found)


def _show(depth: int, found: Mapping[str, Summary]) -> None:
    table = Table(Column(no_wrap=True), *_COLUMNS)
    for name, one in found.items():
        table.add_row(
            _title(name, depth),
            f"{one.latency:.1f} s",
            f"{one.latency_p95:.1f} s",
            f"{one.first_token_p95:.2f} s",
            f"{1000 * one.token:.1f} ms",
            f"{one.kept:.1%}",
            f"{one.depth:.2f}",
            str(one.pushes),
        )
    console = Console()
    console.print(table)
    off = found[OFF].latency
    console.print(
        f"{found[OURS].requests} requests: specfleet changes their mean latency by "
        f"{found[OURS].latency / off - 1:+.1%} against no speculation; the oracle, which knows acceptance "
        f"and cost at every step, by {found[ORACLE].latency / off - 1:+.1%}.",
        soft_wrap=True,
    )
    for remark in remarks(depth, found):
        console.print(remark, soft_wrap=True)


def remarks(depth: int, found: Mapping[str, Summary]) -> Iterator[str]:
    """Say what the table does not show, of each run in which it happened."""
    for name, one in found.items():
        title = _title(name, depth)
        if one.unfinished:
            yield (
                f"{title}: requests that had not ended two hours after the last arrival: {one.unfinished}; "
                "their times are counted up to then."
            )
        if one.hard_offs:
            yield f"{title}: times that the pods were restarted without their proposer: {one.hard_offs}."


def _title(name: str, depth: int) -> str:
    return _NAMES[name].format(depth=depth)
