#!/usr/bin/env python3
"""standin.py - a hub for tests: the protocol of Hugging Face's, on two ports of this machine.

One port is the hub, which knows models and redirects to large files; the other has the bytes, as a
host of another name would. Both keep what was asked of them, so that a test can count bytes and
look for tokens where none should be.

    tests/hub/standin.py FOLDER      serves the folder as the model tiny/model, until it is stopped
"""

import hashlib
import json
import re
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LARGE = 10_000  # from so many bytes on a file is kept beside git


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def entry(name, data, **said):
    """A file as the hub lists it; said replaces members."""
    if len(data) < LARGE:
        made = {"rfilename": name, "size": len(data), "blobId": git_hash(data)}
    else:
        digest = hashlib.sha256(data).hexdigest()
        made = {
            "rfilename": name,
            "size": len(data),
            "blobId": git_hash(b"pointer to " + digest.encode()),
            "lfs": {"sha256": digest, "size": len(data), "pointerSize": 130},
        }
    made.update(said)
    return made


class Model:
    """Files of one commit; revisions are names for it."""

    def __init__(self, files, revisions=("main",), commit=None):
        self.files = dict(files)
        self.listing = [entry(name, data) for name, data in sorted(self.files.items())]
        text = json.dumps(self.listing).encode()
        self.commit = commit or hashlib.sha1(text).hexdigest()
        self.revisions = set(revisions)
        self.token = None  # wanted for files, where the model is gated
        self.private = False  # wanted for all

    def find(self, name):
        return next((e for e in self.listing if e["rfilename"] == name), None)


class Faults:
    """What goes wrong, in the order in which requests come. Each is taken once, but for slow."""

    def __init__(self):
        self.statuses = []  # answered by the hub instead: (status, headers)
        self.file_statuses = []  # the same, by the host of the bytes
        self.cut = []  # the body ends after so many bytes
        self.wrong = []  # a byte of the body is another one, at that place; None: of this one not
        self.no_ranges = False
        self.slow = 0.0  # seconds before each piece
        self.piece = 1 << 16
        self.etag = None  # said instead of the right one
        self.commit = None
        self.size = None
        self.redirect = None  # where the hub sends for bytes: a function of the address
        self.listing = None  # bytes instead of the list


class Request:
    def __init__(self, handler):
        self.path = handler.path
        self.token = handler.headers.get("Authorization")
        self.range = handler.headers.get("Range")
        self.sent = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def setup(self):
        super().setup()
        self.hub = self.server.hub

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True  # who asked has left

    def answer(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.request_kept = Request(self)
        with self.hub.lock:
            self.server.requests.append(self.request_kept)
        try:
            self.serve()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def send_bytes(self, data, headers):
        """A body in pieces, with the faults that are due."""
        faults = self.hub.faults
        first = 0
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.request_kept.range or "")
        if match and not faults.no_ranges:
            first = int(match.group(1))
            if first >= len(data):
                self.answer(416, {"Content-Range": f"bytes */{len(data)}"})
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        rest = bytearray(data[first:])
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if self.command == "HEAD":
            return
        with self.hub.lock:
            end = faults.cut.pop(0) if faults.cut else len(rest)
            at = faults.wrong.pop(0) if faults.wrong else None
            if at is not None:
                rest[at - first] ^= 1
        for at in range(0, min(end, len(rest)), faults.piece):
            if faults.slow:
                time.sleep(faults.slow)
            piece = rest[at : min(at + faults.piece, end)]
            self.wfile.write(piece)
            self.request_kept.sent += len(piece)
        if end < len(rest):
            self.close_connection = True


class FileHandler(Handler):
    """The host of the bytes: /DIGEST."""

    def serve(self):
        faults = self.hub.faults
        with self.hub.lock:
            fault = faults.file_statuses.pop(0) if faults.file_statuses else None
        if fault:
            self.answer(*fault)
            return
        data = self.hub.blobs.get(self.path.split("?")[0].strip("/"))
        if data is None:
            self.answer(404)
        else:
            self.send_bytes(data, {"ETag": '"of-the-host"'})


