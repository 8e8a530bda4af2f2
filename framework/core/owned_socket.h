// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_CORE_OWNED_SOCKET_H_
#define MIRRORFLOW_FRAMEWORK_CORE_OWNED_SOCKET_H_

#include <unistd.h>

#include <utility>

namespace mirrorflow {

// Owns a file descriptor and closes it on destruction.
class OwnedSocket {
 public:
  OwnedSocket() = default;
  explicit OwnedSocket(int fd) : fd_(fd) {}
  OwnedSocket(OwnedSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedSocket& operator=(OwnedSocket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedSocket() { Close(); }

  int fd() const { return fd_; }  // -1 if there is none
  // Transfers the descriptor to the caller.
  int Release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_OWNED_SOCKET_H_
