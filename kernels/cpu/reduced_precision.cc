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

// The original node's context, as the factory sees it for the twin.
class FloatContext final : public KernelContext {
 public:
  static absl::StatusOr<FloatContext> Create(const KernelContext& base, const Node& twin) {
    FloatContext context(base, twin);
    context.constants_.resize(twin.num_inputs());
    for (int i = 0; i < twin.num_inputs(); ++i) {
      if (!twin.is_static_input(i)) continue;
      MF_ASSIGN_OR_RETURN(context.constants_[i], WidenTensor(base.constant(i)));
    }
    return context;
  }

  const Node& node() const override { return twin_; }
  const Shape& input_shape(int i) const override { return base_.input_shape(i); }
  const Shape& output_shape(int i) const override { return base_.output_shape(i); }
  const Tensor& constant(int i) const override { return constants_[i]; }
  const Sharding& output_sharding(int i) const override { return base_.output_sharding(i); }
  const Shape& global_output_shape(int i) const override { return base_.global_output_shape(i); }
  int num_threads() const override { return base_.num_threads(); }

 private:
  FloatContext(const KernelContext& base, const Node& twin) : base_(base), twin_(twin) {}

  const KernelContext& base_;
  const Node& twin_;
  std::vector<Tensor> constants_;
};

// --- The float kernel between conversions -----------------------------------------------------

// Where the float kernel finds an operand.
struct Place {
  enum Kind { kNowhere, kInput, kWidened, kVariable, kOutput, kRounded };
  Kind kind = kNowhere;
  int index = 0;                // among the node's inputs or its outputs
  DataType dtype = DT_INVALID;  // the original dtype, if converted
  int64_t n = 0;
  int64_t offset = 0;  // in the scratch

  bool converted() const { return kind == kWidened || kind == kVariable || kind == kRounded; }
};

// Runs the float kernel. The scratch holds the table of region bases that the float kernel sees,
// then its converted operands, then its own scratch.
class InFloatKernel final : public Kernel {
 public:
  InFloatKernel(std::unique_ptr<const Twin> twin, std::unique_ptr<const Kernel> kernel,
                std::vector<Place> places, int64_t scratch_offset)
      : twin_(std::move(twin)),
        kernel_(std::move(kernel)),
        places_(std::move(places)),
        scratch_offset_(scratch_offset) {
    RegionId region = kParamsRegion;
    for (size_t i = 0; i <= places_.size(); ++i) operands_.push_back({++region, 0});
  }

  absl::Status Run(const KernelArgs& args, Lane& lane) const override {
    std::byte* const scratch = args.scratch<std::byte>();
    std::byte** const bases = args.scratch<std::byte*>();
    bases[kParamsRegion] =
        reinterpret_cast<std::byte*>(const_cast<StepParams*>(&args.params()));  // read only
    for (size_t i = 0; i < places_.size(); ++i) {
      bases[1 + i] = Before(args, places_[i], scratch + places_[i].offset);
    }
    bases[1 + places_.size()] = scratch + scratch_offset_;
    const Node& node = *twin_->node;
    const KernelArgs in_float(bases, operands_.data(), node.num_inputs(), node.num_outputs());
    MF_RETURN_IF_ERROR(kernel_->Run(in_float, lane));
    for (const Place& place : places_) After(args, place, scratch + place.offset);
    return absl::OkStatus();
  }

 private:
  // Returns the memory of the operand, and fills it if the operand is widened.
  static std::byte* Before(const KernelArgs& args, const Place& place, std::byte* widened) {
    float* const floats = reinterpret_cast<float*>(widened);
    switch (place.kind) {
      case Place::kNowhere:
        return nullptr;
      case Place::kInput:  // for a handle, the variable itself, which the kernel may write
        return args.variable<std::byte>(place.index);
      case Place::kOutput:
        return args.output<std::byte>(place.index);
      case Place::kWidened:
      case Place::kVariable:
        WidenReduced(place.dtype, args.input<uint16_t>(place.index), floats, place.n);
        return widened;
      case Place::kRounded:
        return widened;
    }
    return nullptr;
  }

