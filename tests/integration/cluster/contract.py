"""What the operator relies on in an API server. One suite runs against the fake and against a real one.

Subclasses give ``cluster``: a client and an empty namespace. A test that holds on one side only is a lie of
the fake.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from tests.integration.controller.builders import a_resource

from specfleet.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    SERVICE,
    SPECULATIVE_DEPLOYMENT,
    Kind,
    Object,
)
from specfleet.cluster import kubernetes_client
from specfleet.cluster.errors import Conflict, Invalid, NotFound
from specfleet.cluster.events import EVENT, EventRecorder
from specfleet.cluster.kubernetes_client import KubernetesClient
from specfleet.cluster.lease import LEASE

DEADLINE_SECONDS = 30.0


@dataclass(frozen=True)
class Cluster:
    client: KubernetesClient
    namespace: str

    def a_map(self, name: str = "one", *, labels: dict[str, str] | None = None, **data: str) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels or {}},
            "data": data,
        }

    async def apply_map(self, body: Object, manager: str = "specfleet", *, force: bool = True) -> Object:
        return await self.client.apply(CONFIG_MAP, body, manager=manager, force=force)

    async def read_map(self, name: str = "one") -> Any:
        return (await self.client.get(CONFIG_MAP, self.namespace, name)).get("data")

    async def a_fleet(self, name: str = "chat") -> Object:
        body = a_resource(name, namespace=self.namespace, replicas=0)
        return await self.client.apply(SPECULATIVE_DEPLOYMENT, body, manager="user")

    def a_status(self, fleet: Object, **status: Any) -> Object:
        metadata = {key: fleet["metadata"][key] for key in ("name", "namespace", "uid")}
        return {
            "apiVersion": fleet["apiVersion"],
            "kind": fleet["kind"],
            "metadata": metadata,
            "status": status,
        }

    async def apply_status(self, fleet: Object, manager: str, **status: Any) -> Object:
        return await self.client.apply_status(
            SPECULATIVE_DEPLOYMENT, self.a_status(fleet, **status), manager=manager
        )


def labelled(value: str) -> dict[str, str]:
    return {"specfleet.dev/deployment": value}


class ApiServerContract:
    async def test_apply_makes_the_object_and_gives_it_back(self, cluster: Cluster) -> None:
        made = await cluster.apply_map(cluster.a_map(key="value"))

        assert made["data"] == {"key": "value"}
        assert made["metadata"]["uid"]
        assert await cluster.read_map() == {"key": "value"}

    async def test_the_same_apply_again_is_no_new_version(self, cluster: Cluster) -> None:
        first = await cluster.apply_map(cluster.a_map(key="value"))

        second = await cluster.apply_map(cluster.a_map(key="value"))

        assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    async def test_a_field_that_its_only_owner_leaves_out_is_removed(self, cluster: Cluster) -> None:
        await cluster.apply_map(cluster.a_map(keep="1", drop="2"))

        await cluster.apply_map(cluster.a_map(keep="1"))

        assert await cluster.read_map() == {"keep": "1"}

    async def test_fields_of_another_manager_stay(self, cluster: Cluster) -> None:
        await cluster.apply_map(cluster.a_map(labels=labelled("chat")))
        await cluster.apply_map(cluster.a_map(schedule="{}"), manager="specfleet-tuner")

        applied = await cluster.apply_map(cluster.a_map(labels=labelled("chat")))

        assert applied["data"] == {"schedule": "{}"}
        assert applied["metadata"]["labels"] == labelled("chat")
        assert {"specfleet", "specfleet-tuner"} <= {
            entry["manager"] for entry in applied["metadata"]["managedFields"]
        }

    async def test_without_force_a_field_of_another_manager_is_a_conflict(self, cluster: Cluster) -> None:
        await cluster.apply_map(cluster.a_map(key="1"), manager="first")

        with pytest.raises(Conflict):
            await cluster.apply_map(cluster.a_map(key="2"), manager="second", force=False)

        assert await cluster.read_map() == {"key": "1"}

    async def test_with_force_the_field_changes_its_owner(self, cluster: Cluster) -> None:
        await cluster.apply_map(cluster.a_map(key="1"), manager="first")
        await cluster.apply_map(cluster.a_map(key="2"), manager="second")

        await cluster.apply_map(cluster.a_map(), manager="first")

        assert await cluster.read_map() == {"key": "2"}

    async def test_a_uid_keeps_an_apply_from_making_an_object(self, cluster: Cluster) -> None:
        body = cluster.a_map(key="1")
        body["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"

        with pytest.raises(Conflict):
            await cluster.apply_map(body)

        with pytest.raises(NotFound):
            await cluster.read_map()

    async def test_a_uid_keeps_an_apply_from_another_object_of_the_name(self, cluster: Cluster) -> None:
        old = await cluster.apply_map(cluster.a_map(key="1"))
        await cluster.client.delete(CONFIG_MAP, cluster.namespace, "one")
        await cluster.apply_map(cluster.a_map(key="2"))
        body = cluster.a_map(key="3")
        body["metadata"]["uid"] = old["metadata"]["uid"]

        with pytest.raises(Conflict):
            await cluster.apply_map(body)

        assert await cluster.read_map() == {"key": "2"}

    async def test_a_status_with_the_uid_of_a_former_resource_is_a_conflict(self, cluster: Cluster) -> None:
        old = await cluster.a_fleet()
        await cluster.client.delete(SPECULATIVE_DEPLOYMENT, cluster.namespace, "chat")
        await cluster.a_fleet()

        with pytest.raises(Conflict):
            await cluster.apply_status(old, "specfleet", ready="0/0")

    async def test_a_status_of_a_missing_resource_is_not_found_or_a_conflict(self, cluster: Cluster) -> None:
        fleet = await cluster.a_fleet()
        await cluster.client.delete(SPECULATIVE_DEPLOYMENT, cluster.namespace, "chat")

        with pytest.raises((NotFound, Conflict)):
            await cluster.apply_status(fleet, "specfleet", ready="0/0")

    async def test_two_managers_share_the_lists_of_a_status(self, cluster: Cluster) -> None:
        fleet = await cluster.a_fleet()
        await cluster.apply_status(fleet, "specfleet", pools=[{"name": "main", "replicas": 2}], ready="0/2")
        await cluster.apply_status(
            fleet,
            "specfleet-tuner",
            pools=[{"name": "main", "state": "Learning"}],
            summary={"state": "Learning"},
        )

        told = await cluster.apply_status(
            fleet, "specfleet", pools=[{"name": "main", "replicas": 3}], ready="0/3"
        )

        assert told["status"]["pools"] == [{"name": "main", "replicas": 3, "state": "Learning"}]
        assert told["status"]["summary"]["state"] == "Learning"

    async def test_a_status_is_no_new_generation_and_a_spec_is(self, cluster: Cluster) -> None:
        fleet = await cluster.a_fleet()
        told = await cluster.apply_status(fleet, "specfleet", ready="0/0")
        body = a_resource(namespace=cluster.namespace, replicas=1)

        changed = await cluster.client.apply(SPECULATIVE_DEPLOYMENT, body, manager="user")

        generations = [item["metadata"]["generation"] for item in (fleet, told, changed)]
        assert generations == [1, 1, 2]

    async def test_an_apply_to_the_object_leaves_its_status(self, cluster: Cluster) -> None:
        fleet = await cluster.a_fleet()
        await cluster.apply_status(fleet, "specfleet", ready="0/0")

        await cluster.client.apply(
            SPECULATIVE_DEPLOYMENT, a_resource(namespace=cluster.namespace, replicas=1), manager="user"
        )

        assert (await cluster.client.get(SPECULATIVE_DEPLOYMENT, cluster.namespace, "chat"))["status"][
            "ready"
        ] == "0/0"

    async def test_what_is_missing_is_not_found_and_its_delete_is_fine(self, cluster: Cluster) -> None:
        with pytest.raises(NotFound):
            await cluster.client.get(CONFIG_MAP, cluster.namespace, "nothing")

        await cluster.client.delete(CONFIG_MAP, cluster.namespace, "nothing")

    async def test_a_kind_that_is_not_served_is_not_found(self, cluster: Cluster) -> None:
        kind = Kind("nowhere.example", "v1", "Nothing", "nothings")

        with pytest.raises(NotFound):
            await cluster.client.list(kind, cluster.namespace, {})

    async def test_lists_take_label_values_and_bare_labels(self, cluster: Cluster) -> None:
        await cluster.apply_map(cluster.a_map("a", labels=labelled("chat")))
        await cluster.apply_map(cluster.a_map("b", labels=labelled("code")))
        await cluster.apply_map(cluster.a_map("c"))

        async def names(labels: dict[str, str | None]) -> list[str]:
            found = await cluster.client.list(CONFIG_MAP, cluster.namespace, labels)
            return [item["metadata"]["name"] for item in found]

        assert await names({"specfleet.dev/deployment": "chat"}) == ["a"]
        assert await names({"specfleet.dev/deployment": None}) == ["a", "b"]

    async def test_a_list_has_every_page_and_says_what_its_items_are(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kubernetes_client, "PAGE_SIZE", 2)
        for number in range(5):
            await cluster.apply_map(cluster.a_map(f"map-{number}", labels=labelled("chat")))

        found = await cluster.client.list(CONFIG_MAP, cluster.namespace, {"specfleet.dev/deployment": "chat"})

        assert [item["metadata"]["name"] for item in found] == [f"map-{number}" for number in range(5)]
        assert {(item["apiVersion"], item["kind"]) for item in found} == {("v1", "ConfigMap")}

    async def test_a_metadata_list_holds_no_data(self, cluster: Cluster) -> None:
        await cluster.apply_map(cluster.a_map(labels=labelled("chat"), key="value"))

        (item,) = await cluster.client.list_metadata(CONFIG_MAP, cluster.namespace, labelled("chat"))

        assert item["metadata"]["name"] == "one"
        assert "data" not in item

    async def test_children_go_with_their_owner(self, cluster: Cluster) -> None:
        fleet = await cluster.a_fleet()
        child = cluster.a_map()
        child["metadata"]["ownerReferences"] = [_owner(fleet)]
        await cluster.apply_map(child)

        await cluster.client.delete(SPECULATIVE_DEPLOYMENT, cluster.namespace, "chat")

        await self._gone(cluster, "one")

    async def test_a_child_made_after_its_owner_died_goes_too(self, cluster: Cluster) -> None:
        fleet = await cluster.a_fleet()
        await cluster.client.delete(SPECULATIVE_DEPLOYMENT, cluster.namespace, "chat")
        late = cluster.a_map()
        late["metadata"]["ownerReferences"] = [_owner(fleet)]

        await cluster.apply_map(late)

        await self._gone(cluster, "one")

    async def test_a_lease_with_an_old_version_is_a_conflict(self, cluster: Cluster) -> None:
        lease = await cluster.client.create(LEASE, _a_lease(cluster, "one"))
        await cluster.client.replace(LEASE, {**lease, "spec": {"holderIdentity": "two"}})

        with pytest.raises(Conflict):
            await cluster.client.replace(LEASE, {**lease, "spec": {"holderIdentity": "three"}})
        with pytest.raises(Conflict):
            await cluster.client.create(LEASE, _a_lease(cluster, "four"))

        assert (await cluster.client.get(LEASE, cluster.namespace, "leader"))["spec"][
            "holderIdentity"
        ] == "two"

    async def test_events_are_taken_and_repeats_become_a_series(self, cluster: Cluster) -> None:
        fleet = await cluster.a_fleet()
        recorder = EventRecorder(cluster.client, instance="contract")

        await recorder.record(fleet, "Warning", "LimitExceeded", "too many")
        await recorder.record(fleet, "Warning", "LimitExceeded", "too many")

        (event,) = await cluster.client.list(EVENT, cluster.namespace, {})
        assert recorder.lost == 0
        assert (event["reason"], event["note"], event["series"]["count"]) == ("LimitExceeded", "too many", 2)

    async def test_ports_and_containers_merge_by_their_keys(self, cluster: Cluster) -> None:
        await cluster.client.apply(SERVICE, _a_service(cluster, 8000), manager="specfleet")
        await cluster.client.apply(DEPLOYMENT, _a_deployment(cluster, "engine:1"), manager="specfleet")

        service = await cluster.client.apply(SERVICE, _a_service(cluster, 8001), manager="specfleet")
        deployment = await cluster.client.apply(
            DEPLOYMENT, _a_deployment(cluster, "engine:2"), manager="specfleet"
        )

        assert [port["port"] for port in service["spec"]["ports"]] == [8001]
        containers = deployment["spec"]["template"]["spec"]["containers"]
        assert [container["image"] for container in containers] == ["engine:2"]

    async def test_a_field_that_the_kind_lacks_is_invalid_and_named(self, cluster: Cluster) -> None:
        body = _a_deployment(cluster, "engine:1")
        body["spec"]["template"]["spec"]["affinity"] = {"nodeAffinty": {}}

        with pytest.raises(Invalid, match=r"[.]spec[.]template[.]spec[.]affinity[.]nodeAffinty: field not"):
            await cluster.client.apply(DEPLOYMENT, body, manager="specfleet")

        with pytest.raises(NotFound):
            await cluster.client.get(DEPLOYMENT, cluster.namespace, "chat")

    async def _gone(self, cluster: Cluster, name: str) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await cluster.client.list(CONFIG_MAP, cluster.namespace, {}):
                # The real server also puts its root certificate into every namespace.
                found = await cluster.client.list(CONFIG_MAP, cluster.namespace, {})
                if name not in {item["metadata"]["name"] for item in found}:
                    return
                await asyncio.sleep(0.2)


def _owner(fleet: Object) -> Object:
    metadata = fleet["metadata"]
    return {
        "apiVersion": fleet["apiVersion"],
        "kind": fleet["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _a_lease(cluster: Cluster, holder: str) -> Object:
    return {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {"name": "leader", "namespace": cluster.namespace},
        "spec": {"holderIdentity": holder},
    }


def _a_service(cluster: Cluster, port: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "chat", "namespace": cluster.namespace},
        "spec": {"selector": {"app": "chat"}, "ports": [{"name": "http", "port": port, "protocol": "TCP"}]},
    }


def _a_deployment(cluster: Cluster, image: str) -> Object:
    container = {"name": "engine", "image": image, "ports": [{"containerPort": 8000, "protocol": "TCP"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": cluster.namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "chat"}},
            "template": {"metadata": {"labels": {"app": "chat"}}, "spec": {"containers": [container]}},
        },
    }
