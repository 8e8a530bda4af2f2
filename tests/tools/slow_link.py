# SPDX-License-Identifier: Apache-2.0
"""A slow and lossy network between two network namespaces, for kernels without netem.

    with SlowLink({"a": "10.0.0.1", "b": "10.0.0.2"}, delay=0.1, loss=0.01) as link:
        subprocess.run(["ip", "netns", "exec", "a", "ping", "-c1", "10.0.0.2"])

Each namespace gets a TUN device with its address. A thread reads the packets of both devices, drops
some packets, and writes each remaining packet to the other device after the delay.
"""

import collections
import fcntl
import os
import random
import select
import struct
import subprocess
import threading
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 1, 0x1000
MTU = 9000
LONGEST_WAIT = 0.05  # seconds until the thread notices that the link is closed


class SlowLink:
    """Creates the link. `delay`: seconds in each direction; `loss`: the fraction of packets that
    are dropped. Raises OSError if TUN devices cannot be created."""

    def __init__(self, addresses, delay, loss=0.0, seed=1):
        self.delay, self.loss, self.random = delay, loss, random.Random(seed)
        self.dropped = 0
        self.closed = False
        self.ends = []
        try:
            for host, address in addresses.items():
                self.ends.append(self.add_device(host, address))
        except OSError:
            self.close_ends()
            raise
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True
        self.thread.join()
        self.close_ends()

    def close_ends(self):
        """Closes the devices, which removes them."""
        for end in self.ends:
            os.close(end)

    @staticmethod
    def add_device(host, address):
        """Creates a device in the namespace. Returns the file that carries its packets."""
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            request = struct.pack("16sH22x", b"slow%d", IFF_TUN | IFF_NO_PI)
            device = fcntl.ioctl(end, TUNSETIFF, request)[:16].rstrip(b"\0").decode()
            for words in (["link", "set", device, "netns", host, "name", "slow", "mtu", str(MTU)],
                          ["-n", host, "address", "add", f"{address}/24", "dev", "slow"],
                          ["-n", host, "link", "set", "slow", "up"]):
                result = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=60)
                if result.returncode != 0:
                    raise OSError(f"ip {' '.join(words)}: {result.stderr.strip()}")
        except OSError:
            os.close(end)
            raise
        return end

    def carry(self):
        """Moves packets until the link is closed."""
        other = dict(zip(self.ends, reversed(self.ends)))
        on_the_way = collections.deque()  # (arrival time, destination, packet), in arrival order
        while not self.closed:
            wait = on_the_way[0][0] - time.monotonic() if on_the_way else LONGEST_WAIT
            for end in select.select(self.ends, [], [], min(max(wait, 0), LONGEST_WAIT))[0]:
                packet = os.read(end, 65536)
                if self.random.random() < self.loss:
                    self.dropped += 1
                else:
                    on_the_way.append((time.monotonic() + self.delay, other[end], packet))
            while on_the_way and on_the_way[0][0] <= time.monotonic():
                _, end, packet = on_the_way.popleft()
                try:
                    os.write(end, packet)
                except BlockingIOError:
                    self.dropped += 1  # the receiver's queue is full
