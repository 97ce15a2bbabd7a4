"""The fixed queries: one for each family of engines, for all pools together, never one per pool.

Each is a range selector, sent as an instant query, so that the answer is raw samples with their own time
stamps (trap P3). Names come from the dictionaries of engines, whole: a pattern such as ``spec_decode.*``
would sum ``_created`` twins in. Source: design/tuning.md, sections 3.1 and 3.2. Query B (shares of buckets)
is not among them: the only buckets that a rule or status reads, those of the first token, come along.
"""

from collections.abc import Iterable, Sequence

from specfleet.engines.metrics import MetricDictionary

WINDOW_SCRAPES = 3


def fleet_query(
    dictionaries: Iterable[MetricDictionary],
    scope: str,
    scrape_seconds: float,
    namespaces: Sequence[str] = (),
) -> str:
    """Write the query of one family. ``scope`` is a label matcher, or empty; no ``namespaces``: all."""
    names = dict.fromkeys(name for dictionary in dictionaries for name in dictionary.series)
    matchers = [f'__name__=~"{"|".join(names)}"']
    if scope:
        matchers.append(scope)
    if namespaces:
        matchers.append(f'namespace=~"{"|".join(namespaces)}"')
    return f"{{{','.join(matchers)}}}[{round(WINDOW_SCRAPES * scrape_seconds)}s]"
