"""One run, step by step: install, serve, load, outage, replay. Gives the record that the figures need."""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from dev.demo.errors import DemoError
from dev.demo.installation import apply_example, install, service_address
from dev.demo.kubernetes import Api, Background
from dev.demo.load import Load
from dev.demo.outage import cut_prometheus
from dev.demo.plan import Phase, Plan
from dev.demo.prompts import prompts_for
from dev.demo.recorder import Recorder
from dev.demo.replay import Replay, Table
from dev.demo.table import LiveTable
from rich.console import Console

ROW_SECONDS = 6.0
OUTAGE_STAGE = "outage"


async def perform(plan: Plan, references: Path, console: Console) -> dict[str, Any]:
    """Do everything that needs the cluster. Raises DemoError where it cannot go on."""
    pace = ", ".join(f"{key} {value:g}" for key, value in plan.tuning.items())
    console.print(
        f"install the chart with its Prometheus; the tuner's pace for this demo: {pace}", soft_wrap=True
    )
    await install(plan, references)
    console.print(f"apply {plan.example} and wait until it serves")
    await apply_example(plan)
    async with (
        Background("proxy", "--port=0") as port,
        aiohttp.ClientSession(trust_env=False) as session,
        service_address(plan) as address,
        Load(address, plan.resource) as load,
    ):
        api = Api(port, session)
        recorder = Recorder(api, plan, lambda: load.users)
        record = _new_record(plan)
        replay = Replay(api, plan, load, recorder)
        with LiveTable(console, ROW_SECONDS) as table:
            recorder.seen.append(table.show)
            await _recorded(plan, load, recorder, record)
            record["settled"] = settled_tables(recorder.samples, plan.phases)
            console.print(
                f"replay the phases' prompts with depths {plan.depths} pinned, and what was settled on"
            )
            await replay.run(record["settled"])
    record["replays"] = replay.results
    record["settledArms"] = replay.settled_arms
    record["samples"] = recorder.samples
    record["requests"] = [asdict(request) for request in load.requests]
    return record


def _new_record(plan: Plan) -> dict[str, Any]:
    return {
        "startedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "plan": {**asdict(plan), "tuning": dict(plan.tuning)},
        "prompts": {
            prompt.name: asdict(prompt) for phase in plan.phases for prompt in prompts_for(phase.text)
        },
        "phases": [],
    }


async def _recorded(plan: Plan, load: Load, recorder: Recorder, record: dict[str, Any]) -> None:
    """Run the phases while samples are taken. Raises DemoError where they cannot go on."""
    try:
        async with asyncio.TaskGroup() as tasks:
            recording = tasks.create_task(recorder.run())
            await _drive(plan, load, recorder, record)
            # A replay takes its own samples; nothing else must cost the pods time then.
            recording.cancel()
    except* DemoError as group:
        raise group.exceptions[0] from None


async def _drive(plan: Plan, load: Load, recorder: Recorder, record: dict[str, Any]) -> None:
    """Run the phases one after the other; Prometheus is cut off under the load of the last."""
    for phase in plan.phases:
        recorder.stage = phase.name
        started = time.time()
        async with load.under_way(phase, prompts_for(phase.text)):
            await asyncio.sleep(phase.seconds)
            ended = time.time()
            if phase is plan.phases[-1]:
                recorder.stage = OUTAGE_STAGE
                record["outage"] = await cut_prometheus(recorder, plan.outage_seconds)
        record["phases"].append({**asdict(phase), "start": started, "end": ended})


def settled_tables(samples: Sequence[Mapping[str, Any]], phases: Sequence[Phase]) -> dict[str, Table]:
    """Give, per phase, the last schedule in force while no probe ran. Raises DemoError: there is none."""
    found: dict[str, Table] = {}
    for one in samples:
        pool = one.get("pool", {})
        if pool.get("schedule") and not pool.get("probe"):
            found[one["stage"]] = pool["schedule"]["table"]
    with contextlib.suppress(StopIteration):
        lacking = next(phase.name for phase in phases if phase.name not in found)
        raise DemoError(f"status never showed a schedule without a probe in phase {lacking}")
    return {phase.name: found[phase.name] for phase in phases}
