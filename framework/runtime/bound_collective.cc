// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/bound_collective.h"

#include <utility>

#include "absl/time/clock.h"
#include "framework/core/overloaded.h"
#include "framework/runtime/update_kernel.h"

namespace mirrorflow {
namespace {

std::byte* AddressOf(const CollectiveBinding& binding, const Operand& operand) {
  return binding.bases[operand.region] + operand.offset;
}

std::vector<int64_t> CountsOf(const SplitRows& split,
                              const std::vector<std::vector<int64_t>>& rows) {
  std::vector<int64_t> counts;
  for (const int64_t own : rows[split.axis]) counts.push_back(own * split.elements_per_row);
  return counts;
}

// A collective without an update kernel.
class BoundTransfer final : public BoundCollective {
 public:
  BoundTransfer(int sequence, Collective collective, std::vector<int64_t> counts,
                const CollectiveBinding& binding)
      : planned_(binding.plan.collectives[sequence]),
        binding_(binding),
        counts_(std::move(counts)),
        collective_(std::move(collective)) {
    if (auto* scatter = std::get_if<ReduceScatter>(&collective_.operation)) {
      scatter->counts = counts_;
    } else if (auto* gather = std::get_if<AllGather>(&collective_.operation)) {
      gather->counts = counts_;
    }
  }

  absl::Status Start(Communicator* communicator, Lane& lane) override {
    if (communicator == nullptr) return absl::OkStatus();
    if (!std::holds_alternative<Barrier>(collective_.operation)) {
      collective_.in = AddressOf(binding_, planned_.in);
      collective_.out = AddressOf(binding_, planned_.out);
    }
    return communicator->Start(collective_, &lane);
  }
  absl::Status Finish(Communicator* communicator, Lane& lane) override {
    return communicator == nullptr ? absl::OkStatus() : communicator->Finish(collective_, &lane);
  }

 private:
  const PlannedCollective& planned_;
  const CollectiveBinding binding_;
  const std::vector<int64_t> counts_;
  Collective collective_;
};

// Calls the kernel of an update.
class BoundCall {
 public:
  BoundCall(const UpdateCall& call, const CollectiveBinding& binding)
      : call_(call), binding_(binding), variables_(call.variables.size()) {}

  // Returns the addresses of the variables in this step.
  absl::Span<std::byte* const> LocateVariables() {
    nanoseconds_ = 0;
    run_ = binding_.run.load(std::memory_order_relaxed);
    for (size_t i = 0; i < variables_.size(); ++i) {
      const Plan& plan = binding_.plan;
      variables_[i] = AddressOf(binding_, plan.operands[call_.first_operand + call_.variables[i]]);
    }
    return variables_;
  }

  // Called before the other ranks can write the variables.
  void BeforeStart() {
    if (binding_.shares_variables) binding_.updated.store(true, std::memory_order_relaxed);
  }

  // Calls `work(kernel, args)`, and adds its time to nanoseconds() if the step is traced.
  template <typename Work>
  void Run(const Work& work) {
    if (run_ == binding_.run.load(std::memory_order_relaxed)) {
      binding_.updated.store(true, std::memory_order_relaxed);
    }
    const Plan& plan = binding_.plan;
    const KernelArgs args(binding_.bases, &plan.operands[call_.first_operand], call_.num_inputs,
                          /*num_outputs=*/0);
    const int64_t begin_ns = binding_.traced ? absl::GetCurrentTimeNanos() : 0;
    work(*plan.kernels[call_.kernel], args);
    if (binding_.traced) nanoseconds_ += absl::GetCurrentTimeNanos() - begin_ns;
  }

  int64_t nanoseconds() const { return nanoseconds_; }

 private:
  const UpdateCall& call_;
  const CollectiveBinding binding_;
  std::vector<std::byte*> variables_;
  int64_t nanoseconds_ = 0;
  uint64_t run_ = 0;  // in which the collective was started
};

class BoundUpdate final : public BoundCollective, UpdateRule {
 public:
  BoundUpdate(const Collective& collective, const PlannedUpdate& planned,
              const CollectiveBinding& binding)
      : planned_(binding.plan.collectives[collective.sequence]),
        binding_(binding),
        call_(planned.call, binding),
        collective_(collective),
        update_({.reduction = planned.reduction, .count = planned_.count, .rule = this}) {}

