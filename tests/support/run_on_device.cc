// SPDX-License-Identifier: Apache-2.0
#include "tests/support/run_on_device.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/graph/sharding.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kTimeout = absl::Minutes(5);
constexpr std::byte kGarbage{0xff};  // NaN, -1
constexpr size_t kGuard = 64;

class Context final : public KernelContext {
 public:
  Context(const CaseNode& node, const ShardOptions& shard, KernelLibrary* library,
          const KernelOptions& options, TuningTable* tuning)
      : node_(node),
        global_outputs_(node.OutputShapes()),
        outputs_(shard.output_shapes.empty() ? global_outputs_ : shard.output_shapes),
        shardings_(shard.output_shardings),
        library_(library),
        options_(options),
        tuning_(tuning) {
    shardings_.resize(outputs_.size(), Replicated());
  }

  const Node& node() const override { return *node_.node; }
  const Shape& input_shape(int i) const override { return node_.inputs[i].shape(); }
  const Shape& output_shape(int i) const override { return outputs_[i]; }
  const Tensor& constant(int i) const override {
    MF_CHECK(node_.node->is_static_input(i));
    return node_.inputs[i];
  }
  const Sharding& output_sharding(int i) const override { return shardings_[i]; }
  const Shape& global_output_shape(int i) const override { return global_outputs_[i]; }
  KernelLibrary* library() const override { return library_; }
  const KernelOptions& options() const override { return options_; }
  TuningTable* tuning() const override { return tuning_; }

 private:
  const CaseNode& node_;
  const std::vector<Shape> global_outputs_, outputs_;
  std::vector<Sharding> shardings_;
  KernelLibrary* const library_;
  const KernelOptions options_;
  TuningTable* const tuning_;
};

// Returns the alignment of operands: feeds on the host can begin at any element.
size_t AlignmentOf(const Device& device, DataType dtype) {
  return device.traits().host_memory ? DataTypeSize(dtype) : kBufferAlignment;
}

// Device memory between guards, at an address that is aligned to `alignment` but not to more.
class Guarded {
 public:
  static absl::StatusOr<Guarded> Create(Device& device, size_t bytes, size_t alignment) {
    Guarded guarded;
    guarded.bytes_ = bytes;
    guarded.begin_ = kGuard + alignment % kGuard;
    MF_ASSIGN_OR_RETURN(guarded.memory_, device.Allocate(guarded.all_bytes()));
    const std::vector<std::byte> garbage(guarded.all_bytes(), kGarbage);
    MF_RETURN_IF_ERROR(device.CopyIn(garbage.data(), guarded.memory_.get(), garbage.size()));
    return guarded;
  }
  std::byte* data() const { return memory_.get() + begin_; }
  absl::Status Fill(Device& device, const Tensor& tensor) const {
    if (bytes_ == 0) return absl::OkStatus();
    return device.CopyIn(tensor.raw(), data(), bytes_);
  }
  // Returns the contents after checking the guards.
  absl::StatusOr<std::vector<std::byte>> Read(Device& device) const {
    std::vector<std::byte> all(all_bytes());
    MF_RETURN_IF_ERROR(device.CopyOut(memory_.get(), all.data(), all.size()));
    const auto is_garbage = [](std::byte b) { return b == kGarbage; };
    if (!std::all_of(all.begin(), all.begin() + begin_, is_garbage) ||
        !std::all_of(all.begin() + begin_ + bytes_, all.end(), is_garbage)) {
      return absl::InternalError("the kernel writes outside of an operand");
    }
    return std::vector<std::byte>(all.begin() + begin_, all.begin() + begin_ + bytes_);
  }

 private:
  size_t all_bytes() const { return begin_ + bytes_ + 2 * kGuard; }

  size_t bytes_ = 0, begin_ = 0;
  std::shared_ptr<std::byte> memory_;
};

bool Holds(const std::vector<std::byte>& bytes, const Tensor& tensor) {
  return bytes.empty() || std::memcmp(bytes.data(), tensor.raw(), bytes.size()) == 0;
}

void CopyTo(const std::vector<std::byte>& bytes, const Tensor& tensor) {
  if (!bytes.empty()) std::memcpy(tensor.raw(), bytes.data(), bytes.size());
}

}  // namespace

std::unique_ptr<KernelContext> ContextOf(const CaseNode& node, KernelLibrary* library,
                                         const KernelOptions& options) {
  return std::make_unique<Context>(node, ShardOptions(), library, options, /*tuning=*/nullptr);
}

NodesOnDevice::NodesOnDevice(Device* device, const KernelRegistry* kernels,
                             const KernelOptions& options, TuningTable* tuning)
    : device_(*device),
      kernels_(*kernels),
      options_(options),
      tuning_(tuning),
      library_(kernels->NewLibrary(device->traits().type)) {}

