"""The certificate of a metrics source: trusted by the authority that is configured and by no other."""

import ssl
import subprocess
from pathlib import Path

import pytest
from tests.integration.telemetry.test_prometheus_source import a_source, an_answer, answering

from specfleet.telemetry import errors


def a_certificate(folder: Path, address: str = "127.0.0.1") -> Path:
    """Make a certificate that is its own authority, valid for a day; its key is ``key.pem`` beside it."""
    folder.mkdir()
    certificate = folder / "ca.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=prometheus", "-addext", f"subjectAltName=IP:{address}"),
            *("-keyout", str(folder / "key.pem"), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate


def serving(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    return context


async def test_a_source_is_asked_when_the_configured_authority_signed_its_certificate(tmp_path: Path) -> None:
    certificate = a_certificate(tmp_path / "own")

    async with a_source(answering(an_answer), tls=serving(certificate), ca_file=str(certificate)) as source:
        assert await source.query("up[45s]", at=1.0) == []


async def test_another_authority_makes_the_source_untrusted(tmp_path: Path) -> None:
    tls = serving(a_certificate(tmp_path / "own"))
    other = a_certificate(tmp_path / "other")

    async with a_source(answering(an_answer), tls=tls, ca_file=str(other)) as source:
        with pytest.raises(errors.SourceUnavailable, match="not trusted: check its caFile"):
            await source.query("up[45s]", at=1.0)


async def test_without_an_authority_only_public_ones_count(tmp_path: Path) -> None:
    tls = serving(a_certificate(tmp_path / "own"))

    async with a_source(answering(an_answer), tls=tls) as source:
        with pytest.raises(errors.SourceUnavailable, match="not trusted: check its caFile"):
            await source.query("up[45s]", at=1.0)


async def test_a_certificate_for_another_address_is_not_trusted(tmp_path: Path) -> None:
    certificate = a_certificate(tmp_path / "own", address="192.0.2.1")

    async with a_source(answering(an_answer), tls=serving(certificate), ca_file=str(certificate)) as source:
        with pytest.raises(errors.SourceUnavailable, match="not trusted: check its caFile"):
            await source.query("up[45s]", at=1.0)
