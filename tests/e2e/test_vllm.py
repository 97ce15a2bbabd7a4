"""A stock vLLM under the operator: live pushes, a drain, a crash, a proposer that does not fit.

One fleet for all tests, one pod each; nobody asks anything of an engine whose test has not come yet.
"""

import time
import uuid
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import pytest
from tests.e2e.support import Kube, Release, identities, is_ready, pool_status, wait_for, wait_ready
from tests.e2e.vllm_checkpoints import CLAIM, EAGLE3, HEADS, MEDUSA, TARGET, WRONG, provide, save_all, walk
from tests.e2e.vllm_engine import DRAFT_TOKENS, DRAFTS, HTTP, PLUGIN, TOKENS, Counts, Engine, steps_at
from tests.e2e.vllm_fleet import MOST, Fleet, deaf, real, tiny
from tests.e2e.vllm_users import Stream, asking

pytestmark = pytest.mark.timeout(900)

DEPTHS = (MOST, 2, 0, MOST)
REPETITIVE = "red, green, blue, " * 8
# Issue 5: from the written schedule to the first step at its depth.
PUSH_SECONDS = 5.0
# What a pod waits, after it has left its Services, before vLLM is told to stop.
PRE_STOP_SECONDS = 15.0
STREAMS = 4
LONGEST = 1000


# For each depth in turn: the text that was given, and what was counted meanwhile.
Seen: TypeAlias = list[tuple[int, str, dict[str, float]]]


