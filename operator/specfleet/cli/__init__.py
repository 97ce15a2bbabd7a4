"""`specfleet`, the command: operator, crds, validate."""
