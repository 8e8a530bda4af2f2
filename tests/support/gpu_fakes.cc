// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu_fakes.h"

#include <string>
#include <utility>
#include <vector>

#include "distribute/all_kernels.h"
#include "distribute/collective/nccl/nccl_communicator.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/graph/variable_handle.h"
#include "framework/session/session_backend.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/device/cuda_device.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/support/logical_gpus.h"

namespace mirrorflow {
namespace {

// An operand that a kernel accesses, and its size.
struct Touched {
  enum { kInput, kOutput, kScratch } what;
  int index;
  int64_t bytes;
  bool is_write;
};

int64_t BytesOf(const Shape& shape, DataType dtype) {
  return shape.num_elements() * static_cast<int64_t>(DataTypeSize(dtype));
}

std::vector<Touched> OperandsOf(const KernelContext& c, int64_t scratch_bytes) {
  std::vector<Touched> all;
  const Node& node = c.node();
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (c.input_dtype(i) == DT_RESOURCE) {
      const Node& variable = VariableOf(node.input(i));
      const int64_t bytes =
          BytesOf(variable.attr<Shape>("shape"), variable.attr<DataType>("dtype"));
      all.push_back({Touched::kInput, i, bytes, node.op().role == OpRole::kWrite});
    } else if (!node.is_static_input(i)) {
      all.push_back({Touched::kInput, i, BytesOf(c.input_shape(i), c.input_dtype(i)), false});
    }
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    all.push_back({Touched::kOutput, i, BytesOf(c.output_shape(i), c.output_dtype(i)), true});
  }
  if (scratch_bytes > 0) all.push_back({Touched::kScratch, 0, scratch_bytes, true});
  return all;
}

MemoryRange RangeOf(const Touched& t, const KernelArgs& args) {
  const std::byte* const begin = t.what == Touched::kInput    ? args.input<std::byte>(t.index)
                                 : t.what == Touched::kOutput ? args.output<std::byte>(t.index)
                                                              : args.scratch<std::byte>();
  return {begin, static_cast<size_t>(t.bytes), t.is_write};
}

// A GPU kernel that reports its memory accesses to the fake.
class WatchedKernel final : public Kernel {
 public:
  WatchedKernel(std::string name, std::unique_ptr<const Kernel> kernel,
                std::vector<Touched> operands)
      : name_(std::move(name)), kernel_(std::move(kernel)), operands_(std::move(operands)) {}

  absl::Status Run(const KernelArgs& args, Lane& lane) const override {
    std::vector<MemoryRange> accesses;
    for (const Touched& operand : operands_) accesses.push_back(RangeOf(operand, args));
    const FakeAccesses watched(name_, std::move(accesses));
    return kernel_->Run(args, lane);
  }

 private:
  const std::string name_;
  const std::unique_ptr<const Kernel> kernel_;
  const std::vector<Touched> operands_;
};

const KernelRegistry& GpuKernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry();
    RegisterCudaKernels(*kernels);
    return kernels;
  }();
  return *registry;
}

absl::StatusOr<KernelPlan> CreateWatched(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(KernelPlan plan, GpuKernels().Create(kGpu, c));
  plan.kernel = std::make_unique<WatchedKernel>(c.node().name(), std::move(plan.kernel),
                                                OperandsOf(c, plan.scratch_bytes));
  return plan;
}

absl::StatusOr<KernelPlan> CreateOnHost(const KernelContext& c) {
  return AllKernels().Create("CPU", c);
}

const KernelRegistry& FakeKernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry();
    for (const std::string& op : GpuKernels().Ops(kGpu)) kernels->Register(op, kGpu, CreateWatched);
    for (const std::string& op : AllKernels().Ops("CPU")) {
      kernels->Register(op, "CPU", CreateOnHost);
    }
    kernels->SetLibrary(kGpu, [] { return GpuKernels().NewLibrary(kGpu); });
    return kernels;
  }();
  return *registry;
}

absl::Status SetDevices(const std::vector<int>& gpus, SessionBackend* backend) {
  for (size_t i = 0; i < gpus.size(); ++i) {
    MF_ASSIGN_OR_RETURN(auto device, CreateCudaDevice(static_cast<int>(i), gpus[i],
                                                      {.collective_memory = NcclMemory()}));
    backend->devices.push_back(std::move(device));
  }
  backend->kernels = &FakeKernels();
  return absl::OkStatus();
}

}  // namespace

absl::Status SetFakeGpus(const TestSessionOptions& options, SessionBackend* backend) {
  std::vector<int> gpus;
  for (int i = 0; i < options.replicas; ++i) gpus.push_back(i);
  MF_RETURN_IF_ERROR(SetDevices(gpus, backend));
  backend->connect = [gpus, timeout = options.collective_timeout](
                         const Topology& topology, absl::Span<const int> ranks,
                         WorkerGroup* workers, uint64_t, MonotonicTime) {
    return ConnectNccl(topology, ranks, gpus, workers, MonotonicTime::Now() + timeout,
                       {.timeout = timeout});
  };
  return absl::OkStatus();
}

absl::Status SetLogicalFakeGpus(const TestSessionOptions& options, SessionBackend* backend) {
  MF_RETURN_IF_ERROR(SetLogicalGpus(options, backend));
  backend->kernels = &FakeKernels();
  return absl::OkStatus();
}

}  // namespace mirrorflow
