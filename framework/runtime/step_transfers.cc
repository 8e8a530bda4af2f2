// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/step_transfers.h"

#include <cstring>
#include <utility>

#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kCopyTimeout = absl::Minutes(1);

}  // namespace

absl::StatusOr<std::unique_ptr<StepTransfers>> StepTransfers::Create(Device* device,
                                                                     const Plan& plan) {
  std::unique_ptr<StepTransfers> transfers(new StepTransfers(device));
  size_t bytes = AlignUp(sizeof(StepParams));
  for (const PlannedFeed& feed : plan.feeds) {
    transfers->offsets_.push_back(bytes);
    transfers->sizes_.push_back(feed.bytes());
    bytes += AlignUp(feed.bytes());
  }
  transfers->bytes_ = bytes;
  transfers->feeds_.resize(plan.feeds.size());
  transfers->fetched_.resize(plan.fetches.size());
  MF_ASSIGN_OR_RETURN(transfers->device_block_, device->Allocate(bytes));
  MF_ASSIGN_OR_RETURN(transfers->ahead_, device->Allocate(bytes));
  for (std::shared_ptr<std::byte>& half : transfers->host_) {
    MF_ASSIGN_OR_RETURN(half, device->AllocateOnHost(bytes));
  }
  return transfers;
}

StepTransfers::~StepTransfers() {
  device_.Synchronize(MonotonicTime::Now() + kCopyTimeout)
      .IgnoreError();  // a destructor cannot report it
}

void StepTransfers::SetNext(uint64_t step, absl::Span<const std::byte* const> feeds) {
  next_step_ = step;
  next_feeds_.assign(feeds.begin(), feeds.end());
  announced_ = true;
}

void StepTransfers::ForgetNext() {
  announced_ = false;
  sent_feeds_.assign(sent_feeds_.size(), nullptr);  // the addresses may since have been reused
}

void StepTransfers::Fill(const StepParams& params, absl::Span<const std::byte* const> feeds) {
  half_ = 1 - half_;
  std::byte* const block = host_[half_].get();
  std::memcpy(block, &params, sizeof params);
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (sizes_[i] > 0) std::memcpy(block + offsets_[i], feeds[i], sizes_[i]);
  }
}

StepInput StepTransfers::Input() const {
  return {.host = host_[half_].get(),
          .ahead = ahead_.get(),
          .device = device_block_.get(),
          .bytes = bytes_};
}

absl::StatusOr<StepInput> StepTransfers::Prepare(const StepParams& params, MonotonicTime deadline) {
  const bool sent = std::exchange(sent_, false);
  const bool expected = sent && sent_params_ == params && sent_feeds_ == feeds_;
  last_params_ = params;
  if (!expected) {
    // Both buffers may be in use: one by the previous step, the other by the input that was sent.
    if (sent) MF_RETURN_IF_ERROR(device_.Synchronize(deadline));
    Fill(params, feeds_);
  }
  StepInput input = Input();
  input.sent = expected;
  return input;
}

void StepTransfers::SendNext() {
  if (!std::exchange(announced_, false)) return;
  sent_params_ = last_params_;
  sent_params_.step = next_step_;
  sent_feeds_.swap(next_feeds_);
  Fill(sent_params_, sent_feeds_);
  // Ignores errors: Prepare sends the input again and reports them.
  sent_ = device_.Send(Input()).ok();
}

absl::Status StepTransfers::BringToHost(const Plan& plan, absl::Span<const int> fetches) {
  size_t bytes = 0;
  std::vector<size_t> offsets;
  for (const int i : fetches) {
    offsets.push_back(bytes);
    const PlannedFetch& fetch = plan.fetches[i];
    const size_t size = fetch.local_shape.num_elements() * DataTypeSize(fetch.dtype);
    fetches_.push_back({.bytes = size});
    fetch_of_.push_back(i);
    bytes += AlignUp(size);
  }
  MF_ASSIGN_OR_RETURN(host_fetches_, device_.AllocateOnHost(bytes));
  for (size_t f = 0; f < fetches_.size(); ++f) {
    fetches_[f].host = host_fetches_.get() + offsets[f];
    fetched_[fetch_of_[f]] = fetches_[f].host;
  }
  return absl::OkStatus();
}

absl::Span<const StepFetch> StepTransfers::Fetches(
    absl::FunctionRef<const std::byte*(int)> address_of) {
  for (size_t f = 0; f < fetches_.size(); ++f) fetches_[f].device = address_of(fetch_of_[f]);
  return fetches_;
}

}  // namespace mirrorflow
