"""Published measurements as a test of the tuner: each row of a set is predicted from the others.

`sets` reads a file of measurements, `predict` fits the tuner's own cost model to all loads of a set but one
and asks for the speed of every depth at that one, `score` compares. Pure. Source: design/simulator.md,
section 9, and the schema at the end of reference/validation.md.
"""

from specfleet.published.predict import Prediction, predictions
from specfleet.published.score import figures
from specfleet.published.sets import BadMeasurements, Grid, Point, Unused, grids

__all__ = ["BadMeasurements", "Grid", "Point", "Prediction", "Unused", "figures", "grids", "predictions"]
