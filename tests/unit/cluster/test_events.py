"""Events: one for each thing that happens, a series for what repeats."""

from tests.fake_time import in_fake_time

from specfleet.cluster.client import Kind, Object
from specfleet.cluster.errors import NotFound, Unavailable
from specfleet.cluster.events import EventRecorder

CHAT: Object = {
    "apiVersion": "specfleet.dev/v1alpha1",
    "kind": "SpeculativeDeployment",
    "metadata": {"name": "chat", "namespace": "llm", "uid": "u1"},
}


class Events:
    def __init__(self) -> None:
        self.created: list[Object] = []
        self.patches: list[tuple[str, Object]] = []
        self.gone = False
        self.down = False

    async def create(self, kind: Kind, body: Object) -> Object:
        if self.down:
            raise Unavailable("down")
        self.created.append(body)
        return body

    async def merge_patch(self, kind: Kind, namespace: str, name: str, patch: Object) -> Object:
        if self.gone:
            raise NotFound
        self.patches.append((name, patch))
        return patch


@in_fake_time
async def test_an_event_names_what_it_is_about_and_who_says_it() -> None:
    events = Events()

    await EventRecorder(events, instance="pod-1").record(CHAT, "Warning", "LimitExceeded", "too many")

    body = events.created[0]
    assert body["regarding"] == {
        "apiVersion": "specfleet.dev/v1alpha1",
        "kind": "SpeculativeDeployment",
        "namespace": "llm",
        "name": "chat",
        "uid": "u1",
    }
    assert (body["type"], body["reason"], body["note"]) == ("Warning", "LimitExceeded", "too many")
    assert body["reportingInstance"] == "pod-1"
    # The API refuses an Event without these.
    assert body["action"]
    assert body["eventTime"]
    assert body["reportingController"]


@in_fake_time
async def test_the_same_event_again_counts_in_the_first_one() -> None:
    events = Events()
    recorder = EventRecorder(events, instance="pod-1")

    for _ in range(3):
        await recorder.record(CHAT, "Normal", "Push", "depth 2 -> 3")

    assert len(events.created) == 1
    assert [patch["series"]["count"] for _, patch in events.patches] == [2, 3]
    assert {name for name, _ in events.patches} == {events.created[0]["metadata"]["name"]}


@in_fake_time
async def test_other_numbers_are_another_event() -> None:
    events = Events()
    recorder = EventRecorder(events, instance="pod-1")

    await recorder.record(CHAT, "Normal", "Push", "depth 2 -> 3")
    await recorder.record(CHAT, "Normal", "Push", "depth 3 -> 4")

    assert [body["note"] for body in events.created] == ["depth 2 -> 3", "depth 3 -> 4"]


@in_fake_time
async def test_a_series_whose_first_event_has_expired_starts_anew() -> None:
    events = Events()
    recorder = EventRecorder(events, instance="pod-1")
    await recorder.record(CHAT, "Normal", "Push", "depth 2 -> 3")
    events.gone = True

    await recorder.record(CHAT, "Normal", "Push", "depth 2 -> 3")

    assert len(events.created) == 2


@in_fake_time
async def test_a_lost_event_is_counted_and_harms_nobody() -> None:
    events = Events()
    events.down = True
    recorder = EventRecorder(events, instance="pod-1")

    await recorder.record(CHAT, "Normal", "Push", "depth 2 -> 3")

    assert recorder.lost == 1


@in_fake_time
async def test_a_note_is_cut_to_what_the_api_takes() -> None:
    events = Events()

    await EventRecorder(events, instance="pod-1").record(CHAT, "Normal", "Push", "ä" * 1000)

    assert len(events.created[0]["note"].encode()) <= 1024
    assert events.created[0]["note"].endswith("...")
