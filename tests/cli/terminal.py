"""A program at a pseudo-terminal: what a person would see."""
import errno
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time


class Terminal:
    """Runs argv with a terminal of `columns` as standard error (and as input and output, if asked)."""

    def __init__(self, argv, columns=80, output=False, env=None, cwd=None):
        self.master, slave = pty.openpty()
        self.resize(columns)
        merged = {**os.environ, "TERM": "xterm-256color", **(env or {})}
        merged.pop("NO_COLOR", None) if env is None or "NO_COLOR" not in env else None
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave if output else subprocess.PIPE, stderr=slave, env=merged, cwd=cwd,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.screen = b""
        self.chunks = []  # (seconds since start, bytes)
        self.started = time.monotonic()

    def resize(self, columns, rows=24):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def hang_up(self):
        """The terminal goes away, as a window that is closed."""
        os.close(self.master)
        self.master = None

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def read(self, timeout):
        """Takes what comes within `timeout`; False at the end."""
        ready, _, _ = select.select([self.master], [], [], timeout)
        if not ready:
            return True
        try:
            chunk = os.read(self.master, 65536)
        except OSError as problem:
            if problem.errno == errno.EIO:
                return False
            raise
        self.screen += chunk
        self.chunks.append((time.monotonic() - self.started, chunk))
        return bool(chunk)

    def read_until(self, wanted, timeout=60.0):
        until = time.monotonic() + timeout
        while wanted.encode() not in self.screen:
            if time.monotonic() > until or not self.read(0.2):
                raise AssertionError(f"{wanted!r} never came; screen ends {self.screen[-600:]!r}")

    def finish(self, timeout=60.0):
        """The exit code, with everything on the screen read."""
        until = time.monotonic() + timeout
        while self.read(0.2):
            if time.monotonic() > until:
                raise AssertionError(f"did not end; screen ends {self.screen[-600:]!r}")
        return self.process.wait(10)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        if self.master is not None:
            os.close(self.master)
