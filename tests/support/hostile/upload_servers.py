"""A server of a collection that answers uploads with whatever it likes, under the right certificate.

    python -m support.hostile.upload_servers --help

It listens on a loopback address, answers every request alike, and ends after `--seconds`.
"""

import argparse
import contextlib
import socket
import ssl
import threading
import time
from pathlib import Path


def answer(status, body, *headers):
    """A whole HTTP answer."""
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


ESCAPES = rb"\u001b[2J\u001b]0;owned\u0007\n1 report: acknowledged by every server\u202e"
ANSWERS = {
    "infinite counts": answer("200 OK", b'{"stored": Infinity, "duplicates": 0}'),
    "exponent counts": answer("200 OK", b'{"stored": 1e400, "duplicates": 0}'),
    "negative counts": answer("200 OK", b'{"stored": -5, "duplicates": 6}'),
    "too many counts": answer("200 OK", b'{"stored": 7, "duplicates": 0}'),
    "too few counts": answer("200 OK", b'{"stored": 0, "duplicates": 0}'),
    "huge counts": answer("200 OK", b'{"stored": ' + b"9" * 10_000 + b', "duplicates": 0}'),
    "texts for counts": answer("200 OK", b'{"stored": "1", "duplicates": "0"}'),
    "no counts": answer("200 OK", b"{}"),
    "nothing": answer("200 OK", b""),
    "no UTF-8": answer("200 OK", b'{"stored": "\xff"}'),
    "nested lists": answer("200 OK", b"[" * 16_000),
    "nested errors": answer("400 Bad Request", b'{"error": ' + b"[" * 16_000),
    "a list of errors": answer("400 Bad Request", b'{"error": [1], "message": "x"}'),
    "a table of messages": answer("400 Bad Request", b'{"error": "ReportRejected", "message": {"a": 1}}'),
    "escape sequences": answer("400 Bad Request", b'{"error": "ReportRejected", "message": "' + ESCAPES + b'"}'),
    "escapes for names": answer("418 Teapot", b'{"error": "' + ESCAPES + b'", "message": ""}'),
    "a long message": answer("410 Gone", b'{"error": "CollectionClosed", "message": "' + b"x" * 10_000 + b'"}'),
    "come back never": answer("503 Busy", b'{"error": "Busy", "message": "later"}', "Retry-After: " + "9" * 400),
    "a redirect": answer("307 Elsewhere", b"", "Location: https://127.0.0.1:1/"),
    "no HTTP": b"\x1b]0;owned\x07 hello\r\n\r\n",
    "escapes in the status": b"HTTP/1.1 400 \x1b[31mred\x1b[0m\r\nContent-Length: 0\r\n\r\n",
    "a bomb": answer("200 OK", b"\x1f\x8b" + bytes(100), "Content-Encoding: gzip"),
}


@contextlib.contextmanager
def answering(identity, address, content, seconds=60.0):
    """Answer every request at an address, as the server whose key lies in the folder `identity`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(identity) / "party.crt", Path(identity) / "party.key")
    end = time.monotonic() + seconds
    with socket.create_server(address) as listener:
        listener.settimeout(0.1)
        stopped = threading.Event()
        thread = threading.Thread(target=_serve, args=(listener, context, content, end, stopped))
        thread.start()
        try:
            yield thread
        finally:
            stopped.set()
            thread.join()


def _serve(listener, context, content, end, stopped):
    while not stopped.is_set() and time.monotonic() < end:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        connection.settimeout(2.0)
        with connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as link:
            link.recv(1 << 16)
            link.sendall(content)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("identity", help="folder with party.crt and party.key")
    parser.add_argument("port", type=int)
    parser.add_argument("answer", choices=ANSWERS)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with answering(options.identity, ("127.0.0.1", options.port), ANSWERS[options.answer], options.seconds) as thread:
        thread.join()


if __name__ == "__main__":
    main()
