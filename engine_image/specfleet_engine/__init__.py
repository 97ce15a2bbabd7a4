"""The built-in engine: torch and transformers behind the seam of `specfleet_serving.core`."""
