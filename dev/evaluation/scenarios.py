"""The scenarios: three worlds under four loads, and those that ask one question each.

Source: design/simulator.md, section 8; the single questions are those of its section 9.
"""

from dataclasses import replace

from dev.evaluation.canaries import canary_scenarios

from specfleet.simulator.acceptance import Acceptance
from specfleet.simulator.cost import Cost
from specfleet.simulator.scenario import Fault, Scenario, Telemetry
from specfleet.simulator.traffic import Traffic

_LOADS = {
    "light": Traffic(peak=0.55),
    "diurnal": Traffic(peak=1.0),
    "overload": Traffic(peak=1.25),
    "long": Traffic(peak=0.9, long_share=0.35),
}
_WORLDS = {
    "base": (Cost(tax=0.08), Acceptance()),
    "weak": (Cost(tax=0.20), Acceptance(weak=0.55)),
    "slow": (Cost(tax=0.20, token=1.8 * Cost().token), Acceptance()),
}

TABLE_SCENARIOS = tuple(
    Scenario(f"{world}-{load}", cost=cost, acceptance=acceptance, traffic=traffic)
    for world, (cost, acceptance) in _WORLDS.items()
    for load, traffic in _LOADS.items()
)

# The table presses two days into 4 h. Pushes and reversals are promised for a real day, and hard-off's trials
# and pauses take hours of one.
_DAY = 24 * 3600
_OVER_A_DAY = replace(_LOADS["diurnal"], period=float(_DAY))
DAYS = tuple(
    Scenario(f"{world}-day", seconds=_DAY, cost=cost, acceptance=acceptance, traffic=_OVER_A_DAY)
    for world, (cost, acceptance) in _WORLDS.items()
)

ADVERSARIAL = Scenario("adversarial", acceptance=Acceptance(ceiling=0.05))
ADVERSARIAL_DAY = replace(DAYS[0], name="adversarial-day", acceptance=ADVERSARIAL.acceptance)

# The load rises within a second from where deep drafts pay to where they do not.
OVERLOAD_AT = 1800.0
STEP_OVERLOAD = Scenario(
    "step-overload",
    seconds=5400,
    acceptance=Acceptance(collapse=False, regimes=False),
    traffic=Traffic(shape="steps", peak=1.0, steps=((0.0, 0.25), (OVERLOAD_AT, 1.3)), burst=1.0),
    initial_depth=5,
)

COLLAPSE = Scenario(
    "collapse",
    seconds=3 * 3600,
    acceptance=Acceptance(regimes=False),
    traffic=Traffic(shape="steady", peak=0.6),
    telemetry=Telemetry(scrape_seconds=10.0),
)

_HOUR = 3600.0
OUTAGES = (
    Fault("outage", _HOUR, 900.0),
    Fault("not-scraped", 2 * _HOUR, 900.0),
    Fault("nan", 2.5 * _HOUR, 600.0),
    *(Fault("crash", 3 * _HOUR + 60.0 * minute, 5.0) for minute in range(0, 15, 3)),
)
MISSING_DATA = replace(TABLE_SCENARIOS[1], name="missing-data", faults=OUTAGES)

CANARIES = canary_scenarios()

_QUESTIONS = (*DAYS, ADVERSARIAL, ADVERSARIAL_DAY, STEP_OVERLOAD, COLLAPSE, MISSING_DATA)
SCENARIOS = {one.name: one for one in (*TABLE_SCENARIOS, *_QUESTIONS, *CANARIES)}
