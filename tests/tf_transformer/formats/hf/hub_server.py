"""A server on loopback that speaks what downloads use of the Hugging Face Hub's protocol."""

import contextlib
import hashlib
import http.server
import json
import pathlib
import re
import threading
from collections.abc import Iterator

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_FILE = re.compile(r"/(?P<repository>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<name>.+)")
_MODEL = re.compile(r"/api/models/(?P<repository>[^/]+/[^/]+?)(/revision/(?P<revision>[^?]+))?")


class Hub:
    """The state of the server.

    Attributes:
        repositories: the folder of each repository.
        revisions: names of the only commit.
        gated: repositories that need the token "secret".
        cut: name of a file and the bytes of it that are sent before the connection breaks, once.
        listed: further names in the listing of files.
        sent: for each GET of a file its name and the first byte that was asked for.
    """

    def __init__(self):
        self.repositories: dict[str, pathlib.Path] = {}
        self.revisions = {"main", "v1", COMMIT}
        self.gated: set[str] = set()
        self.cut: tuple[str, int] | None = None
        self.listed: list[str] = []
        self.sent: list[tuple[str, int]] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self._answer(with_body=False)

    def do_GET(self):
        self._answer(with_body=True)

    def _answer(self, with_body):
        path = self.path.partition("?")[0]
        match = _FILE.fullmatch(path) or _MODEL.fullmatch(path)
        if match is None:
            return self._refuse(404, "EntryNotFound")
        hub, repository = self.hub, match["repository"]
        if repository not in hub.repositories:
            return self._refuse(404, "RepoNotFound")
        if repository in hub.gated and self.headers.get("Authorization") != "Bearer secret":
            return self._refuse(403, "GatedRepo")
        if (match["revision"] or "main") not in hub.revisions:
            return self._refuse(404, "RevisionNotFound")
        folder = hub.repositories[repository]
        if "name" in match.groupdict():
            return self._send_file(folder / match["name"], with_body)
        names = [file.name for file in folder.iterdir()] + hub.listed
        siblings = [{"rfilename": name} for name in names]
        model = {"_id": "1", "id": repository, "sha": COMMIT, "siblings": siblings}
        return self._send(200, json.dumps(model).encode(), with_body, {})

    def _send_file(self, path, with_body):
        if not path.is_file():
            return self._refuse(404, "EntryNotFound")
        content = path.read_bytes()
        headers = {
            "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
            "X-Repo-Commit": COMMIT,
            "Accept-Ranges": "bytes",
        }
        if not with_body:
            return self._send(200, content, False, headers)
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(match[1]) if match else 0
        self.hub.sent.append((path.name, start))
        if match:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self._send(206 if match else 200, content[start:], True, headers, path.name)

    def _send(self, status, content, with_body, headers, name=None):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not with_body:
            return
        if self.hub.cut and self.hub.cut[0] == name:
            content, self.hub.cut = content[: self.hub.cut[1]], None
            self.close_connection = True
        self.wfile.write(content)

    def _refuse(self, status, code):
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", f"{code} of the server")
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextlib.contextmanager
def serve() -> Iterator[tuple[Hub, str]]:
    """Yields the state of a running server, and its address."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
