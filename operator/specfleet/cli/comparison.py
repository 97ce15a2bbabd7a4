"""The runs behind `specfleet simulate`, and their table. Apart, because it needs the extra ``simulator``."""

from collections.abc import Mapping
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


def compare(body: Any, picture: Path | None) -> None:
    """Run the four and print their table. Raises ValueError, pydantic's among them, for a wrong request."""
    request = SimulationRequest.model_validate(body)
    scenario = request.scenario()
    found: dict[str, Summary] = {}
    for name in _NAMES:
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
            _NAMES[name].format(depth=depth),
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
