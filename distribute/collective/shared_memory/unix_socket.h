// SPDX-License-Identifier: Apache-2.0
//
// UnixSocket: a connection for passing files between processes of the same user and network
// namespace. Socket names are abstract, so nothing is left behind in a file system. The names are
// not secret (/proc/net/unix lists them), so each end asks the kernel for the peer's user before it
// sends anything.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_UNIX_SOCKET_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_UNIX_SOCKET_H_

#include <sys/types.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {

class UnixSocket {
 public:
  struct Message {
    std::string text;
    int fd = -1;  // owned by the receiver
  };

  UnixSocket() = default;

  // The other end must belong to `user`; tests pass a different user.
  static absl::StatusOr<UnixSocket> Listen(absl::string_view name, uid_t user = geteuid());
  // Returns PermissionDenied if the listener belongs to another user.
  static absl::StatusOr<UnixSocket> Connect(absl::string_view name, uid_t user = geteuid());

  // Waits for a connection from a process of the same user. Drops connections from other users,
  // because any user can connect at any time.
  absl::StatusOr<UnixSocket> Accept(MonotonicTime deadline) const;
  // Sends a text of at most 200 bytes, and a file descriptor.
  absl::Status Send(absl::string_view text, int fd) const;
  absl::StatusOr<Message> Receive(MonotonicTime deadline) const;

  // Returns false once the other end is closed.
  bool IsOpen() const;

 private:
  UnixSocket(int fd, uid_t user) : socket_(fd), user_(user) {}
  absl::Status CheckUserOfOtherEnd() const;
  absl::Status WaitForInput(MonotonicTime deadline) const;

  OwnedSocket socket_;
  uid_t user_ = 0;  // the user that the other end must belong to
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_UNIX_SOCKET_H_
