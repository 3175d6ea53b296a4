"""A TCP proxy on loopback that makes a network misbehave.

    hold()     nothing gets through, and nobody is told: what is sent is kept by the two kernels, new
               connections seem to open. release() lets it go on, as TCP does after a partition; a
               connection that one side gave up meanwhile ends for the other then
    forget()   like hold(), for ever, for the connections there are: half-open ones; new ones work
    delay      seconds by which each piece is late, either way
    reset()    cuts every connection with a RST
"""
import asyncio
import socket
import struct
import threading

PIECE = 64 << 10
# So that a held connection soon pushes back on its sender instead of filling this process.
QUEUE_MAX = 64


class TcpProxy:
    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.delay = 0.0
        self.connections = 0  # opened so far
        self._links = set()
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()

    # --- what can go wrong ------------------------------------------------------------------------
    def hold(self):
        self._call(self._open.clear)

    def release(self):
        self._call(self._open.set)

    def forget(self):
        self._call(lambda: [link.forget() for link in self._links])

    def reset(self):
        self._call(lambda: [link.cut(reset=True) for link in list(self._links)])

    def close(self):
        def stop():
            self._server.close()
            self._loop.stop()
        self._loop.call_soon_threadsafe(stop)
        self._thread.join()

    # --- inside -----------------------------------------------------------------------------------
    def _call(self, what):
        done = threading.Event()

        def do():
            what()
            done.set()
        self._loop.call_soon_threadsafe(do)
        done.wait()

    def _run(self, started):
        asyncio.set_event_loop(self._loop)
        self._open = asyncio.Event()
        self._open.set()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader, writer):
        self.connections += 1
        link = _Link(self, reader, writer)
        self._links.add(link)
        try:
            await link.run()
        except asyncio.CancelledError:
            pass  # close()
        finally:
            link.cut(reset=False)
            self._links.discard(link)


class _Link:
    """One connection, and the one behind it."""

    def __init__(self, proxy, reader, writer):
        self.proxy, self.reader, self.writer = proxy, reader, writer
        self.far_writer = None
        self.forgotten = False
        self.over = asyncio.Event()

    async def run(self):
        await self.proxy._open.wait()
        try:
            far_reader, self.far_writer = await asyncio.open_connection(*self.proxy.target)
        except OSError:
            return self.cut(reset=True)
        pumps = [asyncio.ensure_future(self.pump(self.reader, self.far_writer)),
                 asyncio.ensure_future(self.pump(far_reader, self.writer))]
        await self.over.wait()
        for pump in pumps:
            pump.cancel()

    def forget(self):
        self.forgotten = True

    def cut(self, reset):
        for writer in (self.writer, self.far_writer):
            if writer is None:
                continue
            sock = writer.get_extra_info("socket")
            if reset and sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort() if reset else writer.close()
        self.over.set()

    async def pump(self, reader, writer):
        queue = asyncio.Queue(QUEUE_MAX)
        sender = asyncio.ensure_future(self.send(queue, writer))
        try:
            while True:
                try:
                    piece = await reader.read(PIECE)
                except OSError:
                    piece = b""
                await queue.put((self.proxy._loop.time() + self.proxy.delay, piece))
                if not piece:
                    return await sender
        finally:
            sender.cancel()

    async def send(self, queue, writer):
        while True:
            due, piece = await queue.get()
            await asyncio.sleep(max(0.0, due - self.proxy._loop.time()))
            await self.proxy._open.wait()
            if self.forgotten:
                continue
            if not piece:  # its end is the end of both
                return self.cut(reset=False)
            writer.write(piece)
            try:
                await writer.drain()
            except OSError:
                return self.cut(reset=False)
