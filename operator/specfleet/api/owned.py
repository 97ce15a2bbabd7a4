"""What specfleet sets itself in every pod, and what a resource may therefore not name.

Validation refuses these names, engines and planning set them: both read this one list.
"""

# Flags of the engines; refused in engine.extraArgs as `--flag` and as `--flag=value`.
COMMON_FLAGS = (
    "--served-model-name",
    "--host",
    "--port",
    "--schedule-file",
    "--initial-depth",
    "--max-depth",
    "--method",
    "--ngram-min-match",
    "--ngram-max-match",
    "--max-model-len",
    "--max-num-seqs",
    "--drain-seconds",
)
BUILTIN_FLAGS = ("--model", "--dtype", "--proposer")
# Owned only where engine.kvCacheMib is set: it was an argument of the user's own before that field came.
KV_CACHE_FLAG = "--kv-cache-mib"
SIMULATED_FLAGS = (
    "--repetitive-acceptance-percent",
    "--free-acceptance-percent",
    "--step-milliseconds",
    "--knee-tokens",
    "--kv-cache-tokens",
)
# Flags of engines that are not ours: refused there only, with their short forms and in any spelling.
VLLM_FLAGS = (
    "--model",
    "--served-model-name",
    "--host",
    "--port",
    "--dtype",
    "--quantization",
    "--max-model-len",
    "--max-num-seqs",
    "--tensor-parallel-size",
    "--kv-cache-memory-bytes",
    "--shutdown-timeout",
    "--custom-histogram-buckets",
    "--speculative-config",
    "--scheduler-cls",
)
SGLANG_FLAGS = (
    "--model-path",
    "--served-model-name",
    "--host",
    "--port",
    "--dtype",
    "--quantization",
    "--context-length",
    "--max-running-requests",
    "--tp-size",
    "--enable-metrics",
    "--decode-log-interval",
    "--speculative-algorithm",
    "--speculative-draft-model-path",
    "--speculative-num-steps",
    "--speculative-eagle-topk",
    "--speculative-num-draft-tokens",
    "--speculative-adaptive",
    "--speculative-adaptive-config",
    "--speculative-ngram-min-bfs-breadth",
    "--speculative-ngram-max-bfs-breadth",
)
OWNED_FLAGS = (*COMMON_FLAGS, *BUILTIN_FLAGS, *SIMULATED_FLAGS)

# Environment variables of the engine container.
OWNED_ENV_PREFIX = "SPECFLEET_"

# Volumes of the pod, and where they are mounted in the engine container.
SCHEDULE_VOLUME = "schedule"
MODEL_VOLUME = "model"
SCRATCH_VOLUME = "tmp"
PROPOSER_VOLUME = "proposer"
SHARED_MEMORY_VOLUME = "shared-memory"
PLUGIN_VOLUME = "specfleet-plugins"
OWNED_VOLUMES = (
    SCHEDULE_VOLUME,
    MODEL_VOLUME,
    SCRATCH_VOLUME,
    PROPOSER_VOLUME,
    SHARED_MEMORY_VOLUME,
    PLUGIN_VOLUME,
)
CONFIG_PATH = "/etc/specfleet"
SCHEDULE_PATH = f"{CONFIG_PATH}/schedule"
MODELS_PATH = "/models"
PROPOSER_PATH = "/proposer"
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 - a path in the pod
PLUGIN_PATH = "/opt/specfleet-plugins"
SCRATCH_PATH = "/tmp"  # noqa: S108 - a path in the pod
# Where nothing of the user's may be mounted, also further down.
CLOSED_TREES = (CONFIG_PATH, MODELS_PATH, PROPOSER_PATH, PLUGIN_PATH)

# Prefixes of labels and annotations that specfleet writes.
OWNED_PREFIXES = ("specfleet.dev/", "app.kubernetes.io/")
# Would lift the pod's AppArmor profile, which belongs to the security settings that specfleet sets.
REFUSED_ANNOTATION_PREFIXES = (*OWNED_PREFIXES, "container.apparmor.security.beta.kubernetes.io/")
