"""nginx on loopback as a backend that answers every chat request at once with one fixed completion."""
import json
import os
import socket
import subprocess
import textwrap
import time

ANSWER = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1790000000, "model": "m",
          "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok " * 60}, "finish_reason": "stop"}],
          "usage": {"prompt_tokens": 60, "completion_tokens": 60, "total_tokens": 120}}


def start(folder, log_calls=False):
    """(process, URL). With log_calls, FOLDER/access.log has the time of each call's end, to the millisecond."""
    # nginx tries for seconds to bind a taken port: a leftover server would be measured instead.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    conf = os.path.join(folder, "nginx.conf")
    log = f"access_log {folder}/access.log t;" if log_calls else ""
    with open(conf, "w") as handle:
        handle.write(textwrap.dedent(f"""
            worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
            events {{ worker_connections 4096; }}
            http {{
              log_format t '$msec'; access_log off; keepalive_requests 100000000; client_body_temp_path {folder}/body;
              proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
              server {{ listen 127.0.0.1:{port} backlog=4096; default_type application/json;
                location /v1/chat {{ {log} return 200 '{json.dumps(ANSWER)}'; }}
                location / {{ return 404 '{{}}'; }} }}
            }}"""))
    process = subprocess.Popen(["nginx", "-c", conf], stderr=subprocess.DEVNULL)
    for _ in range(50):
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process, f"http://127.0.0.1:{port}"
        time.sleep(0.1)
    raise SystemExit("nginx did not start")
