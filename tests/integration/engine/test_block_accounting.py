"""Whatever happens to requests, every KV block comes back."""

import random
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.integration.engine.checkpoints import save_random

from specfleet_engine.core import EngineCore
from specfleet_engine.load import load_model
from specfleet_engine.proposers.ngram import NgramProposer
from specfleet_serving.core import Request, Sampling


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer, 4 KiB a block: 1 MiB would never run out, so a test limits the length instead."""
    return save_random(tmp_path_factory.mktemp("small"), layers=1, max_position_embeddings=2048)


def a_small_core(folder: Path) -> EngineCore:
    # 1 MiB holds 128 blocks (8 KiB each): 2,048 tokens, one sequence at its longest.
    return EngineCore(
        load_model(folder, torch.float32),
        NgramProposer(1, 4),
        max_model_len=2048,
        max_num_seqs=6,
        max_depth=5,
        kv_cache_mib=1,
    )


ACTION = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 900), st.integers(1, 120)),
    st.tuples(st.just("remove"), st.integers(0, 40), st.just(0)),
    st.tuples(st.just("step"), st.integers(0, 5), st.integers(1, 8)),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTION, min_size=5, max_size=40))
def test_after_any_mix_of_actions_all_blocks_are_free(
    small_core: EngineCore, actions: list[tuple[str, int, int]]
) -> None:
    core = small_core
    added: list[str] = []
    for kind, first, second in actions:
        if kind == "add":
            added.append(f"r{len(added)}")
            prompt = tuple(random.Random(first).choices(range(3, 20), k=first))
            core.add(Request(added[-1], prompt, Sampling(max_tokens=second, temperature=0.0)))
        elif kind == "remove":
            core.remove(f"r{first}")
        else:
            for _ in range(second):
                core.step(first)
        load = core.load()
        assert 0.0 <= load.kv_usage <= 1.0
        assert load.decoding <= load.running <= 6
    for name in added:
        core.remove(name)

    load = core.load()
    assert (load.running, load.waiting, load.kv_usage) == (0, 0, 0.0)


@pytest.fixture(scope="module")
def small_core(small: Path) -> EngineCore:
    return a_small_core(small)


def test_a_fault_in_the_model_loses_no_block(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = a_small_core(small)
    for number in range(3):
        core.add(Request(f"r{number}", (5,) * 40, Sampling(max_tokens=30, temperature=0.0)))
    core.step(3)
    monkeypatch.setattr(core._model, "run", lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))

    with pytest.raises(RuntimeError, match="out of memory"):
        core.step(3)

    for number in range(3):
        core.remove(f"r{number}")
    assert core.load().kv_usage == 0.0


def test_a_request_at_its_limit_holds_no_block_and_takes_no_step(small: Path) -> None:
    core = a_small_core(small)
    core.add(Request("r", (5,) * 40, Sampling(max_tokens=1, temperature=0.0)))

    core.step(3)

    assert core.load().kv_usage == 0.0
    assert core.step(3) is None


def test_an_id_in_use_is_refused(small: Path) -> None:
    core = a_small_core(small)
    core.add(Request("same", (5, 6), Sampling(max_tokens=1)))

    with pytest.raises(ValueError, match="'same' is already in use"):
        core.add(Request("same", (5, 6), Sampling(max_tokens=1)))


def test_removing_an_unknown_request_is_fine(small: Path) -> None:
    a_small_core(small).remove("never seen")