@pytest.fixture(scope="module")
def fleet(
    kube: Kube, release: Release, images: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Every engine of the tests, all of which start at once."""
    namespace, image = f"e2e-vllm-{uuid.uuid4().hex[:6]}", images["vllm-cpu"]
    folder = tmp_path_factory.mktemp("checkpoints")
    kube.run("create", "namespace", namespace)
    save_all(folder)
    provide(kube, namespace, folder, images["preflight"])
    heads = {"depth": {"initial": HEADS, "max": HEADS}}
    kube.apply(
        real(namespace, "smollm2", image),
        tiny(namespace, "draft-model", image, "draftModel", TARGET),
        tiny(namespace, "eagle3", image, "eagle3", EAGLE3),
        tiny(namespace, "medusa", image, "medusa", MEDUSA, speculation=heads, tuning={"mode": "Recommend"}),
        *deaf(namespace, "deaf", image),
    )
    names = ("smollm2", "draft-model", "eagle3", "medusa", "deaf")
    yield Fleet(*(Engine(kube, namespace, name) for name in names))
    kube.run("delete", "specdep", "--all", "-n", namespace, "--wait=false")
    kube.run("delete", "namespace", namespace, "--wait=false")


def wait_all_ready(*engines: Engine) -> None:
    for engine in engines:
        wait_ready(engine.kube, engine.namespace, engine.name, seconds=500)


@pytest.fixture(scope="module")
def pushed(fleet: Fleet) -> dict[str, Seen]:
    """Push every depth to the live engines at once; give what each said and counted at it."""
    wait_all_ready(*fleet.live)
    before = [engine.identities() for engine in fleet.live]
    seen: dict[str, Seen] = {engine.name: [] for engine in fleet.live}
    for depth in DEPTHS:
        for engine in fleet.live:
            engine.pin(depth)
        for engine in fleet.live:
            engine.wait_pinned(depth)
            counts = Counts(engine)
            text = engine.complete(REPETITIVE if engine is fleet.smollm2 else "7")
            seen[engine.name].append((depth, text, counts.of(TOKENS)))
    assert [engine.identities() for engine in fleet.live] == before, "a push restarted an engine"
    return seen


@pytest.mark.serves("vllm 0.32", "ngram")
def test_depth_changes_live_and_the_text_does_not(
    pushed: dict[str, Seen],
) -> None:
    observed = pushed["smollm2"]

    assert len({text for _, text, _ in observed}) == 1
    for depth, _, got in observed:
        steps, drafts, drafted = got[steps_at(depth)], got.get(DRAFTS, 0), got.get(DRAFT_TOKENS, 0)
        accepted = sum(n for series, n in got.items() if "specfleet_accepted_positions_total" in series)
        print(f"depth {depth}: {steps:.0f} steps, {drafted:.0f} tokens in {drafts:.0f} drafts")
        # The first token comes from the prompt; each step gives one and what it accepted.
        assert steps + accepted == TOKENS - 1
        # A draft by look-up may be shorter than asked for; at depth 0 there is none.
        assert (drafts > 0) == (depth > 0)
        assert drafted <= depth * drafts
        assert drafted > 2 * drafts or depth < MOST


@pytest.mark.serves("vllm 0.32", "draftModel", "eagle3")
@pytest.mark.parametrize("name", ["draft-model", "eagle3"])
def test_drafts_from_weights_are_as_long_as_was_pushed(pushed: dict[str, Seen], name: str) -> None:
    for depth, text, got in pushed[name]:
        steps = (TOKENS - 1) / (depth + 1)
        assert text.split() == walk(7, TOKENS)
        assert got[steps_at(depth)] == steps
        assert got.get(DRAFTS, 0) == (steps if depth else 0)
        assert got.get(DRAFT_TOKENS, 0) == depth * steps


@pytest.mark.alone  # it measures
def test_a_push_is_in_effect_within_seconds_under_load(fleet: Fleet) -> None:
    engine, took = fleet.smollm2, {}
    wait_all_ready(engine)

    with asking(lambda: engine.complete(REPETITIVE)):
        for depth in (1, 4):
            counts = Counts(engine, PLUGIN)
            engine.pin(depth)
            written = engine.wait_written(depth)
            wait_for(
                f"a step at depth {depth}",
                lambda counts=counts, depth=depth: counts.since().get(steps_at(depth)),
                seconds=60,
                every=0.1,
            )
            took[depth] = time.monotonic() - written

    print(f"seconds from the written schedule to the first step at its depth: {took}")
    assert max(took.values()) <= PUSH_SECONDS


def test_more_than_one_data_parallel_rank_is_refused_where_the_depth_is_to_change(fleet: Fleet) -> None:
    engine = fleet.smollm2
    before = engine.identities()

    engine.patch(engine={"extraArgs": ["--enforce-eager", "--data-parallel-size", "2"]})
    message = engine.wait_condition("Degraded", "DepthIsFixed")
    engine.patch(engine={"extraArgs": ["--enforce-eager"]})

    assert "drops the schedule with --data-parallel-size above 1" in message
    wait_ready(engine.kube, engine.namespace, engine.name)
    assert engine.identities() == before


def test_a_proposer_that_does_not_fit_is_told_by_the_check_and_never_takes_traffic(fleet: Fleet) -> None:
    engine = fleet.eagle3
    before = engine.identities()

    engine.patch(speculation={"proposer": {"uri": f"pvc://{CLAIM}/{WRONG}"}})
    message = engine.wait_condition("ProposerCompatible", "ProposerRefused", seconds=90)

    assert WRONG in message and "hidden size" in message
    (new,) = [pod for pod in engine.pods() if pod["metadata"]["uid"] not in before]
    (container,) = new["status"]["containerStatuses"]
    assert (container["restartCount"], container["started"]) == (0, False)
    assert [pod["metadata"]["uid"] for pod in engine.pods() if is_ready(pod)] == list(before)
    assert engine.complete("7", 4).split() == walk(7, 4)

    engine.patch(speculation={"proposer": {"uri": f"pvc://{CLAIM}/{EAGLE3}"}})
    wait_for("the pod that cannot work is gone", lambda: engine.identities() == before, seconds=60)


def test_an_engine_that_ignores_its_schedule_is_told_by_its_steps(fleet: Fleet) -> None:
    engine = fleet.deaf
    wait_all_ready(engine)

    engine.pin(1)
    engine.wait_pinned(1)
    with asking(lambda: engine.complete("7")):
        message = engine.wait_condition("Degraded", "ScheduleNotEffective")

    assert f"steps at depth {MOST}" in message
    assert (
        pool_status(engine.kube, engine.namespace, engine.name)["fault"]["reason"] == "ScheduleNotEffective"
    )


@pytest.mark.serves("vllm 0.32", "medusa")
def test_medusa_drafts_at_its_one_depth_which_nothing_may_change(fleet: Fleet) -> None:
    engine = fleet.medusa
    wait_all_ready(engine)
    (pod,) = engine.pods()

    text = engine.complete("7")

    assert text.split() == walk(7, TOKENS)
    page = engine.page(pod["metadata"]["name"], 8000)
    assert page[DRAFT_TOKENS] == HEADS * page[DRAFTS] > 0
    engine.patch(tuning={"mode": "Enforce"})
    assert "runs method medusa at one depth" in engine.wait_condition("Degraded", "DepthIsFixed")


def test_a_roll_of_the_pods_meets_no_user_and_the_new_one_drafts_as_was_pushed(fleet: Fleet) -> None:
    engine = fleet.draft_model
    wait_all_ready(engine)
    engine.pin(3)
    engine.wait_pinned(3)
    before = engine.identities()

    def ask() -> None:
        assert engine.complete("7").split() == walk(7, TOKENS)
        # The new pod needs the cores to start: without a pause it took four minutes.
        time.sleep(1.0)

    def replaced() -> bool:
        pods = engine.pods()
        return len(pods) == 1 and is_ready(pods[0]) and not before.keys() & identities(pods).keys()

    def drafts() -> dict[str, float]:
        return engine.page(engine.pod(), HTTP)

    with asking(ask):
        engine.patch(engine={"extraArgs": ["--enforce-eager", "--max-log-len", "16"]})
        wait_for("another pod has taken over", replaced, seconds=600)
        wait_for("users drew drafts from it", lambda: drafts().get(DRAFTS, 0) > 2 * TOKENS, seconds=60)

    # The start-up probe has drawn drafts as well, and the pod has known no other depth.
    page = drafts()
    assert page[DRAFT_TOKENS] == 3 * page[DRAFTS]


KILL = """\
import os, pathlib, signal
for process in pathlib.Path("/proc").glob("[0-9]*"):
    if (process / "cmdline").read_bytes().startswith(b"VLLM::EngineCore"):
        os.kill(int(process.name), signal.SIGKILL)
        print("killed", process.name)
"""


def test_a_crash_of_the_engine_core_is_recovered_from(fleet: Fleet) -> None:
    engine = fleet.draft_model
    wait_all_ready(engine)
    engine.pin(3)
    engine.wait_pinned(3)
    ((uid, restarts),) = engine.identities().items()

    command = ("python3", "-c", KILL)
    killed = engine.kube.run("exec", engine.pod(), "-n", engine.namespace, "-c", "engine", "--", *command)
    assert "killed" in killed.stdout

    wait_for("the container was restarted", lambda: engine.identities() == {uid: restarts + 1}, seconds=90)
    # A start takes two minutes where four other engines and another worker's tests share two cores.
    wait_for("it serves again", lambda: all(map(is_ready, engine.pods())), seconds=300)
    counts = Counts(engine)
    assert engine.complete("7").split() == walk(7, TOKENS)
    # A restarted engine begins with the mounted schedule.
    assert counts.of(TOKENS)[steps_at(3)] == (TOKENS - 1) / 4


@pytest.mark.alone  # the length of its streams is taken from the speed just before
def test_streams_outlive_the_end_of_their_pod(fleet: Fleet) -> None:
    engine = fleet.smollm2
    wait_all_ready(engine)
    engine.pin(0)
    engine.wait_pinned(0)
    pod, started = engine.pod(), time.monotonic()
    engine.complete("Once upon a time", 20)
    # A batch takes longer, so a stream takes twice the pause and more.
    tokens = min(LONGEST, int(2 * PRE_STOP_SECONDS * 20 / (time.monotonic() - started)))
    streams = [Stream(engine, pod, tokens) for _ in range(STREAMS)]
    for stream in streams:
        stream.start()
    for stream in streams:
        assert stream.began.wait(30)

    told = time.monotonic()
    engine.kube.run("delete", "pod", pod, "-n", engine.namespace, "--wait=false")
    for stream in streams:
        stream.join(150)

    took = [stream.ended - told for stream in streams]
    print(f"streams of {tokens} tokens ended {min(took):.0f} s to {max(took):.0f} s after the deletion")
    assert [stream.outcome() for stream in streams] == [("length", tokens, True)] * STREAMS
    assert min(took) > PRE_STOP_SECONDS, "the streams were over before vLLM was told to stop"
