"""Certificates for tests: an authority, and whoever it signs."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PEM = serialization.Encoding.PEM


class Authority:
    """Signs certificates; `ca.pem` in its folder is its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
        self.pem = self._write("ca", self._name, self._key, is_authority=True)

    def issue(self, name: str, *hosts: str) -> tuple[Path, Path]:
        """Return the certificate and the key of `name`, as files: for 127.0.0.1 and `hosts`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        private = self.folder / f"{name}.key"
        plain = serialization.PrivateFormat.PKCS8
        private.write_bytes(key.private_bytes(PEM, plain, serialization.NoEncryption()))
        return self._write(name, subject, key, *hosts, is_authority=False), private

    def _write(
        self,
        name: str,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *hosts: str,
        is_authority: bool,
    ) -> Path:
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName(
                    [
                        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
                        *map(x509.DNSName, hosts),
                    ]
                ),
                critical=False,
            )
            .add_extension(_usage(is_authority), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        path = self.folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(PEM))
        return path


def _usage(is_authority: bool) -> x509.KeyUsage:
    """What a key is for: asked for by the strict checks of newer Pythons."""
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
