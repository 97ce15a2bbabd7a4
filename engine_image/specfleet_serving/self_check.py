"""The question that the engine asks itself, and what failed steps say about the core.

Asked before the engine says that it is ready, and again after a failed step once no request is left that
would show whether the next one works: a core of which every step fails would otherwise look idle, ready and
alive. Users' requests alone never make a core count as dead: each of them may be the fault itself.
"""

import logging
from collections.abc import Callable

from specfleet_serving.core import Core, Request, Sampling, Step, Tokenizer
from specfleet_serving.metrics import Metrics

__all__ = ["SelfCheck"]

logger = logging.getLogger(__name__)

_NAME = "self-check"
_TEXT = "Hello hello hello hello"
_TOKENS = 8
_STEPS = 64

# One lost step may be the fault of its batch. After the second one new requests go elsewhere.
_LOST_STEPS_IN_DOUBT = 2
# What a core needs may be taken for a moment (memory of a GPU that is shared), so one check proves nothing.
_LOST_CHECKS_TO_DIE = 3


class SelfCheck:
    """How a core does, by what its last steps and its last answers to the engine itself came to.

    Used by the loop's thread; the properties may be read from any. ``step`` runs one step at a depth.
    """

    def __init__(
        self, core: Core, tokenizer: Tokenizer, metrics: Metrics, step: Callable[[int], Step | None]
    ) -> None:
        self._core = core
        self._tokenizer = tokenizer
        self._metrics = metrics
        self._step = step
        self._lost_steps = 0  # since a step last decoded, failed checks included
        self._lost_checks = 0  # in a row

    @property
    def unsure(self) -> bool:
        """Whether a step failed and none has decoded since, so that only the next one will tell."""
        return self._lost_steps > 0

    @property
    def in_doubt(self) -> bool:
        """Whether so many steps failed that new requests had better go elsewhere."""
        return self._lost_steps >= _LOST_STEPS_IN_DOUBT

    @property
    def dead(self) -> bool:
        """Whether the core does not answer the engine itself, again and again."""
        return self._lost_checks >= _LOST_CHECKS_TO_DIE

    def warm_up(self) -> None:
        """Ask before the pod is ready. Raises whatever the core does, and RuntimeError if no token comes.

        At the largest depth: what a proposer cannot do, or what the widest verification takes, must show
        now, not when a schedule first asks for it.
        """
        self._ask(self._core.limits.max_depth)

    def _ask(self, depth: int) -> None:
        """Let the core, which has no requests, generate a few tokens. They are not counted."""
        try:
            tokens = self._generate(depth)
        finally:
            self._core.remove(_NAME)
        if not tokens:
            raise RuntimeError(f"no token in {_STEPS} steps")
        self._metrics.count_load(self._core.load())

    def repeat(self, depth: int) -> bool:
        """Ask after a failed step, and say whether an answer came.

        ``depth`` is the one in force: a proposer that has broken costs no user anything while it rests.
        """
        try:
            self._ask(depth)
        except Exception:
            self._lost_checks += 1
            self.lose_step()
            logger.exception(
                "self-check %d of %d after a failed step: the engine does not answer itself and is not ready",
                self._lost_checks,
                _LOST_CHECKS_TO_DIE,
            )
            if self.dead:
                logger.critical("the engine is dead: every step fails, whoever asks; the process ends")
            return False
        self._recover()
        return True

    def note(self, step: Step) -> None:
        """Take note of a step that did not raise. One that only read prompts proves nothing: a core may fail
        wherever it decodes, and would come out of doubt with each newcomer.
        """
        if step.lost:
            self.lose_step()
        elif step.decoded:
            self._recover()

    def _recover(self) -> None:
        self._lost_steps = self._lost_checks = 0

    def lose_step(self) -> None:
        """Take note of a step that raised, or that left no request with usable numbers."""
        self._lost_steps += 1
        self._metrics.count_failed_step()

    def _generate(self, depth: int) -> int:
        limits = self._core.limits
        context = min(limits.max_model_len, limits.kv_tokens)
        prompt = tuple(self._tokenizer.encode(_TEXT)[: context - _TOKENS])
        self._core.add(Request(_NAME, prompt, Sampling(max_tokens=_TOKENS, temperature=0.0)))
        tokens = drafted = accepted = 0
        for _ in range(_STEPS):
            step = self._step(depth)
            if step and step.lost:
                raise RuntimeError("the model has no usable numbers")
            for sequence in step.sequences if step else ():
                tokens += len(sequence.tokens)
                drafted += sequence.drafted
                accepted += sequence.accepted
            if tokens >= _TOKENS:
                break
        logger.info("self-check tokens=%d drafted=%d accepted=%d", tokens, drafted, accepted)
        return tokens
