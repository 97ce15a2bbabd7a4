"""What planning must know about each engine: arguments, probes, refusals, metric names. Pure."""
