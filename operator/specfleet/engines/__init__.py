"""What planning must know about each engine: command line, flags that it owns, refusals, timing. Pure."""