  static void After(const KernelArgs& args, const Place& place, const std::byte* widened) {
    const float* const floats = reinterpret_cast<const float*>(widened);
    if (place.kind == Place::kVariable) {
      RoundToReduced(place.dtype, floats, args.variable<uint16_t>(place.index), place.n);
    } else if (place.kind == Place::kRounded) {
      RoundToReduced(place.dtype, floats, args.output<uint16_t>(place.index), place.n);
    }
  }

  const std::unique_ptr<const Twin> twin_;
  const std::unique_ptr<const Kernel> kernel_;
  const std::vector<Place> places_;  // inputs, then outputs
  const int64_t scratch_offset_;
  std::vector<Operand> operands_;  // place i is region i + 1
};

absl::StatusOr<Place> PlaceOfInput(const KernelContext& c, int i) {
  const Output& in = c.node().input(i);
  if (c.node().is_static_input(i)) return Place();
  if (in.dtype() != DT_RESOURCE) {
    return Place{.kind = IsReducedFloat(in.dtype()) ? Place::kWidened : Place::kInput,
                 .index = i,
                 .dtype = in.dtype(),
                 .n = c.input_shape(i).num_elements()};
  }
  const DataType dtype = VariableOf(in).attr<DataType>("dtype");
  if (!IsReducedFloat(dtype)) return Place{.kind = Place::kInput, .index = i};
  const Shape& shape = VariableOf(in).attr<Shape>("shape");
  if (!shape.IsFullyDefined()) {
    return absl::UnimplementedError(absl::StrCat(
        "a ", DataTypeName(dtype), " variable must have a known shape, got ", shape.ToString()));
  }
  const bool written = c.node().op().role == OpRole::kWrite;
  return Place{.kind = written ? Place::kVariable : Place::kWidened,
               .index = i,
               .dtype = dtype,
               .n = shape.num_elements()};
}

Place PlaceOfOutput(const KernelContext& c, int i) {
  const DataType dtype = c.output_dtype(i);
  return {.kind = IsReducedFloat(dtype) ? Place::kRounded : Place::kOutput,
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
  std::vector<Place> places;
  for (int i = 0; i < c.node().num_inputs(); ++i) {
    MF_ASSIGN_OR_RETURN(const Place place, PlaceOfInput(c, i));
    places.push_back(place);
  }
  for (int i = 0; i < c.node().num_outputs(); ++i) places.push_back(PlaceOfOutput(c, i));
  const auto it = std::find_if(places.begin(), places.end(),
                               [](const Place& place) { return place.converted(); });
  if (it == places.end()) return absl::UnimplementedError("no operand is half or bfloat16");

  MF_ASSIGN_OR_RETURN(std::unique_ptr<const Twin> twin, MakeTwin(c.node()));
  MF_ASSIGN_OR_RETURN(const FloatContext context, FloatContext::Create(c, *twin->node));
  absl::StatusOr<KernelPlan> in_float = factory(context);
  if (absl::IsUnimplemented(in_float.status())) return UnsupportedDataType(it->dtype);
  MF_RETURN_IF_ERROR(in_float.status());

  // The table has one entry each for the parameters, every operand and the scratch.
  int64_t bytes = AlignUp((places.size() + 2) * sizeof(std::byte*));
  for (Place& place : places) {
    if (!place.converted()) continue;
    place.offset = bytes;
    bytes += static_cast<int64_t>(AlignUp(place.n * sizeof(float)));
  }
  KernelPlan plan{.kernel = nullptr,
                  .scratch_bytes = bytes + in_float->scratch_bytes,
                  .fails_on_data = in_float->fails_on_data,
                  .flops = in_float->flops};
  for (const auto& [in, out] : in_float->in_place) {
    // Overwriting the input is safe: all inputs are widened before the first output is rounded.
    const bool both = places[in].kind == Place::kWidened &&
                      places[c.node().num_inputs() + out].kind == Place::kRounded;
    if (both) plan.in_place.push_back({in, out});
  }
  plan.kernel = std::make_unique<InFloatKernel>(std::move(twin), std::move(in_float->kernel),
                                                std::move(places), bytes);
  return plan;
}

}  // namespace mirrorflow
