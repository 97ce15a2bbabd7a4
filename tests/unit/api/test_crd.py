"""The generated CRD: committed, structural, described, bounded, and of one mind with the models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.api.admission import admit, nested, rules, with_defaults
from tests.unit.api.cases import ACCEPTED, CASES, REFUSED, Case

from specfleet.api.crd import FILE_NAME, HASH_ANNOTATION, crd, crd_yaml, schema, schema_hash
from specfleet.api.structural import NotStructural, faults, structural, without
from specfleet.api.validation import validate

REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.yaml"))
SCHEMA = schema()


def _fields(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, child in nested(node):
        yield f"{path}.{name}", child
        yield from _fields(child, f"{path}.{name}")


def test_the_committed_file_is_the_generated_one() -> None:
    assert (REPOSITORY / "crds" / FILE_NAME).read_text(encoding="utf-8") == crd_yaml()


def test_the_schema_is_structural() -> None:
    assert list(faults(SCHEMA)) == []


def test_every_field_has_a_text_for_kubectl_explain() -> None:
    # metadata is explained by Kubernetes, and the type of items by their list.
    silent = [
        path
        for path, node in _fields(SCHEMA)
        if "description" not in node and not path.endswith("[]") and not path.startswith(".metadata")
    ]

    assert silent == []


def test_everything_that_users_write_is_bounded_so_that_rules_have_a_known_cost() -> None:
    bounds = {
        "string": {"maxLength", "enum"},
        "array": {"maxItems"},
        "object": {"maxProperties", "properties"},
    }
    unbounded = [
        path
        for path, node in _fields(SCHEMA["properties"]["spec"])
        if not bounds.get(node.get("type", ""), set(node)) & set(node)
        and not node.get("x-kubernetes-preserve-unknown-fields")
    ]

    assert unbounded == []


def test_nothing_in_status_is_filled_in_by_the_api_server() -> None:
    status = SCHEMA["properties"]["status"]

    assert with_defaults({"pools": [{"name": "a"}]}, status) == {"pools": [{"name": "a"}]}


def test_each_manager_can_apply_its_own_part_of_status_alone() -> None:
    pool = SCHEMA["properties"]["status"]["properties"]["pools"]

    assert (pool["x-kubernetes-list-map-keys"], pool["items"]["required"]) == (["name"], ["name"])


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_a_sensible_resource_is_admitted(case: Case) -> None:
    assert admit(case.resource, SCHEMA) == []


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_a_wrong_resource_is_refused_at_the_same_field_as_by_the_models(case: Case) -> None:
    refusals = admit(case.resource, SCHEMA)

    assert [
        path
        for path, message in refusals
        if path.startswith(case.at) and (case.structural or case.says in message)
    ], refusals


def test_each_rule_is_broken_by_a_case() -> None:
    told = {message for case in CASES for _, message in admit(case.resource, SCHEMA)}

    assert set(rules(SCHEMA)) - told == set()


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_defaults_that_are_stored_mean_what_the_models_mean(case: Case) -> None:
    stored = with_defaults(case.resource, SCHEMA)

    assert validate(stored).spec == validate(case.resource).spec


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_is_admitted_and_read(example: Path) -> None:
    for resource in yaml.safe_load_all(example.read_text(encoding="utf-8")):
        assert admit(resource, SCHEMA) == []
        assert validate(resource).name == resource["metadata"]["name"]


def test_the_columns_are_those_of_the_design() -> None:
    columns = crd()["spec"]["versions"][0]["additionalPrinterColumns"]

    # design/api.md, "Printer columns"; kubectl writes them in capitals
    assert [column["name"].upper() for column in columns if not column.get("priority")] == [
        "READY", "STATE", "METHOD", "DEPTH", "ACCEPTED", "TPOT", "GAIN", "KV-FREE", "AGE",
    ]  # fmt: skip
    assert [column["name"].upper() for column in columns if column.get("priority")] == [
        "QUEUE", "SCHEDULE", "MODE", "MODEL",
    ]  # fmt: skip


def test_every_column_shows_a_field_of_the_schema() -> None:
    for column in crd()["spec"]["versions"][0]["additionalPrinterColumns"][:-1]:
        node = SCHEMA
        for part in column["jsonPath"].removeprefix(".").split("."):
            node = node["properties"][part]
        assert node["type"] == "string"


def test_the_crd_carries_the_hash_of_its_schema() -> None:
    assert crd()["metadata"]["annotations"] == {HASH_ANNOTATION: schema_hash()}


def test_dropping_a_keyword_keeps_a_field_of_that_name() -> None:
    node = {
        "type": "object",
        "description": "x",
        "properties": {"description": {"type": "string", "description": "y"}},
    }

    assert without("description", node) == {
        "type": "object",
        "properties": {"description": {"type": "string"}},
    }


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({"anyOf": [{"type": "string"}, {"type": "integer"}]}, id="union"),
        pytest.param({"type": "array", "prefixItems": []}, id="tuple-of-types"),
        pytest.param({"type": "array", "uniqueItems": True}, id="set"),
        pytest.param({"type": "object", "propertyNames": {}}, id="constrained-keys"),
        pytest.param({"type": "integer", "exclusiveMinimum": 0}, id="exclusive-bound"),
        pytest.param(
            {"$ref": "#/$defs/A", "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}}},
            id="recursion",
        ),
    ],
)
def test_what_has_no_conversion_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(NotStructural):
        structural(raw)


@pytest.mark.parametrize(
    "node",
    [
        pytest.param({"description": "x"}, id="no-type"),
        pytest.param({"type": "number"}, id="float"),
        pytest.param({"type": "array"}, id="no-items"),
        pytest.param({"type": "object"}, id="no-fields"),
        pytest.param({"type": "string", "const": "a"}, id="unknown-keyword"),
        pytest.param(
            {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}, id="both"
        ),
        pytest.param({"type": "object", "properties": {}, "required": ["a"]}, id="requires-what-it-lacks"),
        pytest.param(
            {
                "type": "array",
                "x-kubernetes-list-map-keys": ["a"],
                "items": {"type": "object", "properties": {"a": {"type": "string"}}},
            },
            id="optional-key",
        ),
    ],
)
def test_the_checker_finds_what_an_api_server_would_refuse(node: dict[str, Any]) -> None:
    assert len(list(faults({"type": "object", "properties": {"field": node}}))) == 1


def test_a_better_description_keeps_the_hash_and_a_new_bound_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = schema_hash()
    described, bounded = schema(), schema()
    described["properties"]["spec"]["description"] = "another text"
    bounded["properties"]["spec"]["properties"]["pools"]["maxItems"] = 9

    hashes = []
    for changed in (described, bounded):
        monkeypatch.setattr("specfleet.api.crd.schema", lambda changed=changed: changed)
        hashes.append(schema_hash())

    assert hashes[0] == before
    assert hashes[1] != before
