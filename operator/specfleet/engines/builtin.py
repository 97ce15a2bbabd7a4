"""The built-in engine (`specfleet_engine`): torch and transformers, depth follows the schedule file."""

from specfleet.api.owned import BUILTIN_FLAGS, COMMON_FLAGS, KV_CACHE_FLAG
from specfleet.api.resource import Spec
from specfleet.engines.engine import Actuation, ModelPaths, Refusal, Runtime, Timing
from specfleet.engines.flags import common_arguments, own_runtime, owned_flag_refusals


class BuiltinEngine:
    """Arguments, limits and timing of the built-in engine."""

    name = "builtin"
    owned_flags = (*COMMON_FLAGS, *BUILTIN_FLAGS)
    # preparation: imports, the compiled layer and a warm-up; seconds on a machine that does nothing else.
    # pre_stop: time for the pod to leave its Services (recipe of kserve/kserve#5496).
    # drain: 2048 tokens at 50 ms take 102 s.
    timing = Timing(preparation=300, pre_stop=15, drain=120, teardown=15)

    def actuation(self, spec: Spec) -> Actuation:
        return Actuation("live")

    def devices(self, spec: Spec) -> int:
        return 1

    def runtime(self, spec: Spec) -> Runtime:
        return own_runtime("specfleet_engine")

    def refusals(self, spec: Spec) -> tuple[Refusal, ...]:
        cache = () if spec.engine.kv_cache_mib is None else (KV_CACHE_FLAG,)
        return owned_flag_refusals((*self.owned_flags, *cache), spec.engine.extra_args)

    def arguments(
        self, spec: Spec, *, served_name: str, paths: ModelPaths, schedule_file: str
    ) -> tuple[str, ...]:
        if paths.model is None:
            raise ValueError("engine builtin needs model.uri")
        cache = spec.engine.kv_cache_mib
        return (
            *("--model", paths.model),
            *common_arguments(spec, self.timing, served_name=served_name, schedule_file=schedule_file),
            *("--dtype", spec.engine.dtype),
            # Left out where the spec leaves them out: an argument that comes with an upgrade would roll pods.
            *(() if paths.proposer is None else ("--proposer", paths.proposer)),
            *(() if cache is None else (KV_CACHE_FLAG, str(cache))),
        )
