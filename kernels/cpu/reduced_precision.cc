// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/reduced_precision.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/status.h"
#include "framework/graph/graph.h"
#include "framework/graph/variable_handle.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

// --- A float twin of the node -----------------------------------------------------------------

absl::StatusOr<Tensor> WidenTensor(const Tensor& tensor) {
  if (!IsReducedFloat(tensor.dtype())) return tensor;
  MF_ASSIGN_OR_RETURN(Tensor wide, Tensor::Allocate(DT_FLOAT, tensor.shape()));
  WidenReduced(tensor.dtype(), reinterpret_cast<const uint16_t*>(tensor.raw()), wide.data<float>(),
               tensor.num_elements());
  return wide;
}

absl::StatusOr<AttrValue> WidenAttr(const AttrValue& value) {
  if (const DataType* dtype = value.get_if<DataType>()) {
    return AttrValue(IsReducedFloat(*dtype) ? DT_FLOAT : *dtype);
  }
  if (const Tensor* tensor = value.get_if<Tensor>()) {
    MF_ASSIGN_OR_RETURN(Tensor wide, WidenTensor(*tensor));
    return AttrValue(std::move(wide));
  }
  if (const AttrList* list = value.get_if<AttrList>()) {
    AttrList wide;
    for (const AttrValue& item : *list) {
      MF_ASSIGN_OR_RETURN(AttrValue wide_item, WidenAttr(item));
      wide.push_back(std::move(wide_item));
    }
    return AttrValue(std::move(wide));
  }
  return value;
}

// Adds a node that stands for an operand. For an ordinary operand, only the dtype matters.
absl::StatusOr<Node*> AddOperand(Graph& graph, const Output& value) {
  AttrMap attrs;
  OpRole role = OpRole::kPlaceholder;
  DataType dtype = value.dtype();
  if (dtype == DT_RESOURCE) {
    role = OpRole::kVariable;
    dtype = VariableOf(value).attr<DataType>("dtype");
    attrs["shape"] = VariableOf(value).attr<Shape>("shape");
  }
  attrs["dtype"] = IsReducedFloat(dtype) ? DT_FLOAT : dtype;
  return graph.AddNode(graph.UniqueName("operand"), *AllOps().FindRole(role), std::move(attrs), {});
}

struct Twin {
  Graph graph;
  Node* node = nullptr;
};

// Copies `node` into a separate graph, with float instead of half and bfloat16. The twin is on the
// heap because the float kernel may keep a reference to its node.
absl::StatusOr<std::unique_ptr<const Twin>> MakeTwin(const Node& node) {
  auto twin = std::make_unique<Twin>();
  std::vector<Output> inputs;
  for (const Output& in : node.inputs()) {
    MF_ASSIGN_OR_RETURN(Node * operand, AddOperand(twin->graph, in));
    inputs.push_back(operand->output(0));
  }
  AttrMap attrs;
  for (const auto& [name, value] : node.attrs()) {
    MF_ASSIGN_OR_RETURN(AttrValue wide, WidenAttr(value));
    attrs.emplace(name, std::move(wide));
  }
  MF_ASSIGN_OR_RETURN(
      twin->node, twin->graph.AddNode(node.name(), node.op(), std::move(attrs), std::move(inputs)));
  return twin;
}

// Presents the original node's context to the twin's factory.
class FloatContext final : public KernelContext {
 public:
  static absl::StatusOr<FloatContext> Create(const KernelContext& base, const Node& twin) {
    FloatContext context(base, twin);
    context.constants_.resize(twin.num_inputs());
    for (int i = 0; i < twin.num_inputs(); ++i) {
      if (!twin.is_static_input(i)) continue;
      MF_ASSIGN_OR_RETURN(context.constants_[i], WidenTensor(base.constant(i)));
    }
    if (&base.undivided() != &base) {
      MF_ASSIGN_OR_RETURN(FloatContext undivided, Create(base.undivided(), twin));
      context.undivided_ = std::make_unique<FloatContext>(std::move(undivided));
    }
    return context;
  }

  const Node& node() const override { return twin_; }
  const Shape& input_shape(int i) const override { return base_.input_shape(i); }
  const Shape& output_shape(int i) const override { return base_.output_shape(i); }
  const Tensor& constant(int i) const override { return constants_[i]; }
  const Sharding& output_sharding(int i) const override { return base_.output_sharding(i); }
  const Shape& global_output_shape(int i) const override { return base_.global_output_shape(i); }
  int64_t first_row() const override { return base_.first_row(); }
  int64_t first_index(int dim) const override { return base_.first_index(dim); }
  const KernelContext& undivided() const override {
    return undivided_ != nullptr ? *undivided_ : *this;
  }

