"""Where ports meet pure code: kopf wiring, reconcile, the tuning pass, and the process itself."""
