"""`values.schema.json` refuses what the chart would otherwise ignore in silence."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendering import CHART, try_to_render


def _places(values: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Give every mapping in the default values that the schema closes."""
    free = {
        "nodeSelector",
        "affinity",
        "podLabels",
        "podAnnotations",
        "labels",
        "annotations",
        "requests",
        "limits",
    }
    if not isinstance(values, dict) or (path and path[-1] in free and path != ("limits",)):
        return
    if path != ("metricsSources",):
        yield path
    for key, value in values.items():
        yield from _places(value, (*path, key))


PLACES = sorted(_places(yaml.safe_load((CHART / "values.yaml").read_text())))


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(place) or "top")
def test_an_unknown_key_is_refused_at_every_level(place: tuple[str, ...], tmp_path: Path) -> None:
    values: dict[str, Any] = {"replicsa": 1}
    for key in reversed(place):
        values = {key: values}

    outcome = try_to_render(values, tmp_path)

    assert outcome.returncode != 0
    assert "replicsa" in outcome.stderr


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"logLevel": "loud"}, id="unknown-log-level"),
        pytest.param({"workers": "eight"}, id="text-for-a-number"),
        pytest.param({"limits": {"maxReplicas": 0}}, id="no-replica-allowed"),
        pytest.param({"watchNamespaces": ["team-*"]}, id="glob-of-namespaces"),
        pytest.param({"watchNamespaces": "team-a"}, id="text-for-a-list"),
        pytest.param({"metricsSources": {"default": {}}}, id="source-without-url"),
        pytest.param({"metricsSources": {"default": {"url": "prometheus:9090"}}}, id="url-without-scheme"),
        pytest.param(
            {"metricsSources": {"default": {"url": "http://me:secret@prometheus"}}}, id="password-in-url"
        ),
        pytest.param(
            {"metricsSources": {"default": {"url": "http://p", "headers": {"a": "b"}}}},
            id="unknown-source-key",
        ),
        pytest.param(
            {"metricsSources": {"Main_1": {"url": "http://p"}}}, id="source-name-no-volume-can-have"
        ),
        pytest.param(
            {
                "metricsSources": {
                    "default": {
                        "url": "http://p",
                        "bearerToken": {"secret": "a", "key": "b"},
                        "basicAuth": {"secret": "a", "usernameKey": "b", "passwordKey": "c"},
                    }
                }
            },
            id="two-ways-to-log-in",
        ),
        pytest.param(
            {
                "metricsSources": {
                    "default": {"url": "http://p", "ca": {"secret": "a", "configMap": "b", "key": "c"}}
                }
            },
            id="two-certificates",
        ),
        pytest.param({"runAsUser": 0}, id="root"),
        pytest.param({"networkPolicy": {"metricsFrom": [{"pods": {}}]}}, id="unknown-peer"),
        pytest.param({"tuning": {"scrapeIntervalSeconds": 0}}, id="no-interval"),
    ],
)
def test_a_wrong_value_is_refused(values: dict[str, Any], tmp_path: Path) -> None:
    assert try_to_render(values, tmp_path).returncode != 0


def test_every_object_of_the_schema_is_closed_or_says_what_it_holds() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def walk(node: Any, path: str) -> Iterator[str]:
        if isinstance(node, dict):
            if "properties" in node and node.get("additionalProperties") is not False:
                yield path
            for key, value in node.items():
                yield from walk(value, f"{path}/{key}")

    assert list(walk(schema, "")) == []
