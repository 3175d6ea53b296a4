"""An inference server that a prompt can kill, or that lets a prompt kill its caller.

A request whose prompt holds the word `deadly` is answered by nobody: with --kills FILE the process
whose id is in the file gets SIGKILL, otherwise this server itself ends at once. Every call is a line
of the log before anything else happens: {"key", "at"}; the key is the prompt's last word.
"""
import argparse
import http.server
import json
import os
import signal
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--log", required=True)
parser.add_argument("--latency", type=float, default=0.02)
parser.add_argument("--kills", help="file with the id of the process to kill")
options = parser.parse_args()
log = open(options.log, "a", buffering=1)
log_lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def reply(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply({"object": "list", "data": [{"id": "m", "object": "model"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        with log_lock:
            log.write(json.dumps({"key": prompt.split()[-1], "at": time.time()}) + "\n")
        if "deadly" in prompt:
            if not options.kills:
                os._exit(1)
            with open(options.kills) as handle:
                os.kill(int(handle.read()), signal.SIGKILL)
            self.close_connection = True
            return
        time.sleep(options.latency)
        try:
            self.reply({"id": "c", "object": "chat.completion", "model": "m",
                        "choices": [{"index": 0, "finish_reason": "stop",
                                     "message": {"role": "assistant", "content": "echo " + prompt}}],
                        "usage": {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}})
        except OSError:
            self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


server = Server(("127.0.0.1", options.port), Handler)
print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
server.serve_forever()
