# SPDX-License-Identifier: Apache-2.0
"""A network between workers that exchange data over TCP. The network can change and delay frames.

    link = TcpLink(lambda sender, header, frame: frame)
    subprocess.Popen(command, env={**os.environ, **link.environment})

A worker with this environment connects to workers with lower numbers through the link.
"""

import collections
import contextlib
import os
import socket
import struct
import threading

from programs import crc32c

LIBRARY = os.path.abspath("tests/tools/libconnect_through_link.so")

# The header of a frame, distribute/collective/tcp/frame.cc.
FIELDS = {"magic": "4s", "version": "B", "type": "B", "reserved": "H", "incarnation": "Q",
          "number": "Q", "step": "Q", "sequence": "Q", "fingerprint": "Q", "message_bytes": "Q",
          "part": "I", "payload_bytes": "I", "payload_crc": "I", "header_crc": "I"}
LAYOUT = struct.Struct("<" + "".join(FIELDS.values()))
Header = collections.namedtuple("Header", FIELDS)
# The sizes of the messages of a handshake, distribute/cluster/connections/handshake.h, by sender.
ACCEPTING, CONNECTING = "accepting", "connecting"
HANDSHAKE = {ACCEPTING: (69, 1), CONNECTING: (69, 32)}


def header_of(frame):
    return Header(*LAYOUT.unpack_from(frame))


def with_fields(frame, **fields):
    """Returns the frame with other values in its header and a correct header checksum."""
    header = LAYOUT.pack(*header_of(frame)._replace(**fields))[:-4]
    return header + struct.pack("<I", crc32c(header)) + frame[LAYOUT.size:]


def start(work, *args):
    threading.Thread(target=work, args=args, daemon=True).start()


def accept(listener):
    """Yields incoming connections until the listener is shut down."""
    with contextlib.suppress(OSError):
        while True:
            yield listener.accept()[0]


class TcpLink:
    """`on_frame(sender, header, frame)` returns the bytes that arrive instead of a frame. EOFError
    ends the data in this direction, ConnectionResetError resets the connection. The two directions
    call it from different threads."""

    def __init__(self, on_frame):
        self.on_frame = on_frame
        self.listeners = []
        port = self.listen(self.answer)
        self.environment = {"LD_PRELOAD": LIBRARY, "TCP_LINK": str(port)}

    def close(self):
        for listener in self.listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def listen(self, serve, *args):
        """Calls serve(connection, …) for each connection to a new port. Returns the port."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.listeners.append(listener)

        def run():
            for connection in accept(listener):
                serve(connection, *args)
        start(run)
        return listener.getsockname()[1]

    def answer(self, question):
        """Tells a worker which port stands in for another worker's port."""
        with question:
            port, = struct.unpack(">H", question.recv(2))
            question.sendall(struct.pack(">H", self.listen(self.join, port)))

    def join(self, near, port):
        far = socket.create_connection(("127.0.0.1", port))
        start(self.move, near, far, CONNECTING)
        start(self.move, far, near, ACCEPTING)

    def move(self, source, target, sender):
        try:
            for part in self.parts(source.makefile("rb"), sender):
                target.sendall(part)
        except ConnectionResetError:
            for end in (source, target):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RD)  # ends the thread that reads
                os.close(end.detach())
        except (EOFError, OSError):
            pass
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def parts(self, stream, sender):
        for size in HANDSHAKE[sender]:
            yield stream.read(size)
        while len(header := stream.read(LAYOUT.size)) == LAYOUT.size:
            fields = header_of(header)
            yield self.on_frame(sender, fields, header + stream.read(fields.payload_bytes))
