"""`specfleet`, the command: operator, crds, status, explain."""
