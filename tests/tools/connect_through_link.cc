// SPDX-License-Identifier: Apache-2.0
//
// Preloaded (LD_PRELOAD) into a worker whose data connections must pass through the link of
// tcp_link.py. Before it connects, it asks the link at port $TCP_LINK which port stands in for the
// other worker's port.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

int Connect(int fd, const void* address, socklen_t size) {
  return static_cast<int>(syscall(SYS_connect, fd, address, size));
}

// Returns the port that stands in for `port`, both in network byte order. Returns 0, which refuses
// connections, if the link does not answer.
in_port_t StandInFor(in_port_t port) {
  const sockaddr_in link = {.sin_family = AF_INET,
                            .sin_port = htons(static_cast<uint16_t>(std::atoi(getenv("TCP_LINK")))),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool answered = Connect(fd, &link, sizeof link) == 0 &&
                        send(fd, &port, sizeof port, MSG_NOSIGNAL) == sizeof port &&
                        recv(fd, &port, sizeof port, MSG_WAITALL) == sizeof port;
  close(fd);
  return answered ? port : 0;
}

// Only data connections are bound to an address of this host before they connect.
bool IsForData(int fd) {
  int type = 0;
  sockaddr_in own = {};
  socklen_t size = sizeof type, own_size = sizeof own;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
         getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         own.sin_family == AF_INET && own.sin_addr.s_addr != htonl(INADDR_ANY);
}

}  // namespace

extern "C" int connect(int fd, const sockaddr* address, socklen_t size) {
  if (!IsForData(fd)) return Connect(fd, address, size);
  sockaddr_in changed;
  std::memcpy(&changed, address, sizeof changed);
  changed.sin_port = StandInFor(changed.sin_port);
  return Connect(fd, &changed, sizeof changed);
}
