# SPDX-License-Identifier: Apache-2.0
"""Finds running processes in /proc, and sends them signals."""

import contextlib
import os


def _read(process, name):
    try:
        with open(f"/proc/{process}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # it has ended


def tree_of(process):
    """Returns the process and its descendants, parents first."""
    children = {}
    for other in filter(str.isdigit, os.listdir("/proc")):
        children.setdefault(parent_of(other), []).append(int(other))
    tree = [process]
    for parent in tree:
        tree += children.get(parent, [])
    return tree


def parent_of(process):
    """Returns the parent of the process, or None if the process has ended."""
    fields = _read(process, "stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else None


def name_of(process):
    """Returns the process name, truncated to 15 characters, or "" if the process has ended."""
    return _read(process, "comm").strip()


def is_stopped(process):
    """Returns whether a signal has suspended the process."""
    return _read(process, "stat").rpartition(")")[2].split()[:1] == ["T"]


def takes_signal(process, number, name):
    """Returns whether the process has this name (cut to 15 characters) and handles the signal."""
    fields = dict(line.split(":", 1) for line in _read(process, "status").splitlines())
    if fields.get("Name", "").strip() != name[:15]:
        return False
    return bool(int(fields.get("SigCgt", "0"), 16) >> (number - 1) & 1)


def send_signal(number, *processes):
    """Sends the signal to each process in turn. Those that have ended are skipped: a process may
    end by itself, or because an earlier one received the signal."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
