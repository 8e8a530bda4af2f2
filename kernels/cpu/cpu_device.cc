// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/status.h"
#include "framework/runtime/usable_cpus.h"

namespace mirrorflow {
namespace {

class InlineLane final : public Lane {
 public:
  absl::Status Wait(EventId) override { return absl::OkStatus(); }
  absl::Status Record(EventId) override { return absl::OkStatus(); }
};

class CpuDevice final : public Device {
 public:
  CpuDevice(std::string name, AllocateFn allocate, int num_threads)
      : name_(std::move(name)),
        allocate_(std::move(allocate)),
        traits_({.num_threads = num_threads}),
        lanes_(num_threads) {}

  absl::string_view name() const override { return name_; }
  const DeviceTraits& traits() const override { return traits_; }
  std::unique_ptr<Device> Clone() const override {
    return std::make_unique<CpuDevice>(name_, allocate_, traits_.num_threads);
  }

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) override {
    if (allocate_ != nullptr) return allocate_(bytes);
    MF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, Buffer::Allocate(bytes));
    std::byte* data = buffer->data();
    return std::shared_ptr<std::byte>(std::move(buffer), data);
  }
  absl::Status CopyIn(const std::byte* host, std::byte* device, size_t bytes) override {
    std::memcpy(device, host, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyOut(const std::byte* device, std::byte* host, size_t bytes) override {
    std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }
  Lane& lane(LaneKind) override { return lanes_[0]; }
  Lane& lane_of_thread(int thread) override { return lanes_[thread]; }
  absl::Status ReserveEvents(int) override { return absl::OkStatus(); }

  absl::Status Execute(const Execution& execution) override {
    for (int i = 0; i < execution.count; ++i) MF_RETURN_IF_ERROR(execution.run(i));
    return absl::OkStatus();
  }

 private:
  const std::string name_;
  const AllocateFn allocate_;
  const DeviceTraits traits_;
  std::vector<InlineLane> lanes_;  // by thread
};

// Returns an entry of the CPU topology that Linux reports, or -1 if the entry is missing.
int Topology(int cpu, absl::string_view what) {
  std::ifstream file(absl::StrCat("/sys/devices/system/cpu/cpu", cpu, "/topology/", what));
  int value = -1;
  return file >> value ? value : -1;
}

}  // namespace

std::unique_ptr<Device> CreateCpuDevice(int index, AllocateFn allocate, int num_threads) {
  return std::make_unique<CpuDevice>(absl::StrCat("CPU:", index), std::move(allocate), num_threads);
}

int NumUsableCores(const Cgroup& cgroup) {
  std::set<std::pair<int, int>> cores;
  for (const int cpu : UsableCpus()) {
    const int package = Topology(cpu, "physical_package_id"), core = Topology(cpu, "core_id");
    // If the core is unknown, counts the CPU as a core.
    cores.emplace(package, core >= 0 ? core : -1 - cpu);
  }
  return std::clamp(static_cast<int>(cores.size()), 1, NumUsableCpus(cgroup));
}

bool MayUseAllCores() {
  return static_cast<int64_t>(UsableCpus().size()) >= sysconf(_SC_NPROCESSORS_ONLN);
}

}  // namespace mirrorflow