absl::StatusOr<int> NodesOnDevice::Add(const CaseNode& node, const ShardOptions& shard) {
  const Context context(node, shard, library_.get(), options_, tuning_);
  MF_ASSIGN_OR_RETURN(KernelPlan plan, kernels_.Create(device_.traits().type, context));
  made_.push_back({&node, std::move(plan), shard.params,
                   shard.output_shapes.empty() ? node.OutputShapes() : shard.output_shapes});
  return static_cast<int>(made_.size()) - 1;
}

absl::Status NodesOnDevice::Finish() {
  return library_ != nullptr ? library_->Finish() : absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> NodesOnDevice::RunWith(const Made& made,
                                                           const std::pair<int, int>* pair,
                                                           std::vector<Tensor>* variables) {
  const Node& node = *made.node->node;
  const std::vector<Tensor>& inputs = made.node->inputs;
  std::vector<Guarded> memory;  // inputs, outputs, scratch
  std::vector<Tensor> outputs;
  const auto allocate = [&](size_t bytes, size_t alignment) -> absl::Status {
    MF_ASSIGN_OR_RETURN(Guarded guarded, Guarded::Create(device_, bytes, alignment));
    memory.push_back(std::move(guarded));
    return absl::OkStatus();
  };
  for (int i = 0; i < node.num_inputs(); ++i) {
    MF_RETURN_IF_ERROR(allocate(inputs[i].bytes(), AlignmentOf(device_, inputs[i].dtype())));
    if (!node.is_static_input(i)) MF_RETURN_IF_ERROR(memory.back().Fill(device_, inputs[i]));
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    MF_ASSIGN_OR_RETURN(Tensor output,
                        Tensor::Allocate(node.output_dtype(i), made.output_shapes[i]));
    MF_RETURN_IF_ERROR(allocate(output.bytes(), AlignmentOf(device_, output.dtype())));
    outputs.push_back(std::move(output));
  }
  MF_RETURN_IF_ERROR(allocate(made.plan.scratch_bytes, kGuard));

  MF_ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> params,
                      device_.Allocate(sizeof(StepParams)));
  MF_RETURN_IF_ERROR(device_.CopyIn(reinterpret_cast<const std::byte*>(&made.params), params.get(),
                                    sizeof made.params));
  std::vector<std::byte*> bases = {device_.KernelAddress(params.get())};
  std::vector<Operand> operands;
  for (size_t i = 0; i < memory.size(); ++i) {
    const bool over = pair != nullptr && static_cast<int>(i) == node.num_inputs() + pair->second;
    operands.push_back({static_cast<RegionId>(bases.size()), 0});
    bases.push_back(device_.KernelAddress(memory[over ? pair->first : i].data()));
  }
  const KernelArgs args(bases.data(), operands.data(), node.num_inputs(), node.num_outputs());
  MF_RETURN_IF_ERROR(device_.Execute(
      {.count = 1,
       .lane_of = [](int) { return LaneKind::kCompute; },
       .repetition_of = [](int) { return Repetition::kNone; },
       .run = [&](int) { return made.plan.kernel->Run(args, device_.lane(LaneKind::kCompute)); },
       .meanwhile = [] {},
       .deadline = MonotonicTime::Now() + kTimeout,
       .recording = nullptr,
       .outcome = nullptr}));

  variables->assign(node.num_inputs(), Tensor());
  for (size_t k = 0; k < memory.size(); ++k) {
    MF_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, memory[k].Read(device_));
    const int i = static_cast<int>(k), output = i - node.num_inputs();
    if (i < node.num_inputs()) {
      const bool over = pair != nullptr && pair->first == i;
      if (node.input(i).dtype() == DT_RESOURCE) {
        MF_ASSIGN_OR_RETURN((*variables)[i], inputs[i].Clone());
        CopyTo(bytes, (*variables)[i]);
      } else if (over) {
        CopyTo(bytes, outputs[pair->second]);
      } else if (!node.is_static_input(i) && !Holds(bytes, inputs[i])) {
        return absl::InternalError(absl::StrCat("the kernel writes to input ", i));
      }
    } else if (output < node.num_outputs() && (pair == nullptr || pair->second != output)) {
      CopyTo(bytes, outputs[output]);
    }
  }
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> NodesOnDevice::Run(int number) {
  const Made& made = made_[number];
  const std::vector<Tensor>& inputs = made.node->inputs;
  std::vector<Tensor> variables, ignored;
  MF_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, RunWith(made, nullptr, &variables));
  for (const std::pair<int, int>& pair : made.plan.in_place) {
    if (inputs[pair.first].bytes() != outputs[pair.second].bytes()) continue;
    MF_ASSIGN_OR_RETURN(const std::vector<Tensor> over, RunWith(made, &pair, &ignored));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (Tensor::Identical(outputs[i], over[i])) continue;
      return absl::InternalError(absl::StrCat("the kernel changes output ", i, " when output ",
                                              pair.second, " is written over input ", pair.first));
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (variables[i].has_value() && variables[i].bytes() > 0) {
      std::memcpy(inputs[i].raw(), variables[i].raw(), variables[i].bytes());
    }
  }
  return outputs;
}

