"""What holds for every test."""

from hypothesis import HealthCheck, settings

# The same examples in each run, so that a run says something about the change and not about the draw.
# `pytest --hypothesis-profile=default` draws others. Nothing is timed: in a clean checkout the first text
# that is drawn takes seconds on a busy machine.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")
