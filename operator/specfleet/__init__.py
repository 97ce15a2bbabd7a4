"""specfleet: fleets of LLM pods that decode speculatively, kept worth their cost."""
