// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/connection_listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

constexpr int kBacklog = 1024;
// How many connections are accepted on each address per wake-up.
constexpr int kBatch = 16;
// Pause after accept(2) has failed, for instance because file descriptors have run out.
constexpr absl::Duration kPauseAfterError = absl::Milliseconds(100);
// How long accepting must fail before it is reported. Strangers can take the last file descriptors,
// but their connections end sooner than this.
constexpr absl::Duration kPatience = absl::Seconds(6);

absl::Status CannotListen(absl::StatusCode code, absl::string_view address, absl::string_view why) {
  return absl::Status(
      code, absl::StrCat(address, ": cannot listen on this address: ", why,
                         "; expected an address of this host, with a free port that this process "
                         "may use"));
}

// Returns whether a retry can succeed, for example once another process has ended or the network is
// up.
bool MayPass(int error) { return error == EADDRINUSE || error == EADDRNOTAVAIL; }

absl::Status CannotListen(absl::string_view address, int error) {
  const absl::Status status =
      SystemError(error, absl::StrCat(address, ": cannot listen on this address"));
  if (absl::IsResourceExhausted(status)) return status;
  return CannotListen(
      MayPass(error) ? absl::StatusCode::kUnavailable : absl::StatusCode::kInvalidArgument, address,
      std::strerror(error));
}

int PortOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// Makes the socket listen on the address. On failure, returns false and sets errno.
bool Listens(const OwnedSocket& made, const addrinfo& address) {
  if (made.fd() < 0) return false;
  // With this option, past connections do not keep the address in use; bind reports the rest.
  const int on = 1;
  setsockopt(made.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  return bind(made.fd(), address.ai_addr, address.ai_addrlen) == 0 &&
         listen(made.fd(), kBacklog) == 0;
}

// Returns the address as a URI. Writes an IPv4-mapped IPv6 address as IPv4.
std::string PeerText(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  const int port = ntohs(v6.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    return absl::StrCat("ipv4:", absl::StripPrefix(text, "::ffff:"), ":", port);
  }
  const std::string scope = v6.sin6_scope_id == 0 ? "" : absl::StrCat("%25", v6.sin6_scope_id);
  return absl::StrCat("ipv6:%5B", text, scope, "%5D:", port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionListener>> ConnectionListener::Listen(
    absl::string_view address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == address.npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return CannotListen(absl::StatusCode::kInvalidArgument, address, "not HOST:PORT");
  }
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");

  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(std::string(host).c_str(), nullptr, &hints, &found)) {
    const absl::Status status = NameError(error, absl::StrCat(address, ": cannot resolve"));
    return absl::IsUnavailable(status) ? CannotListen(status.code(), address, gai_strerror(error))
                                       : status;
  }
  const absl::Cleanup free_addresses = [found] { freeaddrinfo(found); };

  std::vector<OwnedSocket> sockets;
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    // All addresses of the name use the first address's port.
    if (one->ai_family == AF_INET) {
      reinterpret_cast<sockaddr_in*>(one->ai_addr)->sin_port = htons(port);
    } else if (one->ai_family == AF_INET6) {
      reinterpret_cast<sockaddr_in6*>(one->ai_addr)->sin6_port = htons(port);
    }
    OwnedSocket made(
        socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, one->ai_protocol));
    if (!Listens(made, *one)) {
      const int failed = errno;
      // Some addresses may be unusable, for example on a host without IPv6. But it is an error if
      // another process uses the port.
      if (failed == EADDRINUSE || failed == EMFILE || failed == ENFILE) {
        return CannotListen(address, failed);
      }
      if (!MayPass(error)) error = failed;
      continue;
    }
    port = PortOf(made.fd());
    sockets.push_back(std::move(made));
  }
  if (sockets.empty()) return CannotListen(address, error);
  OwnedSocket stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (stop.fd() < 0) return CannotListen(address, errno);
  return std::unique_ptr<ConnectionListener>(
      new ConnectionListener(std::move(sockets), port, std::move(stop)));
}

ConnectionListener::~ConnectionListener() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.fd(), 1);
  thread_.join();
}

absl::Status ConnectionListener::Start(OnConnection on_connection, OnError on_error) {
  MF_ASSIGN_OR_RETURN(
      thread_, StartThread("connections",
                           [this, on_connection = std::move(on_connection),
                            on_error = std::move(on_error)] { Accept(on_connection, on_error); }));
  return absl::OkStatus();
}

void ConnectionListener::Accept(const OnConnection& on_connection, const OnError& on_error) const {
  // When accepting began to fail or, if later, when on_error was last called.
  MonotonicTime failing_since = MonotonicTime::InfiniteFuture();
  std::vector<pollfd> wanted;
  for (const OwnedSocket& socket : sockets_) {
    wanted.push_back({.fd = socket.fd(), .events = POLLIN, .revents = 0});
  }
  wanted.push_back({.fd = stop_.fd(), .events = POLLIN, .revents = 0});
  while (true) {
    poll(wanted.data(), wanted.size(), /*timeout=*/-1);
    if (wanted.back().revents != 0) return;
    int error = 0;
    absl::Duration pause;
    for (const OwnedSocket& listening : sockets_) {
      for (int i = 0; i < kBatch; ++i) {
        sockaddr_storage address = {};
        socklen_t size = sizeof(address);
        const int fd = accept4(listening.fd(), reinterpret_cast<sockaddr*>(&address), &size,
                               SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
          if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) error = errno;
          break;
        }
        const int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        pause = std::max(pause, on_connection(fd, PeerText(address)));
      }
    }
    if (pause > absl::ZeroDuration()) {
      poll(&wanted.back(), 1, static_cast<int>(absl::ToInt64Milliseconds(pause)));
    }
    if (error == 0) {
      failing_since = MonotonicTime::InfiniteFuture();
      continue;
    }
    const MonotonicTime now = MonotonicTime::Now();
    failing_since = std::min(failing_since, now);
    if (now - failing_since >= kPatience) {
      failing_since = now;
      on_error(NetworkError(error, "cannot accept connections"));
    }
    absl::SleepFor(kPauseAfterError);
  }
}

}  // namespace mirrorflow
