"""Command lines of the engines, flag by flag."""

from typing import Any

import pytest

from specfleet.api.owned import BUILTIN_FLAGS, COMMON_FLAGS, SIMULATED_FLAGS
from specfleet.api.resource import Spec
from specfleet.engines.engine import ModelPaths
from specfleet.engines.registry import ENGINES


def a_spec(engine: dict[str, Any], speculation: dict[str, Any] | None = None) -> Spec:
    model = {"uri": "file:///models/smollm2"} if engine["type"] == "builtin" else {}
    return Spec.model_validate(
        {
            "model": model,
            "engine": engine,
            "speculation": speculation or {"method": "ngram"},
            "pools": [{"name": "interactive"}],
        }
    )


def a_drafter(method: str) -> dict[str, Any]:
    return {"method": method, "proposer": {"uri": "pvc://heads/head"}}


def arguments(spec: Spec) -> list[str]:
    proposer = None if spec.speculation.proposer is None else "/proposer/head"
    return list(
        ENGINES[spec.engine.type].arguments(
            spec,
            served_name="chat",
            paths=ModelPaths("/models/smollm2", proposer),
            schedule_file="/schedule/schedule.json",
        )
    )


def value_of(flag: str, written: list[str]) -> str:
    return written[written.index(flag) + 1]


def test_the_builtin_engine_gets_every_flag_of_its_contract_in_a_fixed_order() -> None:
    written = arguments(a_spec({"type": "builtin"}))

    assert " ".join(written) == (
        "--model /models/smollm2 --served-model-name chat --host 0.0.0.0 --port 8000 "
        "--schedule-file /schedule/schedule.json --initial-depth 2 --max-depth 5 "
        "--method ngram --ngram-min-match 2 --ngram-max-match 5 "
        "--max-model-len 2048 --max-num-seqs 16 --drain-seconds 120 --dtype bfloat16"
    )


def test_the_simulated_engine_gets_its_cost_model_and_no_model() -> None:
    simulated = {
        "repetitiveAcceptancePercent": 90,
        "freeAcceptancePercent": 20,
        "stepTime": "12.5ms",
        "kneeTokens": 48,
        "kvCacheTokens": 4096,
    }

    written = arguments(a_spec({"type": "simulated", "simulated": simulated}))

    assert " ".join(written).endswith(
        "--repetitive-acceptance-percent 90 --free-acceptance-percent 20 --step-milliseconds 12.5 "
        "--knee-tokens 48 --kv-cache-tokens 4096"
    )
    assert "--model" not in written
    assert "--dtype" not in written


def test_the_size_of_the_kv_cache_reaches_the_engine_only_where_the_spec_has_it() -> None:
    written = arguments(a_spec({"type": "builtin", "kvCacheMib": 2048}))

    assert value_of("--kv-cache-mib", written) == "2048"
    assert "--kv-cache-mib" not in arguments(a_spec({"type": "builtin"}))


@pytest.mark.parametrize("engine", ["builtin", "simulated"])
def test_without_a_proposer_depth_is_nought_and_nothing_is_looked_up(engine: str) -> None:
    written = arguments(a_spec({"type": engine}, {"method": "none"}))

    assert value_of("--method", written) == "none"
    assert value_of("--max-depth", written) == "0"
    assert value_of("--initial-depth", written) == "0"
    assert not [flag for flag in written if flag.startswith("--ngram")]


@pytest.mark.parametrize("method", ["draftModel", "eagle", "eagle3", "medusa"])
def test_a_method_with_weights_is_named_with_the_folder_that_has_them(method: str) -> None:
    written = arguments(a_spec({"type": "builtin"}, a_drafter(method)))

    assert value_of("--method", written) == method
    assert value_of("--proposer", written) == "/proposer/head"
    assert not [flag for flag in written if flag.startswith("--ngram")]


@pytest.mark.parametrize("engine", ["builtin", "simulated"])
def test_every_flag_that_is_written_is_owned_and_every_owned_flag_is_written(engine: str) -> None:
    own = {"builtin": BUILTIN_FLAGS, "simulated": SIMULATED_FLAGS}[engine]

    speculations = [None, a_drafter("eagle3")] if engine == "builtin" else [None]
    lines = [arguments(a_spec({"type": engine}, speculation)) for speculation in speculations]

    written = {part for line in lines for part in line if part.startswith("--")}

    assert written == {*COMMON_FLAGS, *own}
    assert set(ENGINES[engine].owned_flags) == written


def test_a_shortened_owned_flag_is_refused_with_the_flag_it_stands_for() -> None:
    spec = a_spec({"type": "builtin", "extraArgs": ["--max-model=64"]})

    (refusal,) = ENGINES["builtin"].refusals(spec)

    assert refusal.reason == "OwnedFlag"
    assert "--max-model stands for --max-model-len" in refusal.message
    assert refusal.holds


def test_the_size_of_the_kv_cache_is_said_once_by_the_field_or_by_an_argument() -> None:
    by_argument = {"type": "builtin", "extraArgs": ["--kv-cache-mib=512"]}

    (refusal,) = ENGINES["builtin"].refusals(a_spec(by_argument | {"kvCacheMib": 2048}))

    assert "--kv-cache-mib" in refusal.message
    assert ENGINES["builtin"].refusals(a_spec(by_argument)) == ()


def test_a_flag_of_the_users_own_is_served() -> None:
    spec = a_spec({"type": "builtin", "extraArgs": ["--threads=4", "--seed", "1"]})

    assert ENGINES["builtin"].refusals(spec) == ()


@pytest.mark.parametrize("name", ["builtin", "simulated"])
def test_the_grace_period_is_above_pre_stop_and_drain(name: str) -> None:
    timing = ENGINES[name].timing

    assert timing.grace > timing.pre_stop + timing.drain
