"""What the API accepts and refuses: one table, run against pydantic, CEL, and a real API server.

Each case edits one valid resource. An edit names a field with dots and list positions
(``spec.pools.0.name``); the value `GONE` removes it.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

GONE = object()

VALID = """
apiVersion: specfleet.dev/v1alpha1
kind: SpeculativeDeployment
metadata: {name: chat, namespace: default}
spec:
  model: {uri: "file:///models/smollm2"}
  engine: {type: builtin}
  speculation: {method: ngram}
  pools: [{name: interactive, replicas: 0}]
"""

# design/api.md, "Rules"
METHODS_WITH_WEIGHTS = ("draftModel", "eagle", "eagle3", "medusa")

SIMULATED = {"spec.engine.type": "simulated", "spec.model": GONE}
HUB_MODEL, COMMIT = "hf://meta-llama/Llama-3.1-8B", "0e9e39f249a16976918f6564b8830bc894c89659"
HUB_HEAD = {"spec.speculation": {"method": "eagle3", "proposer": {"uri": "hf://org/head"}}}
ENFORCED = {"spec.tuning": {"mode": "Enforce"}}
VLLM = {"spec.engine.type": "vllm"}
SGLANG = {"spec.engine.type": "sglang"}


@dataclass(frozen=True)
class Case:
    """One edit of the valid resource. ``at`` and ``says``: where and how it is refused; empty: accepted.

    ``structural``: the schema itself refuses it, in the API server's own words; else a rule does.
    """

    name: str
    edits: Mapping[str, Any] = field(default_factory=dict)
    at: str = ""
    says: str = ""
    structural: bool = False

    @property
    def resource(self) -> dict[str, Any]:
        return edited(yaml.safe_load(VALID), self.edits)


def edited(resource: dict[str, Any], edits: Mapping[str, Any]) -> dict[str, Any]:
    """Give a copy with some fields set or removed; missing parents are created."""
    resource = copy.deepcopy(resource)
    for path, value in edits.items():
        *parents, last = path.split(".")
        node: Any = resource
        for part in parents:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        if value is GONE:
            node.pop(last, None)
        elif isinstance(node, list):
            node[int(last)] = value
        else:
            node[last] = value
    return resource


def refused(name: str, edits: Mapping[str, Any], at: str, says: str) -> Case:
    return Case(name, edits, at, says)


def malformed(name: str, edits: Mapping[str, Any], at: str, says: str) -> Case:
    return Case(name, edits, at, says, structural=True)


def _template(**settings: Any) -> dict[str, Any]:
    return {f"spec.pools.0.template.{name}": value for name, value in settings.items()}


def _volume(**source: Any) -> dict[str, Any]:
    return _template(volumes=[{"name": "cache", **source}])


def _mounted(**mount: Any) -> dict[str, Any]:
    entry = {"name": "cache", "mountPath": "/cache", **mount}
    return _template(volumes=[{"name": "cache", "emptyDir": {}}], volumeMounts=[entry])


POOL = "spec.pools[0]"
TEMPLATE = f"{POOL}.template"

ACCEPTED = [
    Case("as-it-is"),
    Case("name-of-63-characters", {"metadata.name": "a" * 63}),
    Case("model-on-a-claim", {"spec.model.uri": "pvc://models/llama/8b"}),
    Case("model-at-the-root-of-a-claim", {"spec.model.uri": "pvc://models"}),
    Case("model-in-a-hidden-folder", {"spec.model.uri": "file:///root/.cache/model-1.0"}),
    Case("model-of-a-hub", {"spec.model": {"uri": HUB_MODEL, "revision": "main"}}),
    Case("model-of-a-hub-at-its-main-branch", {"spec.model.uri": HUB_MODEL}),
    Case(
        "private-model-of-a-hub-on-a-claim",
        {
            "spec.model": {
                "uri": HUB_MODEL,
                "revision": COMMIT,
                "credentialsSecret": "hf-token",
                "cacheClaim": "models",
            }
        },
    ),
    *(
        Case(
            f"enforced-at-{len(commit)}-digits",
            ENFORCED | {"spec.model": {"uri": HUB_MODEL, "revision": commit}},
        )
        for commit in (COMMIT, COMMIT[:7])
    ),
    Case("proposer-of-a-hub", HUB_HEAD),
    Case(
        "cached-proposer-of-a-hub",
        {
            "spec.model.cacheClaim": "models",
            "spec.speculation": {
                "method": "eagle3",
                "proposer": {"uri": "hf://org/head", "revision": COMMIT},
            },
        },
    ),
    *(
        Case(f"model-of-an-image-{kind}", {"spec.model.uri": uri})
        for kind, uri in {
            "with-a-tag": "image://registry.example:5000/models/llama:v1",
            "with-a-path": "image://models/llama:8b/weights/fp8",
            "by-digest": "image://registry.example/llama@sha256:" + "0" * 64 + "/a",
        }.items()
    ),
    Case("served-name-with-a-slash", {"spec.model.servedName": "org/model:1"}),
    Case("image-by-digest", {"spec.engine.image": "registry.example:5000/engine@sha256:" + "0" * 64}),
    Case("own-arguments", {"spec.engine.extraArgs": ["--threads", "2", "--modelling=x", "-v"]}),
    Case(
        "environment",
        {
            "spec.engine.env": [
                {"name": "OMP_NUM_THREADS", "value": "2"},
                {"name": "EMPTY", "value": ""},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
                {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "engine", "key": "log.level"}}},
            ]
        },
    ),
    Case("small-kv-cache", {"spec.engine.kvCacheMib": 1}),
    Case("float32", {"spec.engine.dtype": "float32"}),
    Case("simulated", SIMULATED),
    Case("simulated-with-a-served-name", SIMULATED | {"spec.model": {"servedName": "toy"}}),
    Case(
        "simulated-with-a-cost",
        SIMULATED | {"spec.engine.simulated": {"stepTime": "1m1.5s", "kneeTokens": 1}},
    ),
    Case("initial-equals-max", {"spec.speculation.depth": {"initial": 5, "max": 5}}),
    Case("deepest", {"spec.speculation.depth": {"initial": 0, "max": 16}}),
    Case("ngram-of-one-length", {"spec.speculation.ngram": {"minMatch": 3, "maxMatch": 3}}),
    *(
        Case(
            f"weights-that-draft-by-{method}",
            {"spec.speculation": {"method": method, "proposer": {"uri": "pvc://heads/v1"}}},
        )
        for method in METHODS_WITH_WEIGHTS
    ),
    Case(
        "proposer-in-the-image",
        {"spec.speculation": {"method": "eagle3", "proposer": {"uri": "file:///models/eagle3"}}},
    ),
    *(
        Case(
            f"{engine['spec.engine.type']}-with-{method}",
            engine | {"spec.speculation": {"method": method, "proposer": {"uri": "pvc://heads/v1"}}},
        )
        for engine, names in ((VLLM, METHODS_WITH_WEIGHTS), (SGLANG, METHODS_WITH_WEIGHTS[:3]))
        for method in names
    ),
    *(
        Case(f"{engine['spec.engine.type']}-with-{method}", engine | {"spec.speculation": {"method": method}})
        for engine, names in ((VLLM, ("mtp", "ngram", "suffix", "none")), (SGLANG, ("mtp", "ngram", "none")))
        for method in names
    ),
    Case("arguments-of-vllms-own", VLLM | {"spec.engine.extraArgs": ["--enforce-eager", "--tp-size"]}),
    Case("vllm-0.33", VLLM | {"spec.engine.version": "0.33.1"}),
    Case("sglang-0.5", SGLANG | {"spec.engine.version": "0.5.20"}),
    Case("sglang-0.5.100", SGLANG | {"spec.engine.version": "0.5.100"}),
    Case(
        "vllm-with-all-of-its-fields",
        VLLM
        | {
            "spec.engine.version": "0.32.0",
            "spec.engine.dtype": "float16",
            "spec.engine.quantization": "fp8",
            "spec.engine.tensorParallelSize": 2,
            "spec.engine.kvCacheMib": 4096,
        },
    ),
    Case("no-speculation", {"spec.speculation": {"method": "none"}}),
    Case(
        "no-speculation-said-twice",
        {"spec.speculation": {"method": "none", "depth": {"initial": 0, "max": 0}}},
    ),
    Case(
        "objectives",
        {
            "spec.objectives": {
                "timePerOutputToken": "40ms",
                "timeToFirstToken": "1.5s",
                "queueDelay": "250000us",
                "kvHeadroomPercent": 0,
            }
        },
    ),
    Case("pin-of-one-row", {"spec.tuning.schedule": [{"depth": 5}]}),
    Case(
        "pin-of-three-rows",
        {
            "spec.tuning.schedule": [
                {"maxRequests": 4, "depth": 5},
                {"maxRequests": 32, "depth": 1},
                {"depth": 0},
            ]
        },
    ),
    Case(
        "pin-without-speculation", {"spec.speculation.method": "none", "spec.tuning.schedule": [{"depth": 0}]}
    ),
    Case(
        "pin-within-a-larger-max",
        {"spec.speculation.depth": {"max": 8}, "spec.pools.0.tuning.schedule": [{"depth": 8}]},
    ),
    Case(
        "tuning",
        {
            "spec.tuning": {
                "mode": "Enforce",
                "paused": True,
                "metricsSource": "team-a",
                "maxPushesPerHour": 60,
            }
        },
    ),
    Case(
        "pool-overrides", {"spec.pools.0.tuning": {"mode": "Observe", "paused": False, "maxPushesPerHour": 1}}
    ),
    Case("no-replicas", {"spec.pools.0.replicas": GONE}),
    Case("eight-pools", {"spec.pools": [{"name": f"p{index}", "replicas": 0} for index in range(8)]}),
    Case("pool-name-of-20-characters", {"spec.pools.0.name": "a2345678901234567890"}),
    Case(
        "resources-as-text-and-number",
        _template(
            resources={"limits": {"nvidia.com/gpu": 1, "memory": "1.5Gi"}, "requests": {"cpu": "250m"}}
        ),
    ),
    Case(
        "tolerations",
        _template(
            tolerations=[
                {"key": "nvidia.com/gpu", "operator": "Exists"},
                {"operator": "Exists"},
                {"key": "team", "value": "a", "effect": "NoExecute", "tolerationSeconds": 30},
            ]
        ),
    ),
    Case(
        "affinity-in-free-form",
        _template(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}),
    ),
    Case(
        "spread",
        _template(
            topologySpreadConstraints=[
                {"topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
                {"topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 2},
            ]
        ),
    ),
    Case(
        "volumes",
        _template(
            volumes=[
                {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                {"name": "plain", "emptyDir": {}},
                {"name": "claim", "persistentVolumeClaim": {"claimName": "models"}},
                {"name": "settings", "configMap": {"name": "engine"}},
                {"name": "certificates", "secret": {"secretName": "tls"}},
            ],
            volumeMounts=[
                {"name": "scratch", "mountPath": "/dev/shm"},
                {"name": "claim", "mountPath": "/data", "subPath": "a/.b", "readOnly": True},
                {"name": "claim", "mountPath": "/root/.cache"},
                {"name": "certificates", "mountPath": "/etc/ssl/own"},
            ],
        ),
    ),
    Case(
        "names-in-the-template",
        _template(
            priorityClassName="high",
            imagePullSecrets=["registry", "mirror"],
            serviceAccountName="engine",
            nodeSelector={"gpu": "h100"},
            labels={"team": "a", "example.com/specfleet.dev": ""},
            annotations={"prometheus.io/scrape": "true"},
        ),
    ),
]

NAME_RULE = "name of a Service"
DURATION = "must be a Go duration"

REFUSED = [
    # metadata
    refused("dotted-name", {"metadata.name": "chat.v1"}, "metadata.name", NAME_RULE),
    refused("name-that-starts-with-a-digit", {"metadata.name": "7b"}, "metadata.name", NAME_RULE),
    malformed("long-name", {"metadata.name": "a" * 64}, "metadata.name", NAME_RULE),
    # model
    refused("no-model", {"spec.model": GONE}, "spec.model", "model.uri is required"),
    refused("model-without-uri", {"spec.model": {"servedName": "x"}}, "spec.model", "model.uri is required"),
    *(
        refused(f"uri-{kind}", {"spec.model.uri": uri}, "spec.model.uri", "must be hf://org/name")
        for kind, uri in {
            "of-a-hub-without-a-name": "hf://org",
            "of-a-hub-with-a-path": "hf://org/name/folder",
            "of-an-image-without-a-tag": "image://registry.example/llama/8b",
            "of-an-image-that-climbs": "image://registry.example/llama:1/../etc",
            "of-the-web": "https://example.com/model",
            "without-scheme": "/models/smollm2",
            "with-a-host": "file://host/path",
            "that-climbs": "file:///models/../etc",
            "of-the-root": "file:///",
            "with-a-slash-at-the-end": "pvc://claim/path/",
            "without-claim": "pvc:///path",
        }.items()
    ),
    *(
        refused(
            f"{field}-without-a-hub",
            {f"spec.model.{field}": value},
            f"spec.model.{field}",
            "hf://",
        )
        for field, value in {
            "revision": COMMIT,
            "credentialsSecret": "hf-token",
            "cacheClaim": "models",
        }.items()
    ),
    *(
        refused(
            f"proposer-{field}-without-a-hub",
            {
                "spec.speculation": {
                    "method": "eagle",
                    "proposer": {"uri": "pvc://heads/v1", field: value},
                }
            },
            f"spec.speculation.proposer.{field}",
            "hf://",
        )
        for field, value in {"revision": COMMIT, "credentialsSecret": "hf-token"}.items()
    ),
    *(
        refused(
            f"model-at-{kind}",
            edits | {"spec.model": {"uri": HUB_MODEL, **more}},
            "spec.model.revision",
            "must be a commit",
        )
        for kind, edits, more in (
            ("main-while-enforced", ENFORCED, {}),
            ("a-branch-while-enforced", ENFORCED, {"revision": "v1.0"}),
            ("a-branch-while-one-pool-is-enforced", {"spec.pools.0.tuning": {"mode": "Enforce"}}, {}),
            ("a-branch-on-a-shared-claim", {}, {"cacheClaim": "models", "revision": "main"}),
        )
    ),
    refused(
        "proposer-at-a-branch-while-enforced",
        ENFORCED | HUB_HEAD,
        "spec.speculation.proposer.revision",
        "must be a commit",
    ),
    refused(
        "revision-with-a-slash",
        {"spec.model": {"uri": HUB_MODEL, "revision": "refs/pr/1"}},
        "spec.model.revision",
        "must be a commit",
    ),
    refused(
        "served-name-with-a-space",
        {"spec.model.servedName": "a b"},
        "spec.model.servedName",
        "letters, digits",
    ),
    refused(
        "model-for-simulated", {"spec.engine.type": "simulated"}, "spec.model", "no meaning with engine.type"
    ),
    # engine
    malformed("unknown-engine", {"spec.engine.type": "tgi"}, "spec.engine.type", "must be one of"),
    malformed("no-engine", {"spec.engine": GONE}, "spec.engine", "is required"),
    malformed("engine-as-text", {"spec.engine": "builtin"}, "spec.engine", "must be a mapping"),
    malformed("unknown-field", {"spec.engine.threads": 2}, "spec.engine.threads", "unknown field"),
    malformed("unknown-dtype", {"spec.engine.dtype": "int8"}, "spec.engine.dtype", "must be one of"),
    refused(
        "half-precision-for-builtin", {"spec.engine.dtype": "float16"}, "spec.engine.dtype", "write bfloat16"
    ),
    *(
        refused(
            f"{field}-for-{engine}",
            {**edits, f"spec.engine.{field}": value},
            f"spec.engine.{field}",
            "drop it",
        )
        for engine, edits in (("builtin", {}), ("simulated", SIMULATED))
        for field, value in (("version", "0.32.0"), ("quantization", "fp8"), ("tensorParallelSize", 1))
    ),
    malformed(
        "unknown-quantization",
        VLLM | {"spec.engine.quantization": "q4"},
        "spec.engine.quantization",
        "must be one of",
    ),
    malformed(
        "no-gpu-at-all",
        VLLM | {"spec.engine.tensorParallelSize": 0},
        "spec.engine.tensorParallelSize",
        "at least 1",
    ),
    *(
        refused(
            f"{engine['spec.engine.type']}-{version}",
            engine | {"spec.engine.version": version},
            "spec.engine.version",
            "must be like" if version in ("0.32", "v0.32.0") else "leave it out",
        )
        for engine, version in (
            (VLLM, "0.31.2"),
            (VLLM, "0.320.0"),
            (VLLM, "0.32"),
            (VLLM, "v0.32.0"),
            (SGLANG, "0.32.0"),
            # The last release without /ready, and one of a digit.
            (SGLANG, "0.5.19"),
            (SGLANG, "0.5.4"),
            (SGLANG, "0.6.0"),
        )
    ),
    refused(
        "ngram-block-for-sglang",
        SGLANG | {"spec.speculation.ngram": {"minMatch": 3}},
        "spec.speculation.ngram",
        "no counterpart in sglang",
    ),
    refused(
        "kv-cache-in-mib-for-sglang",
        SGLANG | {"spec.engine.kvCacheMib": 512},
        "spec.engine.kvCacheMib",
        "--mem-fraction-static",
    ),
    malformed(
        "length-as-text", {"spec.engine.maxModelLen": "2048"}, "spec.engine.maxModelLen", "whole number"
    ),
    malformed("no-sequences", {"spec.engine.maxNumSeqs": 0}, "spec.engine.maxNumSeqs", "must be at least 1"),
    refused("image-with-a-space", {"spec.engine.image": "a b"}, "spec.engine.image", "must be a reference"),
    *(
        refused(
            f"owned-flag{argument.replace('=', '-is-')}",
            {"spec.engine.extraArgs": ["--threads", argument]},
            "spec.engine.extraArgs[1]",
            "must not name a flag",
        )
        for argument in ("--model", "--port=80", "--schedule-file", "--dtype=float32", "--kv-cache-tokens=")
    ),
    *(
        refused(
            f"flag-of-{engine['spec.engine.type']}-{argument}",
            engine | {"spec.engine.extraArgs": [argument]},
            "spec.engine.extraArgs",
            "must not name a flag",
        )
        for engine, argument in (
            (VLLM, "--scheduler-cls"),
            (VLLM, "--speculative_config={}"),
            (VLLM, "--speculative-config.method=ngram"),
            (SGLANG, "--speculative-algorithm"),
            (SGLANG, "--tp-size=2"),
        )
    ),
    malformed(
        "empty-argument", {"spec.engine.extraArgs": [""]}, "spec.engine.extraArgs[0]", "must not be empty"
    ),
    refused(
        "owned-variable",
        {"spec.engine.env": [{"name": "SPECFLEET_POOL", "value": "x"}]},
        "spec.engine.env[0].name",
        "belong to specfleet",
    ),
    refused(
        "variable-with-a-dash",
        {"spec.engine.env": [{"name": "MY-NAME", "value": "x"}]},
        "spec.engine.env[0].name",
        "letters, digits and '_'",
    ),
    malformed(
        "variable-twice",
        {"spec.engine.env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
        "spec.engine.env",
        "more than once",
    ),
    refused(
        "variable-without-value", {"spec.engine.env": [{"name": "A"}]}, "spec.engine.env[0]", "exactly one of"
    ),
    refused(
        "variable-from-two-places",
        {
            "spec.engine.env": [
                {
                    "name": "A",
                    "valueFrom": {
                        "secretKeyRef": {"name": "a", "key": "b"},
                        "configMapKeyRef": {"name": "a", "key": "b"},
                    },
                }
            ]
        },
        "spec.engine.env[0].valueFrom",
        "exactly one of secretKeyRef",
    ),
    refused(
        "secret-of-another-namespace",
        {"spec.engine.env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "other/a", "key": "b"}}}]},
        "spec.engine.env[0].valueFrom.secretKeyRef.name",
        "object in this namespace",
    ),
    refused(
        "key-with-a-slash",
        {"spec.engine.env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b/c"}}}]},
        "spec.engine.env[0].valueFrom.secretKeyRef.key",
        "must be a key",
    ),
    refused(
        "simulated-block-for-builtin",
        {"spec.engine.simulated": {}},
        "spec.engine.simulated",
        "only for engine.type",
    ),
    refused(
        "dtype-for-simulated", SIMULATED | {"spec.engine.dtype": "float32"}, "spec.engine.dtype", "no meaning"
    ),
    refused(
        "kv-cache-in-mib-for-simulated",
        SIMULATED | {"spec.engine.kvCacheMib": 512},
        "spec.engine.kvCacheMib",
        "use engine.simulated.kvCacheTokens",
    ),
    malformed("no-kv-cache", {"spec.engine.kvCacheMib": 0}, "spec.engine.kvCacheMib", "must be at least 1"),
    refused(
        "cache-smaller-than-a-sequence",
        SIMULATED | {"spec.engine.simulated": {"kvCacheTokens": 1024}},
        "spec.engine.simulated.kvCacheTokens",
        "at least maxModelLen",
    ),
    malformed(
        "acceptance-above-100",
        SIMULATED | {"spec.engine.simulated": {"freeAcceptancePercent": 101}},
        "spec.engine.simulated.freeAcceptancePercent",
        "must be at most 100",
    ),
    # speculation
    malformed(
        "unknown-method", {"spec.speculation.method": "dflash"}, "spec.speculation.method", "must be one of"
    ),
    *(
        refused(
            f"{method}-for-{engine.get('spec.engine.type', 'builtin')}",
            engine | {"spec.speculation": {"method": method}},
            "spec.speculation.method",
            "does not serve this method",
        )
        for engine, method in (({}, "mtp"), ({}, "suffix"), (SIMULATED, "suffix"), (SGLANG, "suffix"))
    ),
    *(
        refused(
            f"medusa-for-{engine['spec.engine.type']}",
            engine | {"spec.speculation": {"method": "medusa", "proposer": {"uri": "pvc://heads/v1"}}},
            "spec.speculation.method",
            says,
        )
        for engine, says in (
            (VLLM | {"spec.engine.version": "0.33.0"}, "ended with vllm 0.32"),
            (SGLANG, "does not serve this method"),
        )
    ),
    *(
        refused(
            f"{method}-without-weights",
            {"spec.speculation.method": method},
            "spec.speculation.proposer",
            "write its uri, as hf://org/name",
        )
        for method in METHODS_WITH_WEIGHTS
    ),
    *(
        refused(
            f"weights-for-{method}",
            {"spec.speculation": {"method": method, "proposer": {"uri": "pvc://heads/v1"}}},
            "spec.speculation.proposer",
            "drop the block",
        )
        for method in ("ngram", "none")
    ),
    *(
        refused(
            f"{method}-for-simulated",
            SIMULATED | {"spec.speculation": {"method": method, "proposer": {"uri": "pvc://heads/v1"}}},
            "spec.speculation.method",
            "write method ngram or none",
        )
        for method in METHODS_WITH_WEIGHTS
    ),
    malformed(
        "proposer-without-uri",
        {"spec.speculation": {"method": "eagle", "proposer": {}}},
        "spec.speculation.proposer.uri",
        "is required",
    ),
    *(
        refused(
            f"proposer-{kind}",
            {"spec.speculation": {"method": "eagle", "proposer": {"uri": uri}}},
            "spec.speculation.proposer.uri",
            "must be hf://org/name",
        )
        for kind, uri in {
            "of-nowhere": "",
            "of-a-hub-without-a-name": "hf://head",
            "that-climbs": "pvc://c/../x",
        }.items()
    ),
    refused(
        "ngram-block-with-weights",
        {"spec.speculation": {"method": "eagle", "proposer": {"uri": "pvc://heads"}, "ngram": {}}},
        "spec.speculation.ngram",
        "only for method ngram",
    ),
    refused(
        "initial-above-max",
        {"spec.speculation.depth": {"initial": 4, "max": 3}},
        "spec.speculation.depth.initial",
        "must not exceed depth.max",
    ),
    refused(
        "default-initial-above-max",
        {"spec.speculation.depth": {"max": 1}},
        "spec.speculation.depth.initial",
        "default 2",
    ),
    malformed(
        "too-deep", {"spec.speculation.depth": {"max": 17}}, "spec.speculation.depth.max", "at most 16"
    ),
    malformed(
        "negative-depth",
        {"spec.speculation.depth": {"initial": -1}},
        "spec.speculation.depth.initial",
        "at least 0",
    ),
    refused(
        "depth-without-method",
        {"spec.speculation": {"method": "none", "depth": {"initial": 2, "max": 5}}},
        "spec.speculation.depth",
        "method none never drafts",
    ),
    refused(
        "method-without-depth",
        {"spec.speculation.depth": {"initial": 0, "max": 0}},
        "spec.speculation.depth",
        "write method: none",
    ),
    refused(
        "ngram-block-without-ngram",
        {"spec.speculation": {"method": "none", "ngram": {}}},
        "spec.speculation.ngram",
        "only for method ngram",
    ),
    refused(
        "shortest-match-above-longest",
        {"spec.speculation.ngram": {"minMatch": 6}},
        "spec.speculation.ngram.minMatch",
        "must not exceed ngram.maxMatch",
    ),
    # objectives
    *(
        refused(
            f"duration-{kind}", {"spec.objectives.queueDelay": text}, "spec.objectives.queueDelay", DURATION
        )
        for kind, text in {
            "without-unit": "40",
            "in-hours": "1h",
            "of-iso-8601": "PT30S",
            "negative": "-1s",
        }.items()
    ),
    refused(
        "duration-of-zero",
        {"spec.pools.0.objectives.timeToFirstToken": "0ms"},
        f"{POOL}.objectives.timeToFirstToken",
        "longer than zero",
    ),
    malformed(
        "duration-as-number",
        {"spec.objectives.timePerOutputToken": 40},
        "spec.objectives.timePerOutputToken",
        "must be a string",
    ),
    malformed(
        "headroom-in-halves",
        {"spec.objectives.kvHeadroomPercent": 10.5},
        "spec.objectives.kvHeadroomPercent",
        "whole number",
    ),
    # tuning
    malformed("unknown-mode", {"spec.tuning.mode": "Auto"}, "spec.tuning.mode", "must be one of"),
    malformed("paused-as-text", {"spec.tuning.paused": "yes"}, "spec.tuning.paused", "true or false"),
    refused(
        "metrics-address",
        {"spec.tuning.metricsSource": "http://prometheus:9090"},
        "spec.tuning.metricsSource",
        "never an address",
    ),
    malformed("empty-pin", {"spec.tuning.schedule": []}, "spec.tuning.schedule", "must not be empty"),
    refused(
        "closed-pin",
        {"spec.tuning.schedule": [{"maxRequests": 4, "depth": 1}]},
        "spec.tuning.schedule",
        "must be open",
    ),
    *(
        refused(
            f"pin-{kind}", {"spec.pools.0.tuning.schedule": rows}, f"{POOL}.tuning.schedule", "must be sorted"
        )
        for kind, rows in {
            "unsorted": [{"maxRequests": 8, "depth": 2}, {"maxRequests": 4, "depth": 1}, {"depth": 0}],
            "with-a-repeat": [{"maxRequests": 4, "depth": 2}, {"maxRequests": 4, "depth": 1}, {"depth": 0}],
            "open-in-the-middle": [{"depth": 2}, {"maxRequests": 4, "depth": 1}, {"depth": 0}],
            "open-twice": [{"depth": 2}, {"depth": 0}],
        }.items()
    ),
    refused(
        "pin-above-default-max",
        {"spec.tuning.schedule": [{"depth": 6}]},
        "spec.tuning",
        "within speculation.depth.max",
    ),
    refused(
        "pin-above-max",
        {
            "spec.speculation.depth": {"max": 3},
            "spec.tuning.schedule": [{"maxRequests": 1, "depth": 4}, {"depth": 0}],
        },
        "spec.tuning",
        "within speculation.depth.max",
    ),
    refused(
        "pin-of-a-pool-above-max",
        {"spec.pools.0.tuning.schedule": [{"depth": 6}]},
        "spec.pools",
        "within speculation.depth.max",
    ),
    refused(
        "pin-that-drafts-without-method",
        {"spec.speculation.method": "none", "spec.tuning.schedule": [{"depth": 1}]},
        "spec.tuning",
        "0 with method none",
    ),
    # pools
    malformed("no-pools", {"spec.pools": GONE}, "spec.pools", "is required"),
    malformed("empty-pools", {"spec.pools": []}, "spec.pools", "must not be empty"),
    malformed(
        "nine-pools",
        {"spec.pools": [{"name": f"p{index}"} for index in range(9)]},
        "spec.pools",
        "at most 8 entries",
    ),
    malformed("pool-twice", {"spec.pools": [{"name": "a"}, {"name": "a"}]}, "spec.pools", "more than once"),
    malformed("nameless-pool", {"spec.pools": [{"replicas": 1}]}, f"{POOL}.name", "is required"),
    malformed("long-pool-name", {"spec.pools.0.name": "a" * 21}, f"{POOL}.name", "at most 20 characters"),
    *(
        refused(f"pool-name-{kind}", {"spec.pools.0.name": name}, f"{POOL}.name", "must start with")
        for kind, name in {
            "in-capitals": "Chat",
            "with-a-digit-first": "1a",
            "with-a-dash-last": "a-",
        }.items()
    ),
    malformed("negative-replicas", {"spec.pools.0.replicas": -1}, f"{POOL}.replicas", "must be at least 0"),
    # template
    malformed("host-network", _template(hostNetwork=True), f"{TEMPLATE}.hostNetwork", "unknown field"),
    malformed(
        "privileges",
        _template(securityContext={"privileged": True}),
        f"{TEMPLATE}.securityContext",
        "unknown field",
    ),
    malformed(
        "host-path", _volume(hostPath={"path": "/"}), f"{TEMPLATE}.volumes[0].hostPath", "unknown field"
    ),
    malformed(
        "negative-memory",
        _template(resources={"limits": {"memory": "-1Gi"}}),
        f"{TEMPLATE}.resources.limits.memory",
        "must match",
    ),
    malformed(
        "label-value-with-a-space", _template(labels={"team": "a b"}), f"{TEMPLATE}.labels.team", "must match"
    ),
    *(
        refused(
            f"{kind}-of-{owner}",
            _template(**{kind: {key: "x"}}),
            f"{TEMPLATE}.{kind}",
            "must not use the prefixes",
        )
        for kind, owner, key in (
            ("labels", "specfleet", "specfleet.dev/pool"),
            ("labels", "kubernetes", "app.kubernetes.io/name"),
            ("annotations", "specfleet", "specfleet.dev/schedule-version"),
            ("annotations", "apparmor", "container.apparmor.security.beta.kubernetes.io/engine"),
        )
    ),
    refused("volume-without-source", _volume(), f"{TEMPLATE}.volumes[0]", "exactly one source"),
    refused(
        "volume-with-two-sources",
        _volume(emptyDir={}, secret={"secretName": "a"}),
        f"{TEMPLATE}.volumes[0]",
        "exactly one source",
    ),
    refused(
        "owned-volume",
        _template(volumes=[{"name": "schedule", "emptyDir": {}}]),
        f"{TEMPLATE}.volumes[0].name",
        "belong to specfleet",
    ),
    refused(
        "volume-of-the-proposer",
        _template(volumes=[{"name": "proposer", "emptyDir": {}}]),
        f"{TEMPLATE}.volumes[0].name",
        "belong to specfleet",
    ),
    refused(
        "volume-in-capitals",
        _template(volumes=[{"name": "Cache", "emptyDir": {}}]),
        f"{TEMPLATE}.volumes[0].name",
        "lower-case letters",
    ),
    malformed(
        "volume-twice",
        _template(volumes=[{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]),
        f"{TEMPLATE}.volumes",
        "more than once",
    ),
    refused(
        "mount-of-nothing",
        _template(volumeMounts=[{"name": "cache", "mountPath": "/cache"}]),
        f"{TEMPLATE}.volumeMounts",
        "name of one of this template's volumes",
    ),
    *(
        refused(
            f"mount-{kind}",
            _mounted(mountPath=path),
            f"{TEMPLATE}.volumeMounts[0].mountPath",
            "choose another path",
        )
        for kind, path in {
            "over-the-configuration": "/etc/specfleet",
            "over-the-schedule": "/etc/specfleet/schedule",
            "over-etc": "/etc",
            "over-the-models": "/models",
            "over-the-proposer": "/proposer",
            "inside-the-models": "/models/smollm2",
            "over-tmp": "/tmp",
            "over-proc": "/proc",
        }.items()
    ),
    *(
        refused(
            f"mount-{kind}",
            _mounted(mountPath=path),
            f"{TEMPLATE}.volumeMounts[0].mountPath",
            "must be an absolute path",
        )
        for kind, path in {
            "over-the-root": "/",
            "at-a-relative-path": "cache",
            "that-climbs": "/cache/../etc/specfleet",
            "with-a-slash-last": "/models/",
            "with-two-slashes": "//models",
        }.items()
    ),
    refused(
        "sub-path-that-climbs",
        _mounted(subPath="../x"),
        f"{TEMPLATE}.volumeMounts[0].subPath",
        "relative path",
    ),
    malformed(
        "two-mounts-at-one-path",
        _template(
            volumes=[{"name": "a", "emptyDir": {}}],
            volumeMounts=[{"name": "a", "mountPath": "/a"}, {"name": "a", "mountPath": "/a"}],
        ),
        f"{TEMPLATE}.volumeMounts",
        "more than once",
    ),
    refused(
        "toleration-of-a-value-that-need-only-exist",
        _template(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        f"{TEMPLATE}.tolerations[0].value",
        "operator Equal",
    ),
    refused(
        "toleration-without-key",
        _template(tolerations=[{"value": "b"}]),
        f"{TEMPLATE}.tolerations[0]",
        "name the key",
    ),
    refused(
        "toleration-with-a-spaced-key",
        _template(tolerations=[{"key": "a b", "operator": "Exists"}]),
        f"{TEMPLATE}.tolerations[0].key",
        "label key",
    ),
    refused(
        "toleration-for-a-while-without-effect",
        _template(tolerations=[{"key": "a", "tolerationSeconds": 3}]),
        f"{TEMPLATE}.tolerations[0].tolerationSeconds",
        "NoExecute",
    ),
    malformed(
        "spread-without-key",
        _template(topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}]),
        f"{TEMPLATE}.topologySpreadConstraints[0].topologyKey",
        "is required",
    ),
    refused(
        "pull-secret-twice",
        _template(imagePullSecrets=["registry", "mirror", "registry"]),
        f"{TEMPLATE}.imagePullSecrets",
        "more than once",
    ),
    refused(
        "service-account-of-another-namespace",
        _template(serviceAccountName="kube-system/admin"),
        f"{TEMPLATE}.serviceAccountName",
        "must be empty or the name of an object",
    ),
]

CASES = [*ACCEPTED, *REFUSED]
