// SPDX-License-Identifier: Apache-2.0
//
// ReservedPort: a TCP port on 127.0.0.1 that the system does not give to another process during the
// object's lifetime. A server that sets SO_REUSEADDR, as the coordination service does, can listen
// on it.
#ifndef MIRRORFLOW_TESTS_SUPPORT_RESERVED_PORT_H_
#define MIRRORFLOW_TESTS_SUPPORT_RESERVED_PORT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "framework/core/status.h"

namespace mirrorflow {

class ReservedPort {
 public:
  ReservedPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(own);
    auto* const address = reinterpret_cast<sockaddr*>(&own);
    MF_CHECK(setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
    MF_CHECK(bind(fd_, address, size) == 0 && getsockname(fd_, address, &size) == 0);
    port_ = ntohs(own.sin_port);
  }
  ~ReservedPort() { close(fd_); }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  // Returns `HOST:PORT`, where `host` is a name of this host.
  std::string At(const std::string& host) const { return host + ":" + std::to_string(port_); }

 private:
  const int fd_;  // bound, but not listening
  int port_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_RESERVED_PORT_H_
