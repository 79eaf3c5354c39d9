# Runs examples of database drivers. With the name of one it counts two visits; without, it serves them at $PORT: /visit/<name> in this
# process, with the connections that it has, and /apart/<name>?<variable>=<value> in another one, with other variables.
import importlib, json, os, subprocess, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import parse_qsl, urlsplit

loading = Lock()


def visit(name):
    with loading:
        example = importlib.import_module(name)
    return {'visits': example.count_visit()}


def apart(name, variables):
    ran = subprocess.run(
        [sys.executable, __file__, name], env={**os.environ, **variables}, capture_output=True, text=True, timeout=120
    )
    return {'code': str(ran.returncode), 'stdout': ran.stdout, 'stderr': ran.stderr}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        address = urlsplit(self.path)
        how, _, name = address.path[1:].partition('/')
        try:
            outcome = {'serves': True} if not name else (
                apart(name, dict(parse_qsl(address.query))) if how == 'apart' else visit(name))
        except Exception as error:
            outcome = {'error': f'{type(error).__name__} {error}'}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(outcome).encode())


if len(sys.argv) > 1:
    example = importlib.import_module(sys.argv[1])
    print(json.dumps([example.count_visit(), example.count_visit()]))
else:
    ThreadingHTTPServer(('0.0.0.0', int(os.environ['PORT'])), Handler).serve_forever()
