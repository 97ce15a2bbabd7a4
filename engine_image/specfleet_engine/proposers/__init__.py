"""What drafts: one small interface, and a module for each proposer behind it.

A proposer reads the verified tokens of a sequence, and the features of the target that it asks for, and
guesses what comes next. It never decides what is emitted: a wrong guess costs time, not text.
"""

from specfleet_engine.proposers.proposer import Draft, Needs, Proposer

__all__ = ["Draft", "Needs", "Proposer"]
