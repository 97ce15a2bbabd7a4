"""What holds for every test."""

from hypothesis import settings

# The same examples in each run, so that a run says something about the change and not about the draw.
# `pytest --hypothesis-profile=default` draws others.
settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")