namespace {

// Returns the case's results, or those that the CPU computes. Changes only copies of variables.
absl::Status Expected(const OpCase& op_case, const OpRegistry& ops, const KernelRegistry& kernels,
                      std::vector<Tensor>* outputs, std::vector<Tensor>* variables) {
  MF_ASSIGN_OR_RETURN(const CaseNode made, MakeCaseNode(op_case, ops));
  MF_ASSIGN_OR_RETURN(*outputs, EvaluateCase(made, kernels));
  *variables = {};
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    if (op_case.operands[i].is_variable) variables->push_back(made.inputs[i]);
  }
  if (!op_case.has_results()) return absl::OkStatus();
  *outputs = op_case.outputs;
  *variables = op_case.after;
  return absl::OkStatus();
}

void CompareAll(const OpCase& op_case, absl::string_view what, absl::Span<const Tensor> want,
                absl::Span<const Tensor> got, const Tolerance& tolerance, CheckReport* report) {
  for (size_t i = 0; i < std::min(want.size(), got.size()); ++i) {
    const std::string difference = Difference(want[i], got[i], tolerance);
    if (!difference.empty()) report->Fail(op_case, absl::StrCat(what, " ", i, ": ", difference));
  }
}

}  // namespace

CheckReport CheckCasesOnDevice(absl::Span<const OpCase> cases, const OpRegistry& ops,
                               const KernelRegistry& kernels, Device& device, double units,
                               const KernelOptions& options, TuningTable* tuning) {
  CheckReport report;
  NodesOnDevice nodes(&device, &kernels, options, tuning);
  struct Pending {
    const OpCase* op_case;
    std::unique_ptr<CaseNode> node;
    int number;
  };
  std::vector<Pending> pending;
  for (const OpCase& op_case : cases) {
    absl::StatusOr<CaseNode> made = MakeCaseNode(op_case, ops);
    if (!made.ok()) {
      if (!op_case.fails) report.Fail(op_case, made.status().ToString());
      continue;
    }
    auto node = std::make_unique<CaseNode>(*std::move(made));
    const absl::StatusOr<int> number = nodes.Add(*node);
    if (!number.ok()) {
      if (!op_case.fails) report.Fail(op_case, number.status().ToString());
      continue;
    }
    pending.push_back({&op_case, std::move(node), *number});
  }
  const absl::Status finished = nodes.Finish();
  if (!finished.ok()) {
    report.failures.push_back(finished.ToString());
    return report;
  }
  for (const Pending& each : pending) {
    ++report.checked;
    const OpCase& op_case = *each.op_case;
    const absl::StatusOr<std::vector<Tensor>> results = nodes.Run(each.number);
    if (op_case.fails || !results.ok()) {
      if (op_case.fails && results.ok()) report.Fail(op_case, "expected an error, got results");
      if (!op_case.fails) report.Fail(op_case, results.status().ToString());
      continue;
    }
    std::vector<Tensor> outputs, variables, changed;
    const absl::Status known = Expected(op_case, ops, kernels, &outputs, &variables);
    if (!known.ok()) {
      report.Fail(op_case, known.ToString());
      continue;
    }
    for (size_t i = 0; i < each.node->inputs.size(); ++i) {
      if (op_case.operands[i].is_variable) changed.push_back(each.node->inputs[i]);
    }
    Tolerance tolerance = ToleranceOf(*each.node->node, each.node->inputs, outputs);
    if (options.allow_tf32) {
      // Scales 16 and 64 units of float, as in ToleranceOf, to 1 and 2 units of half.
      const double units_of_float = RoundingUnit(DT_HALF) / RoundingUnit(DT_FLOAT);
      tolerance.relative *= units_of_float / 16;
      tolerance.absolute *= 2 * units_of_float / 64;
    }
    tolerance.absolute += units * LargestUnit(each.node->inputs, outputs);
    CompareAll(op_case, "output", outputs, *results, tolerance, &report);
    CompareAll(op_case, "variable", variables, changed, tolerance, &report);
  }
  return report;
}

}  // namespace mirrorflow
