"""A guest book. What is written to the application's folder stays, also over restarts and new versions."""

import html
import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

BOOK = Path(__file__).with_name("guests.json")
LOCK = threading.Lock()
PAGE = Path(__file__).with_name("page.html").read_text()


def guests() -> list[str]:
    return json.loads(BOOK.read_text()) if BOOK.exists() else []


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        names = "".join(f"<li>{html.escape(name)}</li>" for name in guests()) or "<li>Nobody yet. Be the first.</li>"
        body = PAGE.replace("{guests}", names).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        length = min(int(self.headers.get("Content-Length", 0)), 1000)
        name = parse_qs(self.rfile.read(length).decode(errors="replace")).get("name", [""])[0].strip()[:60]
        if name:
            with LOCK:
                BOOK.write_text(json.dumps([*guests(), name][-100:]))
        self.send_response(303)
        self.send_header("Location", "/")
        self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    port = int(os.environ.get("PORT", "8000"))
    print(f"Listening on {port}", flush=True)
    ThreadingHTTPServer(("", port), Handler).serve_forever()
