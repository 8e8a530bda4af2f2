// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cluster/memory_transport.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {

class MemoryNetwork::End final : public Transport {
 public:
  End(std::shared_ptr<MemoryNetwork> network, int rank)
      : network_(std::move(network)), rank_(rank), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (event_ < 0) failure_ = NetworkError(errno, "eventfd");
    MutexLock lock(&network_->mu_);
    network_->events_[rank] = event_;
  }
  ~End() override {
    MutexLock lock(&network_->mu_);
    network_->events_[rank_] = -1;
    if (event_ >= 0) close(event_);
  }

  absl::Status StartSend(const Transfer& transfer, absl::Span<const std::byte> bytes) override {
    MutexLock lock(&network_->mu_);
    MF_RETURN_IF_ERROR(CheckPeer(transfer.peer));
    if (network_->silent_.contains(rank_) || network_->silent_.contains(transfer.peer)) {
      return absl::OkStatus();
    }
    network_->Box(rank_, transfer.peer).push_back({transfer.tag, {bytes.begin(), bytes.end()}});
    if (network_->events_[transfer.peer] >= 0) eventfd_write(network_->events_[transfer.peer], 1);
    return absl::OkStatus();
  }

  absl::Status StartReceive(const Transfer& transfer, absl::Span<std::byte> bytes) override {
    MutexLock lock(&network_->mu_);
    MF_RETURN_IF_ERROR(CheckPeer(transfer.peer));
    ++*transfer.unfinished;
    last_sequence_ = std::max(last_sequence_, transfer.tag.sequence);
    receives_.push_back({transfer, bytes});
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Progress() override {
    MutexLock lock(&network_->mu_);
    bool moved = false;
    for (int from = 0; from < network_->world_size_; ++from) {
      std::deque<Message>& box = network_->Box(from, rank_);
      for (auto message = box.begin(); message != box.end();) {
        MF_RETURN_IF_ERROR(failure_);
        const auto receive = std::find_if(receives_.begin(), receives_.end(), [&](const auto& r) {
          return r.transfer.peer == from && r.transfer.tag.sequence == message->tag.sequence &&
                 r.transfer.tag.part == message->tag.part;
        });
        if (receive == receives_.end() && message->tag.sequence > last_sequence_) {
          ++message;  // belongs to a collective that this rank has not started
          continue;
        }
        const Receive expected = receive == receives_.end() ? Receive() : *receive;
        if (message->tag != expected.transfer.tag ||
            message->bytes.size() != expected.bytes.size()) {
          failure_ = UnexpectedMessage(from, expected.transfer.tag, expected.bytes.size(),
                                       message->tag, message->bytes.size());
          return failure_;
        }
        std::copy(message->bytes.begin(), message->bytes.end(), expected.bytes.begin());
        --*expected.transfer.unfinished;
        receives_.erase(receive);
        message = box.erase(message);
        moved = true;
      }
    }
    MF_RETURN_IF_ERROR(failure_);
    return moved;
  }

  bool PrepareToWait(std::vector<pollfd>* events) override {
    eventfd_t count = 0;
    if (eventfd_read(event_, &count) == 0) return false;  // something changed since the last call
    events->push_back({.fd = event_, .events = POLLIN, .revents = 0});
    return true;
  }

  std::optional<Pending> pending() const override {
    MutexLock lock(&network_->mu_);
    if (receives_.empty()) return std::nullopt;
    const Receive& oldest = *std::min_element(receives_.begin(), receives_.end(),
                                              [](const Receive& a, const Receive& b) {
                                                return a.transfer.passed_on < b.transfer.passed_on;
                                              });
    return Pending{.peer = oldest.transfer.peer,
                   .tag = oldest.transfer.tag,
                   .bytes = oldest.bytes.size(),
                   .is_receive = true,
                   .passed_on = oldest.transfer.passed_on,
                   .name = oldest.transfer.name};
  }

  void Abort(const absl::Status& why) override {
    MutexLock lock(&network_->mu_);
    if (failure_.ok()) failure_ = why;
    eventfd_write(event_, 1);
  }

 private:
  struct Receive {
    Transfer transfer;
    absl::Span<std::byte> bytes;
  };

  absl::Status CheckPeer(int peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(network_->mu_) {
    if (!failure_.ok() || network_->partners_.ArePeers(rank_, peer)) return failure_;
    return absl::InternalError(
        absl::StrCat("memory: rank ", rank_, " is not connected to rank ", peer));
  }

  const std::shared_ptr<MemoryNetwork> network_;
  const int rank_;
  const int event_;
  std::vector<Receive> receives_ ABSL_GUARDED_BY(network_->mu_);  // in flight
  uint64_t last_sequence_ ABSL_GUARDED_BY(network_->mu_) = 0;     // of a receive
  absl::Status failure_ ABSL_GUARDED_BY(network_->mu_);
};

std::shared_ptr<MemoryNetwork> MemoryNetwork::Create(const Topology& topology) {
  return std::shared_ptr<MemoryNetwork>(new MemoryNetwork(topology));
}

std::unique_ptr<Transport> MemoryNetwork::TransportOf(int rank) {
  return std::make_unique<End>(shared_from_this(), rank);
}

void MemoryNetwork::Silence(int rank) {
  MutexLock lock(&mu_);
  silent_.insert(rank);
}

}  // namespace mirrorflow