 private:
  FloatContext(const KernelContext& base, const Node& twin) : base_(base), twin_(twin) {}

  const KernelContext& base_;
  const Node& twin_;
  std::vector<Tensor> constants_;
  std::unique_ptr<FloatContext> undivided_;  // null if the node is not divided
};

// --- The float kernel between conversions -----------------------------------------------------

// Describes where the float kernel finds an operand.
struct Binding {
  enum Kind { kUnbound, kInput, kWidened, kVariable, kOutput, kRounded };
  Kind kind = kUnbound;
  int index = 0;                // among the node's inputs or its outputs
  DataType dtype = DT_INVALID;  // the original dtype, if converted
  int64_t n = 0;
  int64_t offset = 0;  // in the scratch memory

  bool converted() const { return kind == kWidened || kind == kVariable || kind == kRounded; }
};

// Runs the float kernel. The scratch memory holds the table of region bases that the float kernel
// uses, then its converted operands, then its own scratch memory.
class InFloatKernel final : public Kernel {
 public:
  InFloatKernel(std::unique_ptr<const Twin> twin, std::unique_ptr<const Kernel> kernel,
                std::vector<Binding> bindings, int64_t scratch_offset)
      : twin_(std::move(twin)),
        kernel_(std::move(kernel)),
        bindings_(std::move(bindings)),
        scratch_offset_(scratch_offset) {
    RegionId region = kParamsRegion;
    for (size_t i = 0; i <= bindings_.size(); ++i) operands_.push_back({++region, 0});
  }

  absl::Status Run(const KernelArgs& args, Lane& lane) const override {
    std::byte* const scratch = args.scratch<std::byte>();
    std::byte** const bases = args.scratch<std::byte*>();
    bases[kParamsRegion] =
        reinterpret_cast<std::byte*>(const_cast<StepParams*>(&args.params()));  // read only
    for (size_t i = 0; i < bindings_.size(); ++i) {
      bases[1 + i] = Bind(args, bindings_[i], scratch + bindings_[i].offset);
    }
    bases[1 + bindings_.size()] = scratch + scratch_offset_;
    const Node& node = *twin_->node;
    const KernelArgs in_float(bases, operands_.data(), node.num_inputs(), node.num_outputs());
    MF_RETURN_IF_ERROR(kernel_->Run(in_float, lane));
    for (const Binding& binding : bindings_) WriteBack(args, binding, scratch + binding.offset);
    return absl::OkStatus();
  }

 private:
  // Returns the operand's memory. If the operand is widened, fills that memory first.
  static std::byte* Bind(const KernelArgs& args, const Binding& binding, std::byte* widened) {
    float* const floats = reinterpret_cast<float*>(widened);
    switch (binding.kind) {
      case Binding::kUnbound:
        return nullptr;
      case Binding::kInput:  // for a handle, the variable itself, which the kernel can write
        return args.variable<std::byte>(binding.index);
      case Binding::kOutput:
        return args.output<std::byte>(binding.index);
      case Binding::kWidened:
      case Binding::kVariable:
        WidenReduced(binding.dtype, args.input<uint16_t>(binding.index), floats, binding.n);
        return widened;
      case Binding::kRounded:
        return widened;
    }
    return nullptr;
  }

  static void WriteBack(const KernelArgs& args, const Binding& binding, const std::byte* widened) {
    const float* const floats = reinterpret_cast<const float*>(widened);
    if (binding.kind == Binding::kVariable) {
      RoundToReduced(binding.dtype, floats, args.variable<uint16_t>(binding.index), binding.n);
    } else if (binding.kind == Binding::kRounded) {
      RoundToReduced(binding.dtype, floats, args.output<uint16_t>(binding.index), binding.n);
    }
  }

  const std::unique_ptr<const Twin> twin_;
  const std::unique_ptr<const Kernel> kernel_;
  const std::vector<Binding> bindings_;  // inputs, then outputs
  const int64_t scratch_offset_;
  std::vector<Operand> operands_;  // operand i is in region i + 1
};

