// SPDX-License-Identifier: Apache-2.0
#include "tests/support/delayed_kernels.h"

#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "distribute/all_kernels.h"
#include "framework/core/status.h"
#include "framework/runtime/update_kernel.h"

namespace mirrorflow {
namespace {

void Delay() {
  constexpr uint32_t kOneIn = 4, kMaxMicroseconds = 200;
  thread_local std::minstd_rand random(std::random_device{}());
  if (random() % kOneIn == 0) absl::SleepFor(absl::Microseconds(random() % kMaxMicroseconds));
}

// A kernel that is `Base` or an extension of it.
template <typename Base>
class Delayed : public Base {
 public:
  explicit Delayed(std::unique_ptr<const Kernel> kernel) : kernel_(std::move(kernel)) {}
  absl::Status Run(const KernelArgs& args, Lane& lane) const final {
    Delay();
    return kernel_->Run(args, lane);
  }

 protected:
  const std::unique_ptr<const Kernel> kernel_;
};

class DelayedUpdate final : public Delayed<UpdateKernel> {
 public:
  using Delayed::Delayed;
  void RunPart(const KernelArgs& args, const void* gradient, int64_t first,
               int64_t count) const override {
    Delay();
    kernel_->AsUpdate()->RunPart(args, gradient, first, count);
  }
};

class DelayedUpdateByProduct final : public Delayed<UpdateByProductKernel> {
 public:
  using Delayed::Delayed;
  void RunRows(const KernelArgs& args, absl::Span<const ProductRows> parts, int64_t first,
               int64_t last) const override {
    Delay();
    kernel_->AsUpdateByProduct()->RunRows(args, parts, first, last);
  }
};

absl::StatusOr<KernelPlan> Create(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(KernelPlan plan, AllKernels().Create("CPU", c));
  if (plan.kernel->AsUpdate() != nullptr) {
    plan.kernel = std::make_unique<DelayedUpdate>(std::move(plan.kernel));
  } else if (plan.kernel->AsUpdateByProduct() != nullptr) {
    plan.kernel = std::make_unique<DelayedUpdateByProduct>(std::move(plan.kernel));
  } else {
    plan.kernel = std::make_unique<Delayed<Kernel>>(std::move(plan.kernel));
  }
  return plan;
}

}  // namespace

const KernelRegistry& DelayedKernels() {
  static const KernelRegistry* const kernels = [] {
    auto* const registry = new KernelRegistry();
    for (const std::string& op : AllKernels().Ops("CPU")) registry->Register(op, "CPU", Create);
    return registry;
  }();
  return *kernels;
}

}  // namespace mirrorflow
