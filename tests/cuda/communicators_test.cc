// SPDX-License-Identifier: Apache-2.0
//
// The communicators of GPUs, on doubles of CUDA and NCCL.
#include <memory>
#include <utility>
#include <vector>

#include "distribute/collective/device_copy/device_copy_communicator.h"
#include "distribute/collective/nccl/nccl_communicator.h"
#include "distribute/collective/nccl/nccl_double.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_double.h"
#include "tests/conformance/communicator_conformance.h"

namespace mirrorflow {
namespace {

// A rank with a lane of its own, whose Finish waits for what Start has enqueued, as the suite wants
// to see it.
class Waiting final : public Communicator {
 public:
  Waiting(std::unique_ptr<Device> device, std::unique_ptr<Communicator> inner)
      : device_(std::move(device)), inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  absl::Status Start(const Collective& c, Lane*) override { return inner_->Start(c, &lane()); }
  absl::Status Finish(const Collective& c, Lane*) override {
    MF_RETURN_IF_ERROR(inner_->Finish(c, &lane()));
    const std::byte from[1] = {};
    std::byte to[1];
    MF_RETURN_IF_ERROR(lane().Read(from, to, 1, absl::InfiniteFuture()));
    return inner_->Check();
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    MF_ASSIGN_OR_RETURN(auto part, inner_->Split(color, key));
    MF_ASSIGN_OR_RETURN(auto device, CreateCudaDevice(rank(), rank()));
    return std::make_unique<Waiting>(std::move(device), std::move(part));
  }
  void Abort(absl::Status why) override { inner_->Abort(why); }

 private:
  Lane& lane() { return device_->lane(LaneKind::kCommunicate); }

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Communicator> inner_;
};

absl::StatusOr<Communicators> OnDevices(absl::StatusOr<Communicators> connected) {
  if (!connected.ok()) return connected;
  for (size_t r = 0; r < connected->size(); ++r) {
    const int rank = static_cast<int>(r);
    MF_ASSIGN_OR_RETURN(auto device, CreateCudaDevice(rank, rank));
    (*connected)[r] = std::make_unique<Waiting>(std::move(device), std::move((*connected)[r]));
  }
  return connected;
}

void Reset(int num_gpus) {
  ResetCudaDouble({.num_gpus = num_gpus});
  ResetNcclDouble();
}

const ConformanceCase kNccl = {
    "Nccl", [](int world_size, absl::Duration timeout) {
      Reset(world_size);
      std::vector<int> gpus;
      for (int i = 0; i < world_size; ++i) gpus.push_back(i);
      return OnDevices(CreateNcclCommunicators(gpus, {.timeout = timeout}));
    }};
const ConformanceCase kDeviceCopy = {
    "DeviceCopy", [](int world_size, absl::Duration timeout) {
      Reset(world_size);
      return OnDevices(CreateDeviceCopyCommunicators(world_size, 0, {.timeout = timeout}));
    }};

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorConformance, testing::ValuesIn(AtEveryWorldSize(kNccl)),
                         ConformanceCaseName);
// Of many ranks this takes long: a step of a collective is R × R waits of streams.
std::vector<ConformanceCase> Small(const std::vector<ConformanceCase>& all) {
  std::vector<ConformanceCase> cases;
  for (const ConformanceCase& c : all) {
    if (c.world_size <= 4) cases.push_back(c);
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(DeviceCopy, CommunicatorConformance,
                         testing::ValuesIn(Small(AtEveryWorldSize(kDeviceCopy))),
                         ConformanceCaseName);

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorAborts,
                         testing::ValuesIn(Small(AtEveryWorldSizeAboveOne(kNccl))),
                         ConformanceCaseName);
// Of device copy no rank's Start returns before all have come, as the others' would there. What
// ranks do differently NCCL does not see: session_test and doubles_test have what it answers.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorFailures);

}  // namespace
}  // namespace mirrorflow