absl::StatusOr<Binding> BindingOfInput(const KernelContext& c, int i) {
  const Output& in = c.node().input(i);
  if (c.node().is_static_input(i)) return Binding();
  if (in.dtype() != DT_RESOURCE) {
    return Binding{.kind = IsReducedFloat(in.dtype()) ? Binding::kWidened : Binding::kInput,
                   .index = i,
                   .dtype = in.dtype(),
                   .n = c.input_shape(i).num_elements()};
  }
  const DataType dtype = VariableOf(in).attr<DataType>("dtype");
  if (!IsReducedFloat(dtype)) return Binding{.kind = Binding::kInput, .index = i};
  const Shape& shape = VariableOf(in).attr<Shape>("shape");
  if (!shape.IsFullyDefined()) {
    return absl::UnimplementedError(absl::StrCat("a ", DataTypeName(dtype),
                                                 " variable must have a known shape, got shape ",
                                                 shape.ToString()));
  }
  const bool written = c.node().op().role == OpRole::kWrite;
  return Binding{.kind = written ? Binding::kVariable : Binding::kWidened,
                 .index = i,
                 .dtype = dtype,
                 .n = shape.num_elements()};
}

Binding BindingOfOutput(const KernelContext& c, int i) {
  const DataType dtype = c.output_dtype(i);
  return {.kind = IsReducedFloat(dtype) ? Binding::kRounded : Binding::kOutput,
          .index = i,
          .dtype = dtype,
          .n = c.output_shape(i).num_elements()};
}

}  // namespace

void WidenReduced(DataType dtype, const uint16_t* from, float* to, int64_t n) {
  int64_t i = 0;
  if (dtype == DT_BFLOAT16) {
    for (; i < n; ++i) to[i] = BFloat16Format::ToFloat(from[i]);
    return;
  }
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
#endif
  for (; i < n; ++i) to[i] = HalfFormat::ToFloat(from[i]);
}

void RoundToReduced(DataType dtype, const float* from, uint16_t* to, int64_t n) {
  int64_t i = 0;
  if (dtype == DT_BFLOAT16) {
    for (; i < n; ++i) to[i] = BFloat16Format::FromFloat(from[i]);
    return;
  }
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const __m128i halves =
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
#endif
  for (; i < n; ++i) to[i] = HalfFormat::FromFloat(from[i]);
}

absl::StatusOr<KernelPlan> CreateInFloat(const KernelContext& c, KernelFactory factory) {
  std::vector<Binding> bindings;
  for (int i = 0; i < c.node().num_inputs(); ++i) {
    MF_ASSIGN_OR_RETURN(const Binding binding, BindingOfInput(c, i));
    bindings.push_back(binding);
  }
  for (int i = 0; i < c.node().num_outputs(); ++i) bindings.push_back(BindingOfOutput(c, i));
  const auto it = std::find_if(bindings.begin(), bindings.end(),
                               [](const Binding& binding) { return binding.converted(); });
  if (it == bindings.end()) return absl::UnimplementedError("no operand is half or bfloat16");

  MF_ASSIGN_OR_RETURN(std::unique_ptr<const Twin> twin, MakeTwin(c.node()));
  MF_ASSIGN_OR_RETURN(const FloatContext context, FloatContext::Create(c, *twin->node));
  absl::StatusOr<KernelPlan> in_float = factory(context);
  if (absl::IsUnimplemented(in_float.status())) return UnsupportedDataType(it->dtype);
  MF_RETURN_IF_ERROR(in_float.status());

  // The table has an entry for the parameters, one for each operand and one for the scratch memory.
  int64_t bytes = AlignUp((bindings.size() + 2) * sizeof(std::byte*));
  for (Binding& binding : bindings) {
    if (!binding.converted()) continue;
    binding.offset = bytes;
    bytes += static_cast<int64_t>(AlignUp(binding.n * sizeof(float)));
  }
  KernelPlan plan{.kernel = nullptr,
                  .scratch_bytes = bytes + in_float->scratch_bytes,
                  .fails_on_data = in_float->fails_on_data,
                  .flops = in_float->flops};
  for (const auto& [in, out] : in_float->in_place) {
    // Overwriting the input is safe: all inputs are widened before the first output is rounded.
    const bool both = bindings[in].kind == Binding::kWidened &&
                      bindings[c.node().num_inputs() + out].kind == Binding::kRounded;
    if (both) plan.in_place.push_back({in, out});
  }
  plan.kernel = std::make_unique<InFloatKernel>(std::move(twin), std::move(in_float->kernel),
                                                std::move(bindings), bytes);
  return plan;
}

}  // namespace mirrorflow
