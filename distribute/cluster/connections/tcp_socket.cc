// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/tcp_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

absl::StatusOr<std::string> HostText(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST];
  const int error = getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  if (error != 0) return NameError(error, "cannot format a connection's address");
  return std::string(text);
}

absl::Status ConnectError(int error) {
  const absl::Status status = NetworkError(error, "cannot connect");
  return error == ECONNREFUSED ? absl::FailedPreconditionError(status.message()) : status;
}

// Returns and clears the socket's error.
int TakeError(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

}  // namespace

absl::StatusOr<Addresses> Resolve(const HostPort& target) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(target.host.c_str(), absl::StrCat(target.port).c_str(), &hints, &found)) {
    return NameError(error, absl::StrCat(target.ToString(), ": cannot resolve the name"));
  }
  return Addresses(found, &freeaddrinfo);
}

absl::StatusOr<std::string> SourceOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return NetworkError(errno, "cannot read a connection's address");
  }
  return HostText(reinterpret_cast<const sockaddr*>(&address), size);
}

absl::StatusOr<std::string> NumericHost(const std::string& host) {
  MF_ASSIGN_OR_RETURN(const Addresses found, Resolve({.host = host, .port = 0}));
  return HostText(found->ai_addr, found->ai_addrlen);
}

absl::StatusOr<OwnedSocket> StartConnect(const std::string& from, const std::string& address) {
  MF_ASSIGN_OR_RETURN(const HostPort target, ParseHostPort(address));
  MF_ASSIGN_OR_RETURN(const Addresses own, Resolve({.host = from, .port = 0}));
  MF_ASSIGN_OR_RETURN(const Addresses found, Resolve(target));
  OwnedSocket made(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made.fd() < 0 || bind(made.fd(), own->ai_addr, own->ai_addrlen) != 0 ||
      (connect(made.fd(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS)) {
    return NetworkError(errno, absl::StrCat(address, ": cannot connect from ", from));
  }
  return made;
}

absl::StatusOr<OwnedSocket> StartConnect(const addrinfo& to) {
  OwnedSocket made(socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made.fd() < 0 ||
      (connect(made.fd(), to.ai_addr, to.ai_addrlen) != 0 && errno != EINPROGRESS)) {
    return ConnectError(errno);
  }
  return made;
}

absl::Status CheckConnected(int fd) {
  const int error = TakeError(fd);
  return error == 0 ? absl::OkStatus() : ConnectError(error);
}

bool HasNetworkFailed(int fd) {
  const int error = TakeError(fd);
  return error != 0 && error != ECONNRESET && error != EPIPE;
}

absl::Status SetConnectionOptions(int fd, absl::Duration timeout) {
  constexpr int kMaxKeepalive = 32767;  // seconds; Linux's limit
  const auto seconds = [&](int fraction) {
    return static_cast<int>(
        std::clamp<int64_t>(absl::ToInt64Seconds(timeout / fraction), 1, kMaxKeepalive));
  };
  const int on = 1, idle = seconds(2), interval = seconds(8);
  const int wait_ms = static_cast<int>(
      std::min<int64_t>(absl::ToInt64Milliseconds(timeout), std::numeric_limits<int>::max()));
  // Disable Nagle's algorithm, so data is sent at once.
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) != 0 ||
      setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle) != 0 ||
      setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval) != 0 ||
      setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &wait_ms, sizeof wait_ms) != 0) {
    return NetworkError(errno, "cannot set a connection's options");
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
