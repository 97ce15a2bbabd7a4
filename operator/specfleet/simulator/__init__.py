"""A fleet in numbers, to judge policies in: the operator's tuner runs here as it runs in a cluster.

Every step of every engine is simulated (compiled, `steps`), with terms that the tuner's model lacks. A policy
sees none of it: pods show pages in Prometheus' text format, a `SimulatedPrometheus` stores their scrapes, the
real `telemetry` differences the answers, and a policy gets what `tuning.decide` gets. What it pushes reaches
the pods as a schedule file, seconds later. Source: design/simulator.md.

How a scenario is described and run::

    from specfleet.simulator.policy import Policy
    from specfleet.simulator.run import simulate
    from specfleet.simulator.scenario import Fault, Scenario, Slice, Telemetry
    from specfleet.simulator.traffic import Traffic
    from specfleet.api.schedule import flat
    from specfleet.tuning.decide import decide

    overload = Scenario("overload", traffic=Traffic(peak=1.25), faults=(Fault("outage", 3600, 900),))
    run = simulate(overload, Policy("ours", flat(2), lambda: decide), seed=121)

Canaries and controls are further slices: ``Slice("control", 1, loaded=False)`` or
``Slice("canary", 1, table=flat(2), slower=1.1)``; a slice with a table of its own is not the policy's.

A `Run` holds the requests (arrival, first token, end, in seconds of the run; NaN: never), a trace of every
engine with a row a second, each pass with what telemetry read (`Readings`, intervals of all slices) and what
was decided, and the schedules that were written. The same scenario, policy and seed give the same run.
"""
