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
  BoundTransfer(const Collective& collective, std::vector<int64_t> counts,
                const CollectiveBinding& binding)
      : planned_(binding.plan.collectives[collective.sequence]),
        binding_(binding),
        counts_(std::move(counts)),
        collective_(collective) {
    if (auto* scatter = std::get_if<ReduceScatter>(&collective_.operation)) {
      scatter->counts = counts_;
    } else if (auto* gather = std::get_if<AllGather>(&collective_.operation)) {
      gather->counts = counts_;
    }
  }

  const Collective& collective() const override { return collective_; }
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

// An update of variables by a gradient that the ranks reduce, or by a matrix product of their rows.
// Also implements the update rules, which call the kernel.
class BoundUpdate final : public BoundCollective, UpdateRule, ProductUpdateRule {
 public:
  BoundUpdate(const Collective& collective, std::vector<int64_t> counts,
              const CollectiveBinding& binding)
      : planned_(binding.plan.collectives[collective.sequence]),
        call_(*planned_.update()),
        binding_(binding),
        counts_(std::move(counts)),
        variables_(call_.variables.size()),
        collective_(collective) {
    if (auto* update = std::get_if<Update>(&collective_.operation)) {
      update->variables = variables_;
      update->rule = this;
    } else {
      ProductUpdate& product = std::get<ProductUpdate>(collective_.operation);
      product.counts = counts_;
      product.variables = variables_;
      product.rule = this;
    }
  }

  const Collective& collective() const override { return collective_; }
  absl::Status Start(Communicator* communicator, Lane& lane) override {
    nanoseconds_ = 0;
    run_ = binding_.run.load(std::memory_order_relaxed);
    collective_.in = AddressOf(binding_, planned_.in);
    if (auto* product = std::get_if<ProductUpdate>(&collective_.operation)) {
      product->right =
          AddressOf(binding_, std::get<PlannedProductUpdate>(planned_.operation).right);
    }
    for (size_t i = 0; i < variables_.size(); ++i) {
      const int32_t operand = call_.first_operand + call_.variables[i];
      variables_[i] = AddressOf(binding_, binding_.plan.operands[operand]);
    }
    if (communicator == nullptr) return absl::OkStatus();
    // After this point, other ranks can write the variables.
    if (binding_.shares_variables) binding_.updated.store(true, std::memory_order_relaxed);
    return communicator->Start(collective_, &lane);
  }

  absl::Status Finish(Communicator* communicator, Lane& lane) override {
    if (communicator != nullptr) return communicator->Finish(collective_, &lane);
    if (const auto* product = std::get_if<ProductUpdate>(&collective_.operation)) {
      const ProductRows rows{collective_.in, product->right, counts_[0]};
      Apply({&rows, 1}, 0, product->rows);
    } else {
      Apply(0, collective_.in, planned_.count);
    }
    return absl::OkStatus();
  }

  int64_t update_ns() const override { return nanoseconds_; }

 private:
  void Apply(int64_t first, const void* gradient, int64_t count) override {
    RunKernel([&](const Kernel& kernel, const KernelArgs& args) {
      kernel.AsUpdate()->RunPart(args, gradient, first, count);
    });
  }
  void Apply(absl::Span<const ProductRows> parts, int64_t first, int64_t last) override {
    RunKernel([&](const Kernel& kernel, const KernelArgs& args) {
      kernel.AsUpdateByProduct()->RunRows(args, parts, first, last);
    });
  }

  // Calls `run(kernel, args)`, and adds its time to update_ns() if the step is traced.
  template <typename Run>
  void RunKernel(const Run& run) {
    if (run_ == binding_.run.load(std::memory_order_relaxed)) {
      binding_.updated.store(true, std::memory_order_relaxed);
    }
    const Plan& plan = binding_.plan;
    const KernelArgs args(binding_.bases, &plan.operands[call_.first_operand], call_.num_inputs,
                          /*num_outputs=*/0);
    const int64_t begin_ns = binding_.traced ? absl::GetCurrentTimeNanos() : 0;
    run(*plan.kernels[call_.kernel], args);
    if (binding_.traced) nanoseconds_ += absl::GetCurrentTimeNanos() - begin_ns;
  }

  const PlannedCollective& planned_;
  const UpdateCall& call_;
  const CollectiveBinding binding_;
  const std::vector<int64_t> counts_;  // rows of the product's operands, by rank
  std::vector<std::byte*> variables_;  // addresses in this step
  Collective collective_;
  int64_t nanoseconds_ = 0;
  uint64_t run_ = 0;  // the run that started the collective
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
    return std::make_unique<BoundTransfer>(collective, std::move(counts), binding);
  };
  const auto update = [&](auto operation, std::vector<int64_t> counts = {}) -> Bound {
    collective.operation = operation;
    return std::make_unique<BoundUpdate>(collective, std::move(counts), binding);
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
          [&](const PlannedUpdate& p) {
            return update(Update{.reduction = p.reduction, .count = planned.count});
          },
          [&](const PlannedProductUpdate& p) {
            return update(ProductUpdate{.rows = p.rows, .row_bytes = p.row_bytes},
                          CountsOf(p.split, rows));
          },
      },
      planned.operation);
}

}  // namespace mirrorflow
