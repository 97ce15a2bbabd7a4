"""Whatever happens to requests, every KV block comes back."""

import gc
import random
import resource
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.integration.engine.checkpoints import save_random
from tests.integration.engine.proposer_checkpoints import save_draft_model

from specfleet_engine.core import EngineCore
from specfleet_engine.load import load_model, load_tokenizer
from specfleet_engine.proposers import Proposer
from specfleet_engine.proposers.chain import ChainProposer
from specfleet_engine.proposers.choose import load_proposer
from specfleet_engine.proposers.ngram import NgramProposer
from specfleet_serving.core import Request, Sampling, StepFailed


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer, 4 KiB a block: 1 MiB would never run out, so a test limits the length instead."""
    return save_random(tmp_path_factory.mktemp("small"), layers=1, max_position_embeddings=2048)


def a_small_core(folder: Path, draft_model: Path | None = None) -> EngineCore:
    model = load_model(folder, torch.float32)
    proposer: Proposer = NgramProposer(1, 4)
    if draft_model:
        proposer = load_proposer("draftModel", draft_model, model, load_tokenizer(folder, model))
    # 1 MiB holds 128 blocks (8 KiB each): 2,048 tokens, one sequence at its longest. The draft model's KV is
    # as large as the target's.
    return EngineCore(
        model,
        proposer,
        max_model_len=2048,
        max_num_seqs=6,
        max_depth=5,
        kv_cache_mib=2 if draft_model else 1,
    )


ACTION = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 900), st.integers(1, 120)),
    st.tuples(st.just("add"), st.integers(1, 60), st.integers(1, 8)),
    st.tuples(st.just("remove"), st.integers(0, 40), st.just(0)),
    st.tuples(st.just("step"), st.integers(0, 5), st.integers(1, 8)),
    st.tuples(st.just("fault"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("fault_of_the_proposer"), st.integers(1, 5), st.booleans()),
)


class Broken(Exception):
    """The model's own."""


class Accounting:
    """A core, its requests, and what must hold of its blocks at any time."""

    def __init__(self, core: EngineCore) -> None:
        self.core = core
        self.added: list[str] = []

    def add(self, tokens: int, max_tokens: int) -> None:
        self.added.append(f"r{len(self.added)}")
        # One of three texts, so that requests share blocks.
        prompt = tuple(random.Random(tokens % 3).choices(range(3, 20), k=tokens))
        self.core.add(Request(self.added[-1], prompt, Sampling(max_tokens=max_tokens, temperature=0.0)))

    def remove(self, number: int, _: int) -> None:
        self.core.remove(f"r{number}")

    def step(self, depth: int, count: int) -> None:
        for _ in range(count):
            self.core.step(depth)

    def fault(self, depth: int, everyone_leaves: bool) -> None:
        """The model fails once; the serving loop then drops the batch, or somebody stays."""
        self._fail(self.core._model, "run", depth, everyone_leaves)

    def fault_of_the_proposer(self, depth: int, everyone_leaves: bool) -> None:
        self._fail(type(self.core._proposer), "propose", depth, everyone_leaves)

    def _fail(self, whose: object, what: str, depth: int, everyone_leaves: bool) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(whose, what, lambda *_: (_ for _ in ()).throw(Broken))
            with suppress(StepFailed):
                self.core.step(depth)
        for sequence in tuple(self.core._scheduler.running) if everyone_leaves else ():
            self.core.remove(sequence.id)

    def check(self) -> None:
        load, pool = self.core.load(), self.core._scheduler.pool
        assert load.decoding <= load.running <= 6
        tables = [sequence.blocks for sequence in self.core._scheduler.running]
        assert len({block for table in tables for block in table}) + pool.free == pool.total
        assert all(not sequence.blocks for sequence in self.core._scheduler.waiting)
        assert kept_by_proposer(self.core) <= set(self.core._sequences)


def kept_by_proposer(core: EngineCore) -> set[str]:
    """The requests that a draft model has read something of."""
    return set(core._proposer._progress) if isinstance(core._proposer, ChainProposer) else set()


@pytest.fixture(scope="module", params=["ngram", "draft-model"])
def small_core(
    small: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> EngineCore:
    if request.param == "ngram":
        return a_small_core(small)
    place = tmp_path_factory.mktemp("draft")
    return a_small_core(small, save_draft_model(place, max_position_embeddings=2048))


@pytest.mark.fault("vllm#18485")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(actions=[("add", 9, 9), ("step", 1, 2), ("fault", 1, False), ("step", 1, 2)])
@given(actions=st.lists(ACTION, min_size=5, max_size=40))
def test_after_any_mix_of_requests_cancels_and_faults_all_blocks_are_free(
    small_core: EngineCore, actions: list[tuple[str, int, int]]
) -> None:
    accounting = Accounting(small_core)

    for name, first, second in actions:
        getattr(accounting, name)(first, second)
        accounting.check()
    for name in accounting.added:
        small_core.remove(name)

    load = small_core.load()
    assert (load.running, load.waiting, load.kv_usage) == (0, 0, 0.0)
    assert not kept_by_proposer(small_core)


def soak(core: EngineCore, names: range) -> int:
    """Serve requests with cancels and changes of depth; gives how many came to their end."""
    chance = random.Random(names.start)
    ended, left = 0, {}
    waiting = list(names)
    while waiting or left:
        while waiting and len(left) < 12:
            name = f"n{waiting.pop()}"
            left[name] = chance.randint(1, 9)
            prompt = tuple(chance.choices(range(3, 8), k=chance.choice((1, 4, 20, 60))))
            core.add(Request(name, prompt, Sampling(max_tokens=left[name], temperature=0.0)))
        step = core.step(chance.randrange(6))
        gone = {name for name in left if chance.random() < 0.02}
        for sequence in step.sequences if step else ():
            left[sequence.request_id] -= len(sequence.tokens)
            if left[sequence.request_id] == 0:
                gone.add(sequence.request_id)
                ended += 1
        for name in gone:
            core.remove(name)
            del left[name]
    return ended


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.fault("sglang#6778")
def test_two_thousand_requests_leave_the_memory_as_it_was(small_core: EngineCore) -> None:
    # A step with a draft model takes several times as long.
    count = 2000 if small_core.limits.method == "ngram" else 600
    soak(small_core, range(300))  # as much of the prefix cache is in use as ever will be
    gc.collect()
    before, held = len(gc.get_objects()), resident_bytes()

    ended = soak(small_core, range(300, 300 + count))

    gc.collect()
    assert ended > count // 2
    assert small_core.load().kv_usage == 0.0
    assert not kept_by_proposer(small_core)
    assert len(small_core._scheduler.pool._published) <= small_core._scheduler.pool.total
    # One object a request would be as many as there were.
    assert len(gc.get_objects()) - before < 200
    assert resident_bytes() - held < 8 << 20


def test_a_fault_in_the_model_loses_no_block(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = a_small_core(small)
    for number in range(3):
        core.add(Request(f"r{number}", (5,) * 40, Sampling(max_tokens=30, temperature=0.0)))
    core.step(3)
    core.add(Request("newcomer", (5,) * 40, Sampling(max_tokens=30, temperature=0.0)))
    monkeypatch.setattr(core._model, "run", lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))

    with pytest.raises(StepFailed, match="out of memory") as raised:
        core.step(3)

    assert raised.value.requests == {"r0", "r1", "r2", "newcomer"}
    for name in raised.value.requests:
        core.remove(name)
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
