// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/tcp/stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {
namespace {

class PlainStreamOfSocket final : public Stream {
 public:
  explicit PlainStreamOfSocket(OwnedSocket socket) : socket_(std::move(socket)) {}

  int fd() const override { return socket_.fd(); }

  absl::StatusOr<size_t> Send(absl::Span<const iovec> parts) override {
    const msghdr all = MessageOf(parts);
    return Moved(sendmsg(fd(), &all, MSG_NOSIGNAL | MSG_DONTWAIT), "send");
  }

  absl::StatusOr<size_t> Receive(absl::Span<const iovec> parts) override {
    msghdr all = MessageOf(parts);
    const ssize_t count = recvmsg(fd(), &all, MSG_DONTWAIT);
    if (count == 0) return absl::UnavailableError("the other end has closed the connection");
    return Moved(count, "receive");
  }

 private:
  static msghdr MessageOf(absl::Span<const iovec> parts) {
    msghdr all = {};
    all.msg_iov = const_cast<iovec*>(parts.data());
    all.msg_iovlen = parts.size();
    return all;
  }

  static absl::StatusOr<size_t> Moved(ssize_t count, const char* what) {
    if (count >= 0) return static_cast<size_t>(count);
    if (errno == EAGAIN || errno == EINTR) return 0;
    return absl::UnavailableError(absl::StrCat("cannot ", what, ": ", std::strerror(errno)));
  }

  const OwnedSocket socket_;
};

}  // namespace

std::unique_ptr<Stream> PlainStream(OwnedSocket socket) {
  return std::make_unique<PlainStreamOfSocket>(std::move(socket));
}

}  // namespace mirrorflow
