"""From the intervals of one pass to a new memory. Nothing here decides."""

from dataclasses import replace

from specfleet.tuning.bins import Bin, bin_of
from specfleet.tuning.evidence import Evidence, Usable
from specfleet.tuning.floors import WORST_OF_SECONDS, Pressure, late_first_tokens, queue_is_slow
from specfleet.tuning.interval import Counts, pooled
from specfleet.tuning.jump import MOST_AFTER_JUMP, JumpWatch
from specfleet.tuning.memory import PUSH_HOUR, Memory
from specfleet.tuning.profile import noted
from specfleet.tuning.settings import PoolSettings
from specfleet.tuning.steadiness import HOUR
from specfleet.tuning.survival import Survival
from specfleet.tuning.windows import MIN_STEPS, MOST_CHUNK, Window, beside, prompts_sd, remember

# Acceptance is that of the traffic now, and says nothing about loads of half an hour ago. A jump of it, or of
# the load, starts anew.
LOAD_HALF_LIFE_SECONDS = 300.0
LOAD_CHANGE_SECONDS = 60.0
USUAL_HALF_LIFE_SECONDS = 12 * 3600.0  # hard-off must not forget what another time of the day accepts
PROMPTS_SHARE = 0.1  # of one scrape: prompts differ by a factor of ten
CONTEXT_SHARE = 0.2  # of one scrape, which sees a handful of requests at some point of their life
QUEUE_GONE_SCRAPES = 4


def learn(
    memory: Memory,
    used: Usable,
    evidence: Evidence,
    settings: PoolSettings,
    bins: tuple[Bin, ...],
    now: float,
) -> Memory:
    """Take in one pass with whole data."""
    elapsed = max(0.0, now - memory.seen_at) if memory.seen_at is not None else 0.0
    traffic = used.counts.all_sequence_steps > 0
    memory = replace(
        memory,
        seen_at=now,
        load={i: s * 0.5 ** (elapsed / LOAD_HALF_LIFE_SECONDS) for i, s in memory.load.items()},
        pushes=tuple(at for at in memory.pushes if now - at < PUSH_HOUR),
        spent=tuple(one for one in memory.spent if now - one.at < HOUR),
    )
    memory = _scaled(memory, evidence.replicas, now)
    memory = _pressures(memory, used, settings, now)
    memory = _prompts(_context(memory, used), used.counts)
    loaded = not memory.without or evidence.fingerprints != {memory.without}
    if loaded:
        memory = replace(memory, survival=memory.survival.forgotten(elapsed, traffic))
    if not traffic:
        return memory
    if loaded:
        memory = _load_change(memory, used.counts, now)
        memory = _acceptance(memory, used.counts, now)
        usual = memory.usual.faded(elapsed, USUAL_HALF_LIFE_SECONDS).plus(used.counts)
        memory = replace(memory, usual=usual)
    memory = _windows(memory, used, bins, loaded, now)
    return replace(memory, profile=noted(memory.profile, used, loaded, now))


def _scaled(memory: Memory, replicas: int | None, now: float) -> Memory:
    """Note when the number of pods changes. A pool that starts, or wakes from nothing, was not scaled."""
    if replicas is None or replicas == memory.replicas:
        return memory
    return replace(memory, replicas=replicas, scaled_at=now if memory.replicas and replicas else None)


def _context(memory: Memory, used: Usable) -> Memory:
    """Follow the mean context of requests: gauges of one scrape, summed over pods first."""
    seen = [(i.cached_tokens, i.running) for i in used.learning]
    known = [(tokens, running) for tokens, running in seen if tokens is not None and running]
    if not known:
        return memory
    context = sum(tokens for tokens, _ in known) / sum(running for _, running in known)
    before = memory.context if memory.context is not None else context
    return replace(memory, context=before + CONTEXT_SHARE * (context - before))


def _prompts(memory: Memory, counts: Counts) -> Memory:
    """Follow how many prompt tokens are read for a generated one, and at once."""
    if counts.prompt_tokens is None or not counts.generation_tokens:
        return memory
    rho = _followed(memory.rho, counts.read_prompt_tokens / counts.generation_tokens)
    chunk = _chunk(counts)
    return replace(memory, rho=rho, chunk=_followed(memory.chunk, chunk) if chunk else memory.chunk)


def _followed(before: float | None, now: float) -> float:
    return now if before is None else before + PROMPTS_SHARE * (now - before)


def _chunk(counts: Counts) -> float | None:
    """Give the prompt tokens of a step that reads some: a whole prompt, if the engine's budget is enough."""
    if not counts.read_prompt_tokens or not counts.first_tokens:
        return None
    return min(MOST_CHUNK, max(1.0, counts.read_prompt_tokens / counts.first_tokens))


def _load_change(memory: Memory, counts: Counts, now: float) -> Memory:
    """Another load is other traffic: what one user's text accepted says nothing about a crowd's."""
    batch = _batch(counts)
    usual = memory.usual_batch
    if batch is None or usual is None:
        return replace(memory, usual_batch=usual or batch)
    calm = now - (memory.jumped_at or 0.0) >= LOAD_CHANGE_SECONDS
    if calm and memory.load_is_new and replace(memory, batch=batch).load_is_new:
        return replace(
            memory, survival=Survival(), jump=JumpWatch(), jumped_at=now, load={}, usual_batch=batch
        )
    return memory