  absl::Status Start(Communicator* communicator, Lane& lane) override {
    collective_.in = AddressOf(binding_, planned_.in);
    update_.variables = call_.LocateVariables();
    if (communicator == nullptr) return absl::OkStatus();
    call_.BeforeStart();
    collective_.operation = update_;
    return communicator->Start(collective_, &lane);
  }
  absl::Status Finish(Communicator* communicator, Lane& lane) override {
    if (communicator != nullptr) return communicator->Finish(collective_, &lane);
    Apply(0, collective_.in, update_.count);
    return absl::OkStatus();
  }
  int64_t update_ns() const override { return call_.nanoseconds(); }

 private:
  void Apply(int64_t first, const void* gradient, int64_t count) override {
    call_.Run([&](const Kernel& kernel, const KernelArgs& args) {
      kernel.AsUpdate()->RunPart(args, gradient, first, count);
    });
  }

  const PlannedCollective& planned_;
  const CollectiveBinding binding_;
  BoundCall call_;
  Collective collective_;
  Update update_;
};

class BoundProductUpdate final : public BoundCollective, ProductUpdateRule {
 public:
  BoundProductUpdate(const Collective& collective, const PlannedProductUpdate& planned,
                     std::vector<int64_t> counts, const CollectiveBinding& binding)
      : planned_(binding.plan.collectives[collective.sequence]),
        right_(planned.right),
        binding_(binding),
        counts_(std::move(counts)),
        call_(planned.call, binding),
        collective_(collective),
        update_({.counts = counts_,
                 .rows = planned.rows,
                 .row_bytes = planned.row_bytes,
                 .rule = this}) {}

  absl::Status Start(Communicator* communicator, Lane& lane) override {
    collective_.in = AddressOf(binding_, planned_.in);
    update_.right = AddressOf(binding_, right_);
    update_.variables = call_.LocateVariables();
    if (communicator == nullptr) return absl::OkStatus();
    call_.BeforeStart();
    collective_.operation = update_;
    return communicator->Start(collective_, &lane);
  }
  absl::Status Finish(Communicator* communicator, Lane& lane) override {
    if (communicator != nullptr) return communicator->Finish(collective_, &lane);
    const ProductRows rows{collective_.in, update_.right, counts_[0]};
    Apply({&rows, 1}, 0, update_.rows);
    return absl::OkStatus();
  }
  int64_t update_ns() const override { return call_.nanoseconds(); }

 private:
  void Apply(absl::Span<const ProductRows> parts, int64_t first, int64_t last) override {
    call_.Run([&](const Kernel& kernel, const KernelArgs& args) {
      kernel.AsUpdateByProduct()->RunRows(args, parts, first, last);
    });
  }

  const PlannedCollective& planned_;
  const Operand right_;
  const CollectiveBinding binding_;
  const std::vector<int64_t> counts_;
  BoundCall call_;
  Collective collective_;
  ProductUpdate update_;
};

}  // namespace

std::unique_ptr<BoundCollective> BindCollective(int sequence,
                                                const std::vector<std::vector<int64_t>>& rows,
                                                const CollectiveBinding& binding) {
  const PlannedCollective& planned = binding.plan.collectives[sequence];
  using Bound = std::unique_ptr<BoundCollective>;
  Collective collective{.dtype = planned.dtype,
                        .name = planned.name,
                        .sequence = sequence,
                        .urgency = planned.urgency};
  const auto transfer = [&](auto operation, std::vector<int64_t> counts = {}) -> Bound {
    collective.operation = operation;
    return std::make_unique<BoundTransfer>(sequence, collective, std::move(counts), binding);
  };
  return std::visit(
      Overloaded{
          [&](const Barrier& barrier) { return transfer(barrier); },
          [&](const PlannedAllReduce& p) {
            return transfer(AllReduce{p.reduction, planned.count});
          },
          [&](const PlannedReduceScatter& p) {
            return transfer(ReduceScatter{p.reduction, {}}, CountsOf(p.split, rows));
          },
          [&](const PlannedAllGather& p) { return transfer(AllGather{}, CountsOf(p.split, rows)); },
          [&](const PlannedUpdate& p) -> Bound {
            return std::make_unique<BoundUpdate>(collective, p, binding);
          },
          [&](const PlannedProductUpdate& p) -> Bound {
            return std::make_unique<BoundProductUpdate>(collective, p, CountsOf(p.split, rows),
                                                        binding);
          },
      },
      planned.operation);
}

}  // namespace mirrorflow
