"""Completion in the shells themselves: each is started, and its Tab key is pressed."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest

LIMIT = 60  # seconds until an answer that does not come is a failure; it takes one

# What sets completion up, as the page on completion states it. A word in two parts is printed whole
# when the line has run, and not when it is typed.
SET_UP = {
    "bash": 'eval "$(_LDPOPT_COMPLETE=source_bash ldpopt)"; echo "rea""dy"\n',
    "zsh": (
        "autoload -Uz compinit; compinit -u -D; "
        'eval "$(_LDPOPT_COMPLETE=source_zsh ldpopt)"; print "rea""dy"\n'
    ),
}
START = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}


def needs(shell):
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def environment(tmp_path):
    """A home without settings, and the command on the path."""
    command = tmp_path / "bin" / "ldpopt"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ldpopt "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(tmp_path), "TERM": "dumb"}


class Terminal:
    """A shell that believes to be talking to a person."""

    def __init__(self, arguments, environment):
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.execvpe(arguments[0], arguments, environment)

    def type(self, text, expected):
        """Type a text, and return what is shown until the expected words are there."""
        os.write(self.end, text.encode())
        shown = b""
        deadline = time.monotonic() + LIMIT
        while expected.encode() not in shown and time.monotonic() < deadline:
            ready, _, _ = select.select([self.end], [], [], 1)
            if ready:
                shown += os.read(self.end, 1 << 16)
        return shown.decode(errors="replace")

    def close(self):
        """End the shell."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.end)


@pytest.mark.parametrize("shell", [pytest.param(name, marks=needs(name)) for name in START])
def test_the_tab_key_completes_names(shell, environment):
    terminal = Terminal(START[shell], environment)
    try:
        assert "ready" in terminal.type(SET_UP[shell], "ready")
        # Twice: the first may only ring, where several names fit.
        shown = terminal.type("ldpopt estimate c.json --method norm-\t\t", "norm-sub")
        assert "norm-cut" in shown
        assert "norm-sub" in shown
        assert "base-cut" not in shown
    finally:
        terminal.close()


@needs("fish")
def test_fish_completes_commands_and_names(environment):
    script = (
        "_LDPOPT_COMPLETE=source_fish ldpopt | source; "
        'complete -C "ldpopt estimate c.json --method norm-"'
    )
    done = subprocess.run(
        ["fish", "--no-config", "-c", script], capture_output=True, text=True, env=environment
    )
    assert done.stdout.split() == ["norm-cut", "norm-hyb", "norm-mul", "norm-sub"]
