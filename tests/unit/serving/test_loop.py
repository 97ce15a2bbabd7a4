"""The step loop around a core whose steps are written down: trimming, counting, cancelling, failing."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
from tests.unit.serving.byte_tokenizer import ByteTokenizer

from specfleet_serving import loop as loop_module
from specfleet_serving.active import Output
from specfleet_serving.core import (
    Limits,
    Load,
    Request,
    Sampling,
    SequenceStep,
    Step,
    StepFailed,
    TokenLogprob,
)
from specfleet_serving.follower import ScheduleFollower
from specfleet_serving.loop import StepLoop
from specfleet_serving.metrics import Metrics

LIMITS = Limits(
    max_model_len=64, max_num_seqs=4, max_depth=4, method="ngram", kv_tokens=256, kv_block_size=16
)
PATIENCE_SECONDS = 10


Played = Callable[[list[str]], Step]


class PlayedCore:
    """Plays steps, each made from the ids that it holds; blocks while there is none to play.

    It answers the engine itself at once, but for what is in ``checks``: they come first, one for each check.
    """

    limits = LIMITS

    def __init__(self) -> None:
        self.held: list[str] = []
        self.removed: list[str] = []
        self.depths: list[int] = []
        self.check_depths: list[int] = []
        self.checks: list[Callable[[], None]] = []
        self.checked = threading.Event()
        self._plays: list[Played] = []
        self._can_play = threading.Semaphore(0)

    def play(self, *plays: Played) -> None:
        for play in plays:
            self._plays.append(play)
            self._can_play.release()

    def add(self, request: Request) -> None:
        self.held.append(request.id)

    def remove(self, request_id: str) -> None:
        self.held = [one for one in self.held if one != request_id]
        self.removed.append(request_id)

    def load(self) -> Load:
        return Load(running=len(self.held), decoding=len(self.held), waiting=0, kv_usage=len(self.held) / 4)

    def step(self, depth: int) -> Step | None:
        if self.held == ["self-check"]:
            self.check_depths.append(depth)
            if self.checks:
                self.checks.pop(0)()
            self.checked.set()
            return Step(0, 0, 0.0, (SequenceStep("self-check", (65,) * 8, first=True),))
        assert self._can_play.acquire(timeout=PATIENCE_SECONDS)
        self.depths.append(depth)
        return self._plays.pop(0)(self.held)


class Bench:
    """A running loop over a played core, with what it delivered."""

    def __init__(self, tokenizer: ByteTokenizer | None = None) -> None:
        self.core = PlayedCore()
        self.metrics = Metrics("tiny", LIMITS)
        self.follower = ScheduleFollower(None, 2, 4, self.metrics.count_refused_schedule)
        self.outputs: list[Output] = []
        self._news = threading.Condition()
        self.loop = StepLoop(
            self.core, tokenizer or ByteTokenizer(), self.follower, self.metrics, self._deliver
        )
        self.loop.start()
        # So that what a test puts into ``checks`` is not for the warm-up.
        assert self.core.checked.wait(PATIENCE_SECONDS)

    def _deliver(self, outputs: Sequence[Output]) -> None:
        with self._news:
            self.outputs.extend(outputs)
            self._news.notify_all()

    def until(self, done: Callable[[], bool]) -> None:
        with self._news:
            assert self._news.wait_for(done, PATIENCE_SECONDS)

    def until_finished(self, *ids: str) -> None:
        self.until(lambda: set(ids) <= {output.request_id for output in self.outputs if output.finish})

    def until_the_loop_ends(self) -> None:
        self.loop._thread.join(PATIENCE_SECONDS)
        assert not self.loop.alive

    def ask(self, request_id: str, max_tokens: int = 10, stop: tuple[str, ...] = ()) -> None:
        self.loop.submit(Request(request_id, (1, 2), Sampling(max_tokens, temperature=0.0, stop=stop)))

    def text(self, request_id: str) -> str:
        return "".join(output.text for output in self.outputs if output.request_id == request_id)

    def value(self, name: str, **labels: str) -> float | None:
        if name.startswith("vllm:"):
            labels |= {"model_name": "tiny", "engine": "0"}
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.core.play(*[idle] * 3)
    bench.loop.stop()


def idle(held: list[str]) -> Step:
    return Step(0, 0, 0.0, ())


def first(request_id: str, text: str = "a") -> Played:
    """Admit a request and give its first token."""
    return lambda held: Step(
        0, 0, 0.1, (SequenceStep(request_id, (ord(text),), first=True),), (request_id,), prompt_tokens=2
    )


def decode(request_id: str, text: str, drafted: int, accepted: int) -> Played:
    return lambda held: Step(4, 1, 0.1, (SequenceStep(request_id, tuple(text.encode()), drafted, accepted),))


def fail(*batch: str) -> Played:
    def play(held: list[str]) -> Step:
        raise StepFailed(frozenset(batch), RuntimeError("a kernel failed"))

    return play


def test_a_request_gets_its_text_and_its_reason(bench: Bench) -> None:
    bench.ask("one", max_tokens=4)
    bench.core.play(first("one"), decode("one", "bcd", drafted=2, accepted=2))

    bench.until_finished("one")

    assert bench.text("one") == "abcd"
    assert bench.outputs[-1].finish == "length"
    assert bench.value("vllm:time_to_first_token_seconds_count") == 1
    assert bench.value("vllm:inter_token_latency_seconds_count") == 1


def test_the_depth_comes_from_the_schedule_in_force(bench: Bench) -> None:
    bench.ask("one", max_tokens=1)
    bench.core.play(first("one"))

    bench.until_finished("one")

    assert bench.core.depths == [2]


@pytest.mark.fault("sglang#39826", "sglang#11572", "Blaizzy/mlx-vlm#2324")
@pytest.mark.parametrize(
    ("max_tokens", "stop", "counted"),
    [
        # 4 drafted, all accepted, 5 tokens: the user gets 1 of them, then 2, then all.
        pytest.param(2, (), (1, 1, 1), id="cap-inside-the-run"),
        pytest.param(10, ("c",), (2, 2, 2), id="stop-inside-the-run"),
        pytest.param(6, (), (5, 4, 4), id="nothing-cut"),
    ],
)
def test_what_a_user_did_not_get_counts_nowhere(
    bench: Bench, max_tokens: int, stop: tuple[str, ...], counted: tuple[int, int, int]
) -> None:
    bench.ask("one", max_tokens, stop)
    bench.core.play(first("one"), decode("one", "bcdef", drafted=4, accepted=4))

    bench.until_finished("one")

    generated, drafted, accepted = counted
    assert bench.value("vllm:generation_tokens_total") == 1 + generated
    assert bench.value("vllm:spec_decode_num_draft_tokens_total") == drafted
    assert bench.value("vllm:spec_decode_num_accepted_tokens_total") == accepted


def test_drafts_beyond_the_cap_are_not_counted_as_rejected(bench: Bench) -> None:
    bench.ask("one", max_tokens=3)
    bench.core.play(first("one"), decode("one", "b", drafted=4, accepted=0), decode("one", "c", 0, 0))

    bench.until_finished("one")

    assert bench.value("vllm:spec_decode_num_draft_tokens_total") == 2


def test_a_cancelled_request_is_freed_before_the_next_step(bench: Bench) -> None:
    bench.ask("gone")
    bench.ask("stays", max_tokens=2)
    bench.core.play(first("gone"))
    bench.until(lambda: bench.text("gone") == "a")
    seen: list[list[str]] = []
    bench.loop.cancel("gone")

    def looking(held: list[str]) -> Step:
        seen.append(list(held))
        return first("stays")(held)

    # The step that may already run does not see it; the one after must not.
    bench.core.play(idle, looking, decode("stays", "b", 0, 0))
    bench.until_finished("stays")

    assert seen == [["stays"]]
    assert bench.value("vllm:request_success_total", finished_reason="abort") == 1


@pytest.mark.fault("vllm#18783")
def test_a_failed_step_costs_the_requests_of_its_batch_only(bench: Bench) -> None:
    bench.ask("in-batch")
    bench.core.play(first("in-batch"))
    bench.until(lambda: bench.text("in-batch") == "a")
    bench.ask("waits", max_tokens=1)
    bench.core.play(idle, fail("in-batch"), first("waits"))

    bench.until_finished("in-batch", "waits")

    finishes = {output.request_id: output.finish for output in bench.outputs if output.finish}
    assert finishes == {"in-batch": "error", "waits": "length"}
    assert bench.value("vllm:request_success_total", finished_reason="error") == 1
    assert bench.loop.alive


@pytest.mark.fault("vllm#18783")
def test_a_sequence_that_fails_in_a_step_costs_no_other_request(bench: Bench) -> None:
    bench.ask("broken")
    bench.core.play(first("broken"))
    bench.until(lambda: bench.text("broken") == "a")
    bench.ask("unharmed", max_tokens=2)
    bench.core.play(idle, first("unharmed"))

    def one_fails(held: list[str]) -> Step:
        good = SequenceStep("unharmed", (ord("b"),))
        return Step(4, 2, 0.1, (SequenceStep("broken", (), failed=True), good))

    bench.core.play(one_fails)
    bench.until_finished("broken", "unharmed")

    finishes = {output.request_id: output.finish for output in bench.outputs if output.finish}
    assert finishes == {"broken": "error", "unharmed": "length"}
    assert bench.text("unharmed") == "ab"
    assert "broken" in bench.core.removed


@pytest.mark.fault("vllm#18783")
def test_a_request_that_the_core_does_not_take_fails_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(request: Request) -> None:
        raise ValueError("no such seed")

    monkeypatch.setattr(bench.core, "add", refuse)
    bench.ask("refused")
    bench.until_finished("refused")
    monkeypatch.undo()
    bench.ask("next", max_tokens=1)
    bench.core.play(first("next"))

    bench.until_finished("next")

    assert bench.outputs[0] == Output("refused", (), "", "error")
    assert bench.loop.queued == 0


@pytest.mark.fault("vllm#18783")
def test_a_request_whose_tokens_cannot_be_read_fails_alone() -> None:
    class Tokenizer(ByteTokenizer):
        def decode(self, tokens: Sequence[int]) -> str:
            if ord("!") in tokens:
                raise OverflowError("no such token")
            return super().decode(tokens)

    bench = Bench(Tokenizer())
    bench.ask("odd")
    bench.ask("even", max_tokens=2)
    both = (SequenceStep("odd", (ord("!"),), first=True), SequenceStep("even", (ord("a"),), first=True))
    bench.core.play(idle, lambda held: Step(0, 0, 0.1, both, ("odd", "even")), decode("even", "b", 0, 0))

    bench.until_finished("odd", "even")
    bench.loop.stop()

    assert {output.request_id: output.finish for output in bench.outputs if output.finish} == {
        "odd": "error",
        "even": "length",
    }
    assert bench.text("even") == "ab"
    assert "odd" in bench.core.removed
    assert bench.value("specfleet_failed_steps_total") == 0


def broken() -> None:
    raise RuntimeError("the device is gone")


@pytest.fixture
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CHECK_SECONDS", 0.0)


@pytest.mark.fault("vllm#18783")
@pytest.mark.usefixtures("_no_pause")
def test_a_core_of_which_every_step_fails_ends_the_loop(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.ask("one")
    bench.core.checks = [broken] * 3
    bench.core.play(fail("one"))

    bench.until_the_loop_ends()

    assert bench.outputs[-1] == Output("one", (), "", "error")
    assert bench.loop.in_doubt
    # The user's step, and three of the engine's own.
    assert bench.value("specfleet_failed_steps_total") == 4
    assert [line.message for line in caplog.records if line.levelno == logging.CRITICAL] == [
        "the engine is dead: every step fails, whoever asks; the process ends"
    ]


@pytest.mark.usefixtures("_no_pause")
def test_an_engine_that_answers_itself_again_is_ready_again(bench: Bench) -> None:
    doubts: list[bool] = []
    asked_again = threading.Event()

    def answer() -> None:
        doubts.append(bench.loop.in_doubt)
        asked_again.set()

    bench.ask("one")
    bench.core.checks = [broken, answer]
    bench.core.play(fail("one"))
    assert asked_again.wait(PATIENCE_SECONDS)
    bench.ask("next", max_tokens=1)
    bench.core.play(first("next"))

    bench.until_finished("next")

    assert doubts == [True]
    assert not bench.loop.in_doubt
    assert bench.value("specfleet_failed_steps_total") == 2
    assert bench.value("vllm:generation_tokens_total") == 1


def test_requests_that_break_their_steps_one_after_the_other_do_not_end_the_loop(bench: Bench) -> None:
    names = [f"poison{number}" for number in range(6)]
    for name in names:
        bench.ask(name)
    bench.ask("waits", max_tokens=2)
    bench.core.play(idle, *(fail(name) for name in names), first("waits"), decode("waits", "b", 0, 0))

    bench.until_finished("waits", *names)

    assert not bench.loop.in_doubt
    assert bench.loop.alive
    assert bench.core.check_depths == [LIMITS.max_depth]


def test_newcomers_whose_prompts_are_read_do_not_hide_that_every_decode_fails(bench: Bench) -> None:
    for name in ("one", "two", "waits"):
        bench.ask(name)
    bench.core.play(idle, first("one"), fail("one"), first("two"), fail("two"))

    bench.until_finished("one", "two")

    assert bench.loop.in_doubt


def test_the_engine_asks_itself_again_at_the_depth_in_force(bench: Bench) -> None:
    bench.core.checked.clear()
    bench.ask("one")
    bench.core.play(fail("one"))

    assert bench.core.checked.wait(PATIENCE_SECONDS)

    assert bench.core.check_depths == [LIMITS.max_depth, bench.follower.depth]


@pytest.mark.usefixtures("_no_pause")
def test_a_model_without_usable_numbers_for_anybody_ends_the_loop(bench: Bench) -> None:
    def no_numbers(held: list[str]) -> Step:
        return Step(4, 1, 0.1, (SequenceStep("one", (), failed=True),))

    bench.ask("one")
    bench.core.checks = [broken] * 3
    bench.core.play(first("one"), no_numbers)

    bench.until_the_loop_ends()

    assert bench.outputs[-1] == Output("one", (), "", "error")


def test_log_probabilities_end_with_the_tokens(bench: Bench) -> None:
    logprobs = tuple(TokenLogprob(-float(place)) for place in range(4))
    bench.ask("one", stop=("c",))
    run = SequenceStep("one", tuple(b"bcde"), 3, 3, logprobs=logprobs)
    bench.core.play(first("one"), lambda held: Step(4, 1, 0.1, (run,)))

    bench.until_finished("one")

    assert bench.outputs[-1].logprobs == logprobs[:2]
    assert (bench.outputs[-1].drafted, bench.outputs[-1].accepted) == (2, 2)


def test_a_prompt_that_breaks_each_step_does_not_stop_the_loop(bench: Bench) -> None:
    bench.ask("poison")
    bench.core.play(fail("poison"))
    bench.until_finished("poison")
    bench.ask("next", max_tokens=1)
    bench.core.play(first("next"))

    bench.until_finished("next")

    assert bench.loop.alive


@pytest.mark.fault("vllm#18783")
def test_a_newcomer_that_breaks_its_first_step_costs_nobody_that_still_waits(bench: Bench) -> None:
    bench.ask("poison")
    bench.ask("waits", max_tokens=1)
    bench.core.play(fail("poison"), first("waits"))

    bench.until_finished("poison", "waits")

    finishes = {output.request_id: output.finish for output in bench.outputs if output.finish}
    assert finishes == {"poison": "error", "waits": "length"}
    assert bench.loop.queued == 0


def test_the_warm_up_is_not_counted(bench: Bench) -> None:
    bench.ask("one", max_tokens=1)
    bench.core.play(first("one"))

    bench.until_finished("one")

    assert bench.loop.warm
    assert bench.core.removed[0] == "self-check"
    assert bench.value("vllm:generation_tokens_total") == 1


@pytest.mark.fault("vllm#18783", "vllm#9995")
def test_the_warm_up_runs_at_the_largest_depth(bench: Bench) -> None:
    bench.until(lambda: bench.loop.warm)

    assert set(bench.core.check_depths) == {LIMITS.max_depth}


def test_what_waits_is_known_until_it_is_admitted(bench: Bench) -> None:
    bench.ask("one")
    bench.ask("two")
    assert bench.loop.queued == 2

    bench.core.play(idle, first("one"))
    bench.until(lambda: bench.text("one") == "a")

    assert bench.loop.queued == 1


def test_a_step_that_does_not_end_shows_as_a_stall(bench: Bench) -> None:
    entered = threading.Event()
    leave = threading.Event()

    def hang(held: list[str]) -> Step:
        entered.set()
        leave.wait(PATIENCE_SECONDS)
        return first("one")(held)

    bench.ask("one", max_tokens=1)
    bench.core.play(hang)
    assert entered.wait(PATIENCE_SECONDS)
    stalled = bench.loop.stalled_seconds
    leave.set()
    bench.until_finished("one")

    assert stalled > 0
    assert bench.loop.stalled_seconds == 0


def test_a_model_that_does_not_answer_the_warm_up_ends_the_loop() -> None:
    class DumbCore(PlayedCore):
        def step(self, depth: int) -> Step | None:
            raise RuntimeError("no kernel for this device")

    metrics = Metrics("tiny", LIMITS)
    follower = ScheduleFollower(None, 2, 4, metrics.count_refused_schedule)
    loop = StepLoop(DumbCore(), ByteTokenizer(), follower, metrics, lambda outputs: None)

    loop.start()
    loop.stop()

    assert not loop.warm
    assert not loop.alive


def test_stopping_gives_what_still_runs_an_error() -> None:
    bench = Bench()
    bench.ask("one")
    bench.core.play(first("one"))
    bench.until(lambda: bench.text("one") == "a")

    bench.core.play(idle)
    bench.loop.stop()

    assert bench.outputs[-1] == Output("one", (), "", "error")
