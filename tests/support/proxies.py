"""nginx and Caddy before a door, as the files in docs/deploy/ say, on loopback, by a certificate of the test."""

import contextlib
import datetime
import ipaddress
import os
import re
import resource
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.waiting import wait_for

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
PROGRAMS = {name: shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin") for name in ("nginx", "caddy")}
SOCKET = "/run/dpmpc/survey/web.sock"


def write_web_certificate(folder):
    """Write a certificate for localhost and loopback addresses that signs itself: web.crt, web.key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "web.crt").write_bytes(certificate.public_bytes(pem))
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "web.key").write_bytes(plain)


def configuration(program, folder, port, door):
    """Return the file of docs/deploy/ with another port, names, and the paths of a test; all else is as it is there."""
    if program == "nginx":
        text = (DEPLOY / "nginx.conf").read_text()
        user = " user root;" if os.geteuid() == 0 else ""
        changes = [
            (r"listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
            (r"listen \[::\]:443 ssl http2;\n", "\n"),
            (r"server_name a.example", "server_name localhost"),
            (r"/etc/letsencrypt/live/a.example/fullchain.pem", str(folder / "web.crt")),
            (r"/etc/letsencrypt/live/a.example/privkey.pem", str(folder / "web.key")),
            (r"http \{", "http {" + "".join(f" {kind}_temp_path {folder}/{kind};" for kind in TEMPORARY)),
            (r"events \{", f"pid {folder}/nginx.pid; daemon off;{user} error_log {folder}/proxy.log;\nevents {{"),
        ]
    else:
        text = (DEPLOY / "Caddyfile").read_text()
        changes = [
            (r"a\.example \{", f"https://localhost:{port}, https://127.0.0.1:{port} {{\n\tbind 127.0.0.1"),
            (
                r"admin off",
                f"admin off\n\tauto_https disable_redirects\n\tlog {{\n\toutput file {folder}/proxy.log\n\t}}",
            ),
            (r"tls \{", f"tls {folder}/web.crt {folder}/web.key {{"),
        ]
    for pattern, replacement in [*changes, (re.escape(SOCKET), str(door))]:
        text, count = re.subn(pattern, lambda _, new=replacement: new, text)
        assert count == 1, pattern
    return text


TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@contextlib.contextmanager
def before(program, folder, port, door):
    """Run a proxy before the door at a path; yield its process."""
    folder.mkdir()
    write_web_certificate(folder)
    file = folder / ("nginx.conf" if program == "nginx" else "Caddyfile")
    file.write_text(configuration(program, folder, port, door))
    start = [PROGRAMS[program], "-p", str(folder), "-c", str(file)]
    if program == "caddy":
        start = [PROGRAMS[program], "run", "--config", str(file)]
    homes = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(start, stdout=output, stderr=output, env={**os.environ, **homes})
    try:
        wait_for(lambda: process.poll() is not None or listens(port), "the proxy", 30)
        assert process.poll() is None, (folder / "output").read_text()
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def trusting(folder):
    """Return a context that trusts the web certificate of a folder."""
    return ssl.create_default_context(cafile=folder / "web.crt")


def room_for_files(count):
    """Return how many connections this process may open, up to a number."""
    return min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)
