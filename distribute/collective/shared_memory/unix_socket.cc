// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/shared_memory/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

constexpr size_t kMaxText = 200;
constexpr int kConnectSeconds = 5;

absl::Status Failed(const char* what) {
  return SystemError(errno, absl::StrCat("Unix socket: ", what));
}

struct Address {
  explicit Address(absl::string_view name) {
    value.sun_family = AF_UNIX;
    const size_t length = std::min(name.size(), sizeof(value.sun_path) - 1);
    // A leading zero byte marks an abstract name.
    std::memcpy(value.sun_path + 1, name.data(), length);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
  sockaddr_un value = {};
  socklen_t size;
};

int NewSocket() { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); }

// Returns whether the kernel also reports `user` for other users: in a user namespace, all unmapped
// users appear as the overflow user, 65534 by default.
bool IsOverflowUser(uid_t user) {
  uid_t overflow = 65534, first = 0, outside = 0, count = 0;
  std::ifstream("/proc/sys/kernel/overflowuid") >> overflow;
  std::ifstream("/proc/self/uid_map") >> first >> outside >> count;
  return user == overflow && count != std::numeric_limits<uid_t>::max();
}

// A message with one part, and with room for one file descriptor in its control data.
struct Packet {
  Packet(char* text, size_t size) : data({.iov_base = text, .iov_len = size}) {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
  }
  iovec data;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
};

}  // namespace

absl::StatusOr<UnixSocket> UnixSocket::Listen(absl::string_view name, uid_t user) {
  UnixSocket made(NewSocket(), user);
  const Address address(name);
  if (made.socket_.fd() < 0 || bind(made.socket_.fd(), address.get(), address.size) != 0 ||
      listen(made.socket_.fd(), SOMAXCONN) != 0) {
    return Failed("listen");
  }
  return made;
}

absl::StatusOr<UnixSocket> UnixSocket::Connect(absl::string_view name, uid_t user) {
  UnixSocket made(NewSocket(), user);
  const Address address(name);
  // Any user can fill the listener's backlog, which blocks connect() until the listener accepts.
  const timeval limit = {.tv_sec = kConnectSeconds, .tv_usec = 0};
  if (made.socket_.fd() < 0 ||
      setsockopt(made.socket_.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0 ||
      connect(made.socket_.fd(), address.get(), address.size) != 0) {
    return Failed("connect");
  }
  MF_RETURN_IF_ERROR(made.CheckUserOfOtherEnd());
  return made;
}

// The kernel records the user when a process calls connect() or listen().
absl::Status UnixSocket::CheckUserOfOtherEnd() const {
  ucred other;
  socklen_t size = sizeof(other);
  if (getsockopt(socket_.fd(), SOL_SOCKET, SO_PEERCRED, &other, &size) != 0)
    return Failed("SO_PEERCRED");
  const bool unclear = IsOverflowUser(other.uid);
  if (other.uid == user_ && !unclear) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "Unix socket: the other end belongs to another user; expected user ", user_, ", got ",
      other.uid,
      unclear ? ", the overflow user, which may be any user outside this namespace" : ""));
}

absl::Status UnixSocket::WaitForInput(MonotonicTime deadline) const {
  pollfd waiting = {.fd = socket_.fd(), .events = POLLIN, .revents = 0};
  while (true) {
    const int64_t left = absl::ToInt64Milliseconds(deadline - MonotonicTime::Now());
    if (left <= 0) return absl::DeadlineExceededError("Unix socket: timed out");
    const int ready = poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 1000)));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return Failed("poll");
  }
}

absl::StatusOr<UnixSocket> UnixSocket::Accept(MonotonicTime deadline) const {
  while (true) {
    MF_RETURN_IF_ERROR(WaitForInput(deadline));
    UnixSocket accepted(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC), user_);
    if (accepted.socket_.fd() < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return Failed("accept");
    }
    if (accepted.CheckUserOfOtherEnd().ok()) return accepted;
  }
}

absl::Status UnixSocket::Send(absl::string_view text, int fd) const {
  Packet packet(const_cast<char*>(text.data()), text.size());
  cmsghdr* const header = CMSG_FIRSTHDR(&packet.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  return sendmsg(socket_.fd(), &packet.message, MSG_NOSIGNAL) < 0 ? Failed("sendmsg")
                                                                  : absl::OkStatus();
}

absl::StatusOr<UnixSocket::Message> UnixSocket::Receive(MonotonicTime deadline) const {
  MF_RETURN_IF_ERROR(WaitForInput(deadline));
  char text[kMaxText];
  Packet packet(text, sizeof(text));
  const ssize_t size = recvmsg(socket_.fd(), &packet.message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (size < 0) return Failed("recvmsg");
  // The system drops a file if this process has no free descriptor for it.
  if ((packet.message.msg_flags & MSG_CTRUNC) != 0)
    return SystemError(EMFILE, "Unix socket: recvmsg");
  Message received = {.text = std::string(text, size)};
  const cmsghdr* const header = CMSG_FIRSTHDR(&packet.message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&received.fd, CMSG_DATA(header), sizeof(int));
  }
  if (received.fd < 0) return absl::UnavailableError("Unix socket: the other end is closed");
  return received;
}

bool UnixSocket::IsOpen() const {
  pollfd state = {.fd = socket_.fd(), .events = POLLRDHUP, .revents = 0};
  return poll(&state, 1, 0) == 0;
}

}  // namespace mirrorflow
