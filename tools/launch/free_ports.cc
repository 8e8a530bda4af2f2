// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/free_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "framework/core/system_error.h"

namespace mirrorflow {

absl::StatusOr<std::vector<int>> FreePorts(int count) {
  std::vector<int> ports;
  std::vector<int> sockets;  // open until all ports are found, so that they differ
  const absl::Cleanup close_all = [&] {
    for (const int fd : sockets) close(fd);
  };
  while (static_cast<int>(ports.size()) < count) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) sockets.push_back(fd);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (fd < 0 || bind(fd, generic, size) != 0 || getsockname(fd, generic, &size) != 0) {
      return NetworkError(errno, "cannot find a free port");
    }
    ports.push_back(ntohs(address.sin_port));
  }
  return ports;
}

}  // namespace mirrorflow
