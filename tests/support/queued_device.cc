// SPDX-License-Identifier: Apache-2.0
#include "tests/support/queued_device.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

// Added to every address that the host sees, so the host faults if it accesses the address.
constexpr uintptr_t kHidden = uintptr_t{1} << 60;
constexpr int kMaxDelay = 2000;  // iterations of an empty loop

std::byte* Hide(std::byte* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(address) + kHidden);
}
std::byte* Show(const std::byte* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(address) - kHidden);
}

class QueuedDevice;

class QueuedLane final : public Lane {
 public:
  QueuedLane(QueuedDevice* device, uint64_t seed) : device_(device), random_(seed) {}
  absl::Status Wait(EventId id) override;
  absl::Status Record(EventId id) override;

  QueuedDevice* const device_;
  Random random_;
  std::vector<int> queue;  // of this step
};

class QueuedDevice final : public Device {
 public:
  QueuedDevice(int index, const QueuedDeviceOptions& options)
      : name_(absl::StrCat("QUEUED:", index)), options_(options) {
    traits_.host_memory = false;
    traits_.inline_lanes = false;
    for (int lane = 0; lane < kNumLanes; ++lane) {
      lanes_.push_back(std::make_unique<QueuedLane>(
          this, options.seed * 1000 + static_cast<uint64_t>(index * kNumLanes + lane)));
    }
  }

  absl::string_view name() const override { return name_; }
  const DeviceTraits& traits() const override { return traits_; }

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) override {
    MF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, Buffer::Allocate(bytes));
    std::byte* hidden = Hide(buffer->data());
    return std::shared_ptr<std::byte>(std::move(buffer), hidden);
  }
  std::byte* KernelAddress(std::byte* address) const override { return Show(address); }
  absl::Status CopyIn(const std::byte* host, std::byte* device, size_t bytes) override {
    std::memcpy(Show(device), host, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyOut(const std::byte* device, std::byte* host, size_t bytes) override {
    std::memcpy(host, Show(device), bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<std::byte>> AllocateOnHost(size_t bytes) override {
    MF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, Buffer::Allocate(bytes));
    std::byte* data = buffer->data();
    return std::shared_ptr<std::byte>(std::move(buffer), data);
  }
  Lane& lane(LaneKind kind) override { return *lanes_[static_cast<int>(kind)]; }
  absl::Status ReserveEvents(int count) override {
    if (count > static_cast<int>(fired_.size())) fired_.resize(count, 0);
    return absl::OkStatus();
  }

  absl::Status Execute(const Execution& execution) override {
    {
      std::lock_guard<std::mutex> lock(mu_);
      ++step_;
      failure_ = absl::OkStatus();
      deadline_ = execution.deadline;
      waits_ = 0;
    }
    if (const StepInput& input = execution.input; input.bytes > 0) {
      if (!input.sent) MF_RETURN_IF_ERROR(CopyIn(input.host, input.ahead, input.bytes));
      std::memcpy(Show(input.device), Show(input.ahead), input.bytes);
    }
    for (auto& lane : lanes_) lane->queue.clear();
    for (int i = 0; i < execution.count; ++i) {
      lanes_[static_cast<int>(execution.lane_of(i))]->queue.push_back(i);
    }
    std::vector<std::thread> threads;
    for (auto& lane : lanes_) {
      threads.emplace_back([this, &execution, lane = lane.get()] {
        for (int i : lane->queue) {
          volatile int turns = static_cast<int>(lane->random_.Below(kMaxDelay));
          while (turns > 0) turns = turns - 1;
          if (failed()) return;
          absl::Status status = execution.run(i);
          if (!status.ok()) return Fail(status);
        }
      });
    }
    execution.meanwhile();
    for (std::thread& thread : threads) thread.join();
    for (const StepFetch& fetch : execution.fetches) {
      MF_RETURN_IF_ERROR(CopyOut(fetch.device, fetch.host, fetch.bytes));
    }
    std::lock_guard<std::mutex> lock(mu_);
    return failure_;
  }

  absl::Status WaitFor(EventId id) {
    std::unique_lock<std::mutex> lock(mu_);
    if (waits_++ == options_.ignored_wait) return absl::OkStatus();
    while (fired_[id] != step_ && failure_.ok()) {
      if (changed_.wait_until(lock, deadline_.ToChrono()) == std::cv_status::timeout) {
        return absl::DeadlineExceededError(absl::StrCat("event ", id, " was not recorded in time"));
      }
    }
    return failure_;
  }
  void Fire(EventId id) {
    std::lock_guard<std::mutex> lock(mu_);
    fired_[id] = step_;
    changed_.notify_all();
  }

 private:
  bool failed() {
    std::lock_guard<std::mutex> lock(mu_);
    return !failure_.ok();
  }
  void Fail(const absl::Status& status) {
    std::lock_guard<std::mutex> lock(mu_);
    if (failure_.ok()) failure_ = status;
    changed_.notify_all();
  }

  const std::string name_;
  const QueuedDeviceOptions options_;
  DeviceTraits traits_;
  std::vector<std::unique_ptr<QueuedLane>> lanes_;
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<uint64_t> fired_;  // per event: the last step that it fired in
  uint64_t step_ = 0;
  int waits_ = 0;
  absl::Status failure_;
  MonotonicTime deadline_;
};

absl::Status QueuedLane::Wait(EventId id) { return device_->WaitFor(id); }
absl::Status QueuedLane::Record(EventId id) {
  device_->Fire(id);
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Device> CreateQueuedDevice(int index, const QueuedDeviceOptions& options) {
  return std::make_unique<QueuedDevice>(index, options);
}

}  // namespace mirrorflow
