"""An inference server whose speed is known: `slots` calls at a time, the others wait in order, and a
call takes the work that its prompt names ("work=1.25 …", in seconds), divided by the server's speed.

    timed_backend.py --slots 32 --speed 15 [--slow-after 30 --slower 10] [--straggle 20] --log FILE

Slowing counts from the first call, and calls under way slow down too. With --straggle, a prompt with
the word "straggler" takes so many times as long in this server, as a call on bad hardware does. One
JSON line per call in the log: the prompt's name, begin, end, "answered" or "aborted".
"""
import argparse
import asyncio
import json
import re
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--slots", type=int, default=32)
parser.add_argument("--speed", type=float, default=1)
parser.add_argument("--slow-after", type=float, default=1e9)
parser.add_argument("--slower", type=float, default=1)
parser.add_argument("--straggle", type=float, default=1)
parser.add_argument("--log", required=True)
arguments = parser.parse_args()
PROMPT = re.compile(rb"name=(\S+) work=([0-9.]+)( straggler)?")


class Server:
    def __init__(self, log):
        self.slots = asyncio.Semaphore(arguments.slots)
        self.log = log
        self.first = None

    def seconds(self, work, now):
        if self.first is None:
            self.first = now
        seconds = work / arguments.speed
        before = max(0.0, self.first + arguments.slow_after - now)
        return seconds if seconds <= before else before + (seconds - before) * arguments.slower

    async def answer(self, body):
        name, work, straggler = PROMPT.search(body).groups()
        async with self.slots:
            begun = time.time()
            work = float(work) * (arguments.straggle if straggler else 1)
            ended = "aborted"
            try:
                await asyncio.sleep(self.seconds(work, begun))
                ended = "answered"
            finally:
                self.log.write(json.dumps({"name": name.decode(), "begin": begun, "end": time.time(),
                                           "how": ended}) + "\n")
        return json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": name.decode()}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}}).encode()

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                body = await reader.readexactly(int(length.group(1))) if length else b""
                if head.startswith(b"GET"):
                    out = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
                else:
                    call = asyncio.ensure_future(self.answer(body))
                    gone = asyncio.ensure_future(reader.read(1))  # nothing comes before the answer but an end
                    await asyncio.wait({call, gone}, return_when=asyncio.FIRST_COMPLETED)
                    if not call.done():
                        call.cancel()
                        await asyncio.gather(call, return_exceptions=True)
                        return
                    gone.cancel()
                    await asyncio.gather(gone, return_exceptions=True)
                    out = call.result()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                             % (len(out), out))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def main():
    with open(arguments.log, "a", buffering=1) as log:
        server = await asyncio.start_server(Server(log).serve, "127.0.0.1", 0, backlog=1024)
        print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await server.serve_forever()


asyncio.run(main())
