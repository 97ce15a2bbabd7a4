"""`make evaluate`: every policy in every scenario over held-out seeds, as one table, figures and pictures.

`plan` names the cells (scenario, policy, seed), `cells` runs those that are not on disk yet, `score` turns a
run into numbers, `figures` holds them against the targets, `report` and `pictures` show them. Sources:
design/simulator.md, sections 7 to 9.
"""