def _batch(counts: Counts) -> float | None:
    return counts.all_sequence_steps / counts.all_steps if counts.all_steps > 0 else None


def _acceptance(memory: Memory, counts: Counts, now: float) -> Memory:
    fresh = Survival().plus(counts)
    reached = sum(n for depth, n in counts.sequence_steps.items() if depth > 0)
    watch, jumped = memory.jump.after(counts.accepted_positions.get(1, 0.0), reached)
    if jumped:
        fresh = fresh.limited(MOST_AFTER_JUMP)
        return replace(memory, survival=fresh, jump=watch, jumped_at=now, load={}, usual_batch=_batch(counts))
    return replace(memory, survival=memory.survival.plus(counts), jump=watch)


def _windows(memory: Memory, used: Usable, bins: tuple[Bin, ...], loaded: bool, now: float) -> Memory:
    counts = used.timed
    windows, load, probe = memory.windows, dict(memory.load), memory.probe
    for depth, steps in counts.steps.items():
        sequences, seconds = counts.sequence_steps.get(depth, 0.0), counts.step_seconds.get(depth, 0.0)
        if steps < MIN_STEPS or sequences < steps or seconds <= 0.0:
            continue
        batch = sequences / steps
        window = Window(
            at=now,
            depth=depth,
            batch=batch,
            tokens=batch * (1.0 + _drafts(counts, depth)),
            seconds=seconds / steps,
            steps=steps,
            cached=batch * (memory.context or 0.0),
            prompts=counts.read_prompt_tokens / counts.all_steps * beside(batch),
            chunk=_chunk(counts) or memory.chunk or MOST_CHUNK,
            loaded=loaded,
            prompts_sd=prompts_sd(steps / counts.all_steps * beside(batch), counts.first_tokens or 0.0),
        )
        windows = remember(windows, window)
        index = bin_of(batch, bins)
        load[index] = load.get(index, 0.0) + seconds
        if probe is not None and depth == probe.depth:
            probe = replace(probe, steps=probe.steps + steps)
    running = _batch(used.counts) or memory.batch
    return replace(memory, windows=windows, load=load, probe=probe, batch=running)


def _drafts(counts: Counts, depth: int) -> float:
    """Drafted tokens of one sequence in one step at a depth, as far as this interval tells."""
    total = 0.0
    for position in range(1, depth + 1):
        reached = sum(n for deeper, n in counts.sequence_steps.items() if deeper >= position)
        total += min(1.0, counts.draft_positions.get(position, 0.0) / reached) if reached > 0 else 0.0
    return total


def _pressures(memory: Memory, used: Usable, settings: PoolSettings, now: float) -> Memory:
    usages = [interval.kv_usage for interval in used.intervals if interval.kv_usage is not None]
    waiting = sum(interval.waiting or 0.0 for interval in used.intervals)
    if not used.intervals:
        return memory
    counts = [interval.counts for interval in used.intervals]
    limit = settings.objectives.time_to_first_token_seconds
    buckets = pooled(counts).first_token_buckets
    first_tokens, late = (0.0, 0.0) if limit is None else late_first_tokens(buckets, limit)
    pressure = Pressure(
        at=now,
        headroom=1.0 - max(usages) if usages else None,
        preemptions=sum(one.preemptions or 0.0 for one in counts),
        batch=_batch(used.counts) or memory.batch or 1.0,
        first_tokens=first_tokens,
        late=late,
    )
    queued = sum(one.queued_requests or 0.0 for one in counts)
    delay = sum(one.queue_seconds or 0.0 for one in counts) / queued if queued > 0 else None
    rate = sum((i.counts.completions or 0.0) / i.seconds for i in used.intervals)
    slow = queue_is_slow(settings.objectives, delay, waiting, rate)
    recent = tuple(one for one in memory.pressures if now - one.at < WORST_OF_SECONDS)
    # Requests that end together empty the queue for a moment; it is gone when none waits for some scrapes.
    seen = now if waiting > 0 else memory.queue_seen_at
    gone = seen is None or now - seen > QUEUE_GONE_SCRAPES * settings.scrape_seconds
    return replace(
        memory,
        pressures=(*recent, pressure),
        queue_since=None if gone else (memory.queue_since or now),
        queue_seen_at=seen,
        slow_passes=memory.slow_passes + 1 if slow else 0,
    )


def forget(memory: Memory, fingerprint: str) -> Memory:
    """Start a new baseline: another model, engine or hardware makes every measurement void."""
    return Memory(
        fingerprint=fingerprint,
        pushes=memory.pushes,
        replicas=memory.replicas,
        scaled_at=memory.scaled_at,
        spent=memory.spent,
        probe=memory.probe,
        written_at=memory.written_at,
        jump=JumpWatch(),
        unloaded=memory.unloaded,
        last_pause=memory.last_pause,
        tried_at=memory.tried_at,
        restore=memory.restore,
    )