class HubHandler(Handler):
    def refuse(self, status, code):
        self.answer(status, {"X-Error-Code": code, "X-Error-Message": code})

    def serve(self):
        faults = self.hub.faults
        with self.hub.lock:
            fault = faults.statuses.pop(0) if faults.statuses else None
        if fault:
            self.answer(*fault)
            return
        path = urllib.parse.urlsplit(self.path).path
        for form, serve in (
            (r"/api/models/([^/]+/[^/]+)/revision/([^/]+)", self.serve_list),
            (r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", self.serve_tree),
            (r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.serve_file),
        ):
            match = re.fullmatch(form, path)
            if match:
                serve(*map(urllib.parse.unquote, match.groups()))
                return
        self.answer(404)

    def find(self, repo, revision):
        models = self.hub.models.get(repo)
        if models is None:
            self.refuse(404 if self.request_kept.token else 401, "RepoNotFound")
            return None
        model = next((m for m in models if revision == m.commit or revision in m.revisions), None)
        if model is None:
            self.refuse(404, "RevisionNotFound")
        elif model.private and self.request_kept.token != f"Bearer {model.token}":
            self.refuse(401, "RepoNotFound")
            return None
        return model

    def serve_list(self, repo, revision):
        model = self.find(repo, revision)
        if model is None:
            return
        answer = {"id": repo, "modelId": repo, "sha": model.commit, "siblings": model.listing}
        body = self.hub.faults.listing or json.dumps(answer).encode()
        self.answer(200, {"Content-Type": "application/json"}, body)

    def serve_tree(self, repo, revision):
        model = self.find(repo, revision)
        if model is None:
            return
        rows = []
        for e in model.listing:
            row = {"type": "file", "path": e["rfilename"], "size": e["size"], "oid": e["blobId"]}
            if "lfs" in e:
                row["lfs"] = {"oid": e["lfs"]["sha256"], "size": e["size"], "pointerSize": 130}
            rows.append(row)
        self.answer(200, {"Content-Type": "application/json"}, json.dumps(rows).encode())

    def serve_file(self, repo, revision, name):
        model = self.find(repo, revision)
        if model is None:
            return
        if model.token and self.request_kept.token != f"Bearer {model.token}":
            self.refuse(403 if self.request_kept.token else 401, "GatedRepo")
            return
        e = model.find(name)
        if e is None:
            self.refuse(404, "EntryNotFound")
            return
        faults = self.hub.faults
        data = model.files[name]
        headers = {"X-Repo-Commit": faults.commit or model.commit}
        if "lfs" not in e:
            headers["ETag"] = f'"{faults.etag or e["blobId"]}"'
            self.send_bytes(data, headers)
            return
        digest = hashlib.sha256(data).hexdigest()
        with self.hub.lock:
            self.hub.blobs[digest] = data
        address = f"{self.hub.file_address}/{digest}?signature=1"
        headers["X-Linked-Etag"] = f'"{faults.etag or e["lfs"]["sha256"]}"'
        headers["X-Linked-Size"] = str(faults.size or e["size"])
        headers["Location"] = faults.redirect(address) if faults.redirect else address
        self.answer(302, headers)


class Hub:
    """Both ports, in threads. models: "ORG/NAME" -> [Model]."""

    def __init__(self):
        self.lock = threading.Lock()
        self.models = {}
        self.blobs = {}
        self.faults = Faults()
        self.servers = []
        self.address, self.requests = self.listen(HubHandler)
        self.file_address, self.file_requests = self.listen(FileHandler)

    def listen(self, handler):
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        server.hub = self
        server.requests = []
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}", server.requests

    def add(self, repo, files, **more):
        model = Model(files, **more)
        self.models.setdefault(repo, []).append(model)
        return model

    def sent(self):
        """Bytes of files that have left."""
        return sum(r.sent for r in self.requests + self.file_requests)

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()


def read_folder(path):
    return {p.name: p.read_bytes() for p in sorted(Path(path).iterdir()) if p.is_file()}


if __name__ == "__main__":
    served = Hub()
    served.add("tiny/model", read_folder(sys.argv[1]))
    print(f"HF_ENDPOINT={served.address}", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        served.close()
