"""The step-cost formula: worked example of design/tuning.md, section 5 (Llama-70B BF16 on 4 x H100)."""

import math

import pytest

from specfleet.tuning.cost import StepCost
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.model import Place, log_seconds, rows_of
from specfleet.tuning.survival import Survival
from specfleet.tuning.windows import MOST_CHUNK, Window, Windows, beside, remember

# o, m, c, e, v, d0, d1 and the tax; the design has no term per request.
WORKED = [3.7e-3, 14.4e-3, 59.5e-6, 1e-12, 4.77e-8, 0.6e-3, 0.9e-3, 1e-12]
CONTEXT = 1200.0


def worked_seconds(
    batch: float, depth: int, cached: float, *, prompts: float = 0.0, tax: float = WORKED[-1]
) -> float:
    place = Place(batch, batch * (depth + 1), depth, cached, prompts)
    (logs,), _ = log_seconds(rows_of((place,)), [*WORKED[:-1], tax])
    return math.exp(logs)


@pytest.mark.parametrize(
    ("batch", "depth", "cached", "milliseconds"),
    [
        pytest.param(16, 3, 19200, 22.33, id="16-at-depth-3"),
        pytest.param(16, 0, 19200, 19.02, id="16-hard-off"),
        pytest.param(128, 3, 153600, 45.16, id="128-at-depth-3"),
        pytest.param(128, 0, 153600, 25.70, id="128-hard-off"),
    ],
)
def test_the_formula_gives_the_worked_example(
    batch: float, depth: int, cached: float, milliseconds: float
) -> None:
    assert worked_seconds(batch, depth, cached) == pytest.approx(milliseconds / 1000, abs=1e-5)


def test_soft_off_pays_the_tax() -> None:
    assert worked_seconds(16, 0, 19200, tax=0.08) == pytest.approx(20.54e-3, abs=1e-5)
    assert worked_seconds(16, 3, 19200, tax=0.08) == worked_seconds(16, 3, 19200)


def test_a_step_in_ten_with_a_whole_chunk_of_prompts_makes_the_mean_longer_by_a_tenth_of_the_difference() -> (
    None
):
    # Beside 2,048 prompt tokens all is compute: (14.4^4 + (59.5e-3 * 2112)^4)^(1/4) = 125.67 ms.
    alone = worked_seconds(16, 3, 19200)

    read = worked_seconds(16, 3, 19200, prompts=MOST_CHUNK / 10)

    assert read - alone == pytest.approx(0.1 * (125.67e-3 - (14.4**4 + 3.808**4) ** 0.25 * 1e-3), abs=1e-5)


def test_most_prompts_are_read_beside_others_unless_a_request_is_alone() -> None:
    # Poisson arrivals: L of 1, 1.594 and 3.92 are B of 1.58, 2 and 4 while there are any.
    for load, share in ((1.0, 0.0), (1.58, 0.632), (2.0, 0.797), (4.0, 0.98)):
        assert beside(load) == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("depth", [0, 3])
def test_its_slopes_are_those_of_the_formula(depth: int) -> None:
    rows, numbers = rows_of((Place(64, 64.0 * (depth + 1), depth, 76800, 300.0),)), [*WORKED[:-1], 0.08]
    (logs,), (slopes,) = log_seconds(rows, numbers)

    for i, number in enumerate(numbers):
        moved = [*numbers[:i], number * (1 + 1e-6), *numbers[i + 1 :]]
        assert slopes[i] == pytest.approx((log_seconds(rows, moved)[0][0] - logs) / 1e-6, abs=1e-4)


def some_windows(*cells: tuple[float, int], context: float = CONTEXT) -> Windows:
    windows: Windows = ()
    for i, (batch, depth) in enumerate(cells):
        seconds = worked_seconds(batch, depth, batch * context)
        new = Window(15.0 * i, depth, batch, batch * (depth + 1), seconds, 200.0, batch * context)
        windows = remember(windows, new)
    return windows


@pytest.mark.fault("llm-d/llm-d#2074", "vllm#17984")
@pytest.mark.parametrize(("batch", "speculates"), [(16.0, True), (128.0, False)])
def test_e_3_of_1_49_speculates_at_batch_16_and_not_at_128(batch: float, speculates: bool) -> None:
    # Break-even at depth 3 is 1.17 and 1.76: section 6. S of .25, .15, .09 gives E_3 = 1.49.
    survival = Survival(
        reached=dict.fromkeys((1, 2, 3), 1e5),
        drafted=dict.fromkeys((1, 2, 3), 1e5),
        accepted={1: 0.25e5, 2: 0.15e5, 3: 0.09e5},
    )
    cost = StepCost(some_windows((batch, 0), (batch, 3)), 15.0, context=CONTEXT)
    estimates = Estimates(survival, cost)

    assert survival.tokens_per_step(3) == pytest.approx(1.49)
    assert (estimates.rate(batch, 3) > estimates.rate(batch, 0)) is speculates


def test_a_known_device_carries_windows_below_its_knee_to_batches_above_it() -> None:
    windows = some_windows((4, 0), (4, 3), (16, 0), (16, 3))
    known = StepCost(windows, 45.0, context=CONTEXT, knee_tokens=240.0)
    unknown = StepCost(windows, 45.0, context=CONTEXT)

    true = worked_seconds(128, 3, 128 * CONTEXT)
    assert known.seconds(128, 512, 3) == pytest.approx(true, rel=0.5)
    assert abs(known.seconds(128, 512, 3) - true) < abs(unknown.seconds(128, 512, 3) - true)


@pytest.mark.fault("vllm#48627")
def test_longer_contexts_make_a_step_longer_at_every_depth() -> None:
    cells = [(b, d) for b in (16.0, 64.0) for d in (0, 3)]
    short, long = some_windows(*cells, context=400.0), some_windows(*cells, context=4000.0)
    windows = (*short, *long)

    at_long = StepCost(windows, 45.0, context=4000.0)
    at_short = StepCost(windows, 45.0, context=400.0)
    for depth in (0, 3):
        tokens = 64.0 * (depth + 1)
        assert at_long.seconds(64.0, tokens, depth) > 1.1 * at_short.seconds(64.0, tokens, depth)
