// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/tcp/tcp_transport.h"

#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/collective/tcp/stream.h"
#include "distribute/collective/tcp/tcp_peer.h"
#include "framework/core/mutex.h"
#include "framework/core/owned_socket.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

class TcpTransport final : public Transport {
 public:
  TcpTransport(int rank, uint64_t incarnation, OwnedSocket wake,
               std::map<int, std::unique_ptr<Stream>> peers)
      : rank_(rank), wake_(std::move(wake)) {
    for (auto& [peer, stream] : peers) {
      if (peer >= static_cast<int>(peer_of_.size())) peer_of_.resize(peer + 1, nullptr);
      peers_.push_back(std::make_unique<TcpPeer>(rank, peer, incarnation, std::move(stream)));
      peer_of_[peer] = peers_.back().get();
    }
  }

  absl::Status StartSend(const Transfer& transfer, absl::Span<const std::byte> bytes) override {
    MF_ASSIGN_OR_RETURN(TcpPeer* const peer, Find(transfer.peer));
    peer->Send(transfer, bytes);
    return absl::OkStatus();
  }

  absl::Status StartReceive(const Transfer& transfer, absl::Span<std::byte> bytes) override {
    MF_ASSIGN_OR_RETURN(TcpPeer* const peer, Find(transfer.peer));
    return Keep(peer->Receive(transfer, bytes));
  }

  absl::StatusOr<bool> Progress() override {
    if (failed_) return Keep(Failure());
    bool moved = false;
    for (const auto& peer : peers_) MF_RETURN_IF_ERROR(Keep(peer->Progress(&moved)));
    return moved;
  }

  bool PrepareToWait(std::vector<pollfd>* events) override {
    if (failed_) return false;
    events->push_back({.fd = wake_.fd(), .events = POLLIN, .revents = 0});
    for (const auto& peer : peers_) {
      const pollfd of_peer = peer->events();
      if (of_peer.events != 0) events->push_back(of_peer);
    }
    return true;
  }

  std::optional<Pending> pending() const override {
    const auto order = [](const Pending& pending) {
      return std::pair(!pending.is_receive, pending.passed_on);
    };
    std::optional<Pending> found;
    for (const auto& peer : peers_) {
      const std::optional<Pending> pending = peer->pending();
      if (!pending.has_value()) continue;
      if (!found.has_value() || order(*pending) < order(*found)) found = pending;
    }
    return found;
  }

  void Abort(const absl::Status& why) override {
    {
      MutexLock lock(&mu_);
      if (!failure_.ok()) return;
      failure_ = why;
    }
    failed_ = true;
    eventfd_write(wake_.fd(), 1);
  }

 private:
  absl::Status Failure() const {
    if (!failed_) return absl::OkStatus();
    MutexLock lock(&mu_);
    return failure_;
  }

  absl::StatusOr<TcpPeer*> Find(int rank) {
    MF_RETURN_IF_ERROR(Failure());
    TcpPeer* const peer = rank < static_cast<int>(peer_of_.size()) ? peer_of_[rank] : nullptr;
    if (peer != nullptr) return peer;
    return absl::InternalError(
        absl::StrCat("TCP: rank ", rank_, " is not connected to rank ", rank));
  }

  // Stores the error unless an earlier one is stored. Returns the stored error.
  absl::Status Keep(const absl::Status& status) {
    if (status.ok()) return status;
    Abort(status);
    // Closing lets the peers fail at once instead of waiting for the timeout.
    for (const auto& peer : peers_) peer->Close();
    return Failure();
  }

  const int rank_;
  const OwnedSocket wake_;  // an eventfd
  std::vector<std::unique_ptr<TcpPeer>> peers_;
  std::vector<TcpPeer*> peer_of_;  // by rank; null if not connected
  std::atomic<bool> failed_{false};
  mutable Mutex mu_;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> CreateTcpTransport(
    int rank, uint64_t incarnation, std::map<int, std::unique_ptr<Stream>> peers) {
  OwnedSocket wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.fd() < 0) return NetworkError(errno, "TCP: cannot create an eventfd");
  return std::make_unique<TcpTransport>(rank, incarnation, std::move(wake), std::move(peers));
}

}  // namespace mirrorflow
