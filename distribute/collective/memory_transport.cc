// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/memory_transport.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {

class MemoryNetwork::End final : public Transport {
 public:
  End(std::shared_ptr<MemoryNetwork> network, int rank, absl::Duration timeout)
      : network_(std::move(network)), rank_(rank), timeout_(timeout) {}

  absl::Status StartSend(int to_rank, const MessageTag& tag,
                         absl::Span<const std::byte> bytes) override {
    std::lock_guard<std::mutex> lock(network_->mu_);
    MF_RETURN_IF_ERROR(failure_);
    if (IsSilent(rank_) || IsSilent(to_rank)) return absl::OkStatus();
    network_->Box(rank_, to_rank).push_back({tag, {bytes.begin(), bytes.end()}});
    network_->changed_.notify_all();
    return absl::OkStatus();
  }

  absl::Status StartReceive(int from_rank, const MessageTag& tag,
                            absl::Span<std::byte> bytes) override {
    std::lock_guard<std::mutex> lock(network_->mu_);
    MF_RETURN_IF_ERROR(failure_);
    receives_.push_back({from_rank, tag, bytes});
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    const auto deadline = absl::ToChronoTime(absl::Now() + timeout_);
    std::unique_lock<std::mutex> lock(network_->mu_);
    for (const Receive& receive : std::exchange(receives_, {})) {
      std::deque<Message>& box = network_->Box(receive.from_rank, rank_);
      network_->changed_.wait_until(lock, deadline, [&] { return !failure_.ok() || !box.empty(); });
      MF_RETURN_IF_ERROR(failure_);
      if (box.empty()) return Fail(receive, TimedOut(receive));
      const Message message = std::move(box.front());
      box.pop_front();
      if (message.tag != receive.tag || message.bytes.size() != receive.bytes.size()) {
        return Fail(receive, UnexpectedMessage(receive.from_rank, receive.tag, receive.bytes.size(),
                                               message.tag, message.bytes.size()));
      }
      std::copy(message.bytes.begin(), message.bytes.end(), receive.bytes.begin());
    }
    return failure_;
  }

  void Abort(const absl::Status& why) override {
    std::lock_guard<std::mutex> lock(network_->mu_);
    if (failure_.ok()) failure_ = why;
    network_->changed_.notify_all();
  }

 private:
  struct Receive {
    int from_rank;
    MessageTag tag;
    absl::Span<std::byte> bytes;
  };

  bool IsSilent(int rank) const { return network_->silent_.contains(rank); }

  // Records a failure and returns the first one, which may be an earlier one.
  absl::Status Fail(const Receive& receive, absl::Status why) {
    if (failure_.ok()) failure_ = WithFailure(std::move(why), {.rank = receive.from_rank});
    return failure_;
  }

  absl::Status TimedOut(const Receive& receive) const {
    return absl::DeadlineExceededError(absl::StrCat(
        "rank ", rank_, " timed out after ", absl::FormatDuration(timeout_), "; expected ",
        receive.bytes.size(), " bytes from rank ", receive.from_rank, ", got none"));
  }

  const std::shared_ptr<MemoryNetwork> network_;
  const int rank_;
  const absl::Duration timeout_;
  std::vector<Receive> receives_;  // in flight; guarded by the network's mutex, as is failure_
  absl::Status failure_;
};

std::shared_ptr<MemoryNetwork> MemoryNetwork::Create(int world_size) {
  return std::shared_ptr<MemoryNetwork>(new MemoryNetwork(world_size));
}

std::unique_ptr<Transport> MemoryNetwork::TransportOf(int rank, absl::Duration timeout) {
  return std::make_unique<End>(shared_from_this(), rank, timeout);
}

void MemoryNetwork::Silence(int rank) {
  std::lock_guard<std::mutex> lock(mu_);
  silent_.insert(rank);
}

}  // namespace mirrorflow
