"""A web server on loopback that knows ranges and can break off, and archives made in memory."""

import io
import re
import socket
import tarfile
import threading
import zipfile
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Serves `files` {path: bytes}; the next answers end after `cuts` bytes, the last one for good."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files, self.cuts, self.asked = {}, [], []
        self.ranges = self.lengths = True
        self.start = None
        """Where every range begins, whatever was asked for."""

    def handle_error(self, request, client_address):
        """Clients may leave early."""

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def add(self, path, content):
        """Serve the content under the path; return its address."""
        self.files[f"/{path}"] = content
        return self.url(path)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        content, wanted = self.server.files.get(self.path), self.headers["Range"]
        self.server.asked.append((self.path, wanted))
        if content is None:
            self.send_error(404)
            return
        tag, start = f'"{sha256(content).hexdigest()}"', 0
        if wanted and self.server.ranges and self.headers["If-Range"] == tag:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if self.server.start is None else self.server.start
            self.send_response(206 if start < len(content) else 416)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if self.server.lengths:
            self.send_header("Content-Length", str(len(content[start:])))
        self.send_header("ETag", tag)
        self.end_headers()
        cuts = self.server.cuts
        self.wfile.write(content[start:][: cuts.pop(0) if cuts else None])

    def log_message(self, *args):
        """Keep quiet."""


@contextmanager
def serving():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def zipped(entries):
    """A zip of {name: bytes}; a name may be a ZipInfo."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return stream.getvalue()


def tarred(entries, mode="w:gz"):
    """A tar of {name: bytes, or a TarInfo without bytes}, or of such pairs."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as file:
        for name, content in entries.items() if isinstance(entries, dict) else entries:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.name = name
            if isinstance(content, bytes):
                info.size = len(content)
            file.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return stream.getvalue()


def tree(folder):
    """{path: bytes} of every file below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def unused():
    """An address of loopback where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}/birds.zip"
