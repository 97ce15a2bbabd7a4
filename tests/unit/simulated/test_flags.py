"""The command line of the simulated engine, and with it the flags that all engines share."""

import pytest

from specfleet_simulated.__main__ import main


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param(("--max-depth", "3"), "needs a proposer", id="depth-without-a-proposer"),
        pytest.param(
            ("--method", "ngram", "--max-depth", "3", "--initial-depth", "4"),
            "above --max-depth",
            id="initial",
        ),
        pytest.param(("--ngram-min-match", "6"), "above --ngram-max-match", id="match-lengths"),
        pytest.param(("--max-depth", "17"), "within 0..16", id="too-deep"),
        pytest.param(("--free-acceptance-percent", "101"), "within 0..100", id="percent"),
        pytest.param(("--step-milliseconds", "0"), "above 0", id="no-time"),
        pytest.param(("--model", "/m"), "unrecognized arguments", id="a-model"),
    ],
)
def test_flags_that_cannot_be_are_refused_with_a_reason(
    flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--served-model-name", "m", *flags])

    assert end.value.code == 2
    assert message in capsys.readouterr().err
