// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/divide_among_threads.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "framework/compiler/invariants.h"
#include "framework/compiler/plan/choose_kernels.h"
#include "framework/core/status.h"
#include "framework/runtime/update_kernel.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {
namespace {

// Rates at which a core computes and accesses memory, to estimate how long a node takes. Most
// kernels are faster.
constexpr double kFlopsPerNs = 30;
constexpr double kBytesPerNs = 8;

// Parts of a vector begin at multiples of this number of elements, which the length of every
// register divides. All parts but the last then consist of whole registers.
constexpr int64_t kMultipleOfElements = 64;

// Parts of a variable that is updated by a product begin at multiples of this number of rows, which
// are those of a tile of registers (kernels/cpu/product.cc).
constexpr int64_t kMultipleOfUpdatedRows = 12;

// A way to divide a node: the dimension of each operand that is divided, or -1 if every part has
// the whole operand. All divided dimensions have equal sizes.
struct Division {
  std::vector<int> inputs, outputs;
  int64_t size = 0;      // of the dimension
  int64_t multiple = 1;  // at which parts begin
  bool by_kernel = false;
  double common_bytes = 0;  // of the inputs that every part reads whole

  int64_t MaxParts() const { return (size + multiple - 1) / multiple; }
  // Returns the index at which part `part` of `parts` begins.
  int64_t FirstOf(int64_t part, int64_t parts) const {
    return part == parts ? size : MaxParts() * part / parts * multiple;
  }
  // Returns the share of the node that the largest part computes, from 0 to 1.
  double LargestShare(int64_t parts) const {
    int64_t largest = 0;
    for (int64_t p = 0; p < parts; ++p) {
      largest = std::max(largest, FirstOf(p + 1, parts) - FirstOf(p, parts));
    }
    return static_cast<double>(largest) / static_cast<double>(size);
  }
};

bool IsContiguous(const Shape& shape, int dim) { return shape.num_elements_before(dim) == 1; }

// Returns whether an input or output of the node is divided along the dimension with this letter.
// Sets *dim to the dimension, or to -1 if there is none. Returns false if the parts of the operand
// would not be contiguous, or if the letter has another size there.
bool FindLetter(absl::string_view term, char letter, const Shape& shape, int64_t size, int* dim) {
  *dim = -1;
  if (term == "*") return true;
  if (term == "~") return false;
  for (int d = 0; d < shape.rank(); ++d) {
    if (term[d] != letter) continue;
    if (*dim >= 0 || shape.dim(d) != size || !IsContiguous(shape, d)) return false;
    *dim = d;
  }
  return true;
}

// Returns a kernel that updates some elements of the variables.
std::unique_ptr<const Kernel> UpdateOfElements(std::unique_ptr<const Kernel> update, int gradient,
                                               int64_t element_bytes, int64_t first,
                                               int64_t count) {
  return MakeKernel([=, update = std::move(update)](const KernelArgs& args) {
    const std::byte* const of_part = args.input<std::byte>(gradient) + first * element_bytes;
    update->AsUpdate()->RunPart(args, of_part, first, count);
  });
}

// Returns a kernel that updates some rows of the variables by a product of operands with `k` rows.
std::unique_ptr<const Kernel> UpdateOfRows(std::unique_ptr<const Kernel> update, int left,
                                           int right, int64_t k, int64_t first, int64_t count) {
  return MakeKernel([=, update = std::move(update)](const KernelArgs& args) {
    const ProductRows rows = {args.input<std::byte>(left), args.input<std::byte>(right), k};
    update->AsUpdateByProduct()->RunRows(args, {&rows, 1}, first, first + count);
  });
}

class Divider {
 public:
  explicit Divider(PlanState& s) : s_(s) {}

  absl::Status Run() {
    s_.parts.resize(s_.graph.id_limit());
    for (const Node* node : s_.graph.Nodes()) {
      if (!MayBeDivided(*node)) continue;
      const double ns = NsOf(*node);
      const int64_t useful = UsefulParts(ns);
      if (useful < 2) continue;
      if (node->op().role == OpRole::kWrite) {
        MF_RETURN_IF_ERROR(DivideUpdate(*node, useful));
        continue;
      }
      MF_ASSIGN_OR_RETURN(const std::vector<Division> divisions, DivisionsOf(*node, ns, useful));
      bool is_divided = false;
      for (auto it = divisions.begin(); it != divisions.end() && !is_divided; ++it) {
        const int64_t parts = std::min(useful, it->MaxParts());
        MF_ASSIGN_OR_RETURN(is_divided, Divide(*node, *it, static_cast<int>(parts)));
      }
    }
    return absl::OkStatus();
  }

 private:
  bool MayBeDivided(const Node& node) const {
    const KernelPlan& kernel = s_.kernel_plans[node.id()];
    const OpDef& op = node.op();
    if (kernel.kernel == nullptr || !kernel.slices.empty()) return false;
    if (IsCollective(node) || s_.invariants->IsComputed(node)) return false;
    if (kernel.kernel->AsUpdate() != nullptr || kernel.kernel->AsUpdateByProduct() != nullptr) {
      return true;
    }
    return Computes(op) && !op.has(kStateful) && !op.has(kRandom) && !op.has(kPerReplica) &&
           node.num_outputs() > 0;
  }

  const VariableInfo& VariableOf(const Output& handle) const {
    return s_.layout->variables()[s_.layout->FindHandle(handle)];
  }
  // Returns the size of an operand; 0 for a handle, of whose variable a node can read any part.
  int64_t BytesOf(const Node& node, const Output& value) const {
    if (value.dtype() != DT_RESOURCE) return s_.LocalBytes(value);
    return node.op().role == OpRole::kWrite ? VariableOf(value).bytes() : 0;
  }

  double InputBytes(const Node& node, int i) const {
    return node.is_static_input(i) ? 0 : static_cast<double>(BytesOf(node, node.input(i)));
  }

  // Estimates how long a single thread takes for the node.
  double NsOf(const Node& node) const {
    double bytes = 0;
    for (int i = 0; i < node.num_inputs(); ++i) bytes += InputBytes(node, i);
    for (int i = 0; i < node.num_outputs(); ++i) {
      bytes += static_cast<double>(s_.LocalBytes(node.output(i)));
    }
    const auto flops = static_cast<double>(s_.kernel_plans[node.id()].flops);
    return flops / kFlopsPerNs + bytes / kBytesPerNs;
  }

  // Returns the number of parts that take long enough.
  int64_t UsefulParts(double ns) const {
    const double threads = s_.traits.num_threads;
    const auto least_ns = static_cast<double>(s_.options.min_part_ns);
    return static_cast<int64_t>(least_ns > 0 ? std::min(ns / least_ns, threads) : threads);
  }

  // Returns the ways to divide the node into 2 to `useful` parts. The one whose largest part takes
  // the least time is first.
  absl::StatusOr<std::vector<Division>> DivisionsOf(const Node& node, double ns,
                                                    int64_t useful) const {
    std::vector<Division> divisions;
    const auto consider = [&](Division division) {
      if (division.MaxParts() > 1) divisions.push_back(std::move(division));
    };
    const Shape& out = s_.local_shape(node.output(0));
    if (node.op().sharding != nullptr) {
      MF_ASSIGN_OR_RETURN(const ShardingRule rule,
                          node.op().sharding(ShardContext(node, s_.values())));
      absl::InlinedVector<Shape, 4> inputs, outputs;
      for (const Output& in : node.inputs()) inputs.push_back(s_.local_shape(in));
      for (int i = 0; i < node.num_outputs(); ++i) {
        outputs.push_back(s_.local_shape(node.output(i)));
      }
      MF_ASSIGN_OR_RETURN(const ShardingTerms terms,
                          ParseShardingTerms(rule.dims, inputs, outputs));
      for (int dim = 0; dim < out.rank() && IsContiguous(out, dim); ++dim) {
        Division division;
        if (!ByRule(node, terms, dim, &division)) continue;
        for (int i = 0; i < node.num_inputs(); ++i) {
          if (division.inputs[i] < 0) division.common_bytes += InputBytes(node, i);
        }
        consider(std::move(division));
      }
    }
    for (const DivisibleDim& divisible : s_.kernel_plans[node.id()].divisible_dims) {
      if (node.num_outputs() > 1) break;  // the kernel names a dimension of output 0 only
      Division division = {.inputs = std::vector<int>(node.num_inputs(), -1),
                           .outputs = {divisible.dim},
                           .size = out.dim(divisible.dim),
                           .multiple = divisible.multiple,
                           .by_kernel = true};
      for (int i = 0; i < node.num_inputs(); ++i) {
        if (absl::c_linear_search(divisible.divided_inputs, i)) continue;
        division.common_bytes += InputBytes(node, i);
      }
      consider(std::move(division));
    }
    const auto ns_of = [&](const Division& d) {
      const double share = d.LargestShare(std::min(useful, d.MaxParts()));
      const double common = d.common_bytes / kBytesPerNs;
      return share * (ns - common) + common;
    };
    absl::c_stable_sort(divisions,
                        [&](const Division& a, const Division& b) { return ns_of(a) < ns_of(b); });
    return divisions;
  }

  // Divides the node along dimension `dim` of output 0. Returns false if its sharding rule does not
  // allow it.
  bool ByRule(const Node& node, const ShardingTerms& terms, int dim, Division* division) const {
    const absl::string_view term = terms.outputs[0];
    if (term == "*" || term == "~" || term[dim] == '.') return false;
    const Shape& out = s_.local_shape(node.output(0));
    division->size = out.dim(dim);
    if (out.num_elements_from(dim + 1) == 1) division->multiple = kMultipleOfElements;
    for (int i = 0; i < node.num_inputs(); ++i) {
      int* const at = &division->inputs.emplace_back();
      const Shape& shape = s_.local_shape(node.input(i));
      if (!FindLetter(terms.inputs[i], term[dim], shape, division->size, at)) return false;
      if (*at >= 0 && node.is_static_input(i)) return false;
    }
    // An op that creates rows may compute them from their indices.
    const auto is_divided = [](int at) { return at >= 0; };
    if (absl::c_none_of(division->inputs, is_divided)) return false;
    for (int i = 0; i < node.num_outputs(); ++i) {
      int* const at = &division->outputs.emplace_back();
      const Shape& shape = s_.local_shape(node.output(i));
      if (!FindLetter(terms.outputs[i], term[dim], shape, division->size, at) || *at < 0) {
        return false;
      }
    }
    return true;
  }

  // Sets the node's parts. Returns false if no kernel computes them, or if their kernels need forms
  // that they do not find.
  absl::StatusOr<bool> Divide(const Node& node, const Division& division, int parts) {
    std::vector<NodePart> made;
    for (int p = 0; p < parts; ++p) {
      const int64_t first = division.FirstOf(p, parts);
      const int64_t count = division.FirstOf(p + 1, parts) - first;
      NodePart& part = made.emplace_back();
      part.by_kernel = division.by_kernel;
      const auto divide = [&](int dim, const Shape& shape, std::vector<Shape>* shapes) {
        shapes->push_back(shape);
        if (dim < 0) return std::optional<DimRange>();
        shapes->back().set_dim(dim, count);
        return std::optional<DimRange>({dim, first, count});
      };
      for (int i = 0; i < node.num_inputs(); ++i) {
        part.inputs.push_back(
            divide(division.inputs[i], s_.local_shape(node.input(i)), &part.input_shapes));
      }
      for (int i = 0; i < node.num_outputs(); ++i) {
        part.outputs.push_back(
            divide(division.outputs[i], s_.local_shape(node.output(i)), &part.output_shapes));
      }
      absl::StatusOr<KernelPlan> kernel = CreateKernel(s_, node, RowStrideOf(node), part);
      if (absl::IsUnimplemented(kernel.status())) return false;
      MF_ASSIGN_OR_RETURN(part.kernel, std::move(kernel));
      for (const auto& [input, range] : part.kernel.part_inputs) part.inputs[input] = range;
      if (!FindsForms(part.kernel, s_.kernel_plans[node.id()], division)) return false;
    }
    // A part can overwrite an input only if no other part reads the same elements.
    std::erase_if(s_.kernel_plans[node.id()].in_place,
                  [&](const std::pair<int, int>& pair) { return division.inputs[pair.first] < 0; });
    s_.parts[node.id()] = std::move(made);
    return true;
  }

  // Divides an optimizer update by elements of the variable or, if it computes its gradient as a
  // product, by rows.
  absl::Status DivideUpdate(const Node& node, int64_t useful) {
    const int gradient = node.input_index(node.op().update_gradient);
    const bool by_product = gradient < 0;
    const int left = node.input_index(kLeftOfProduct), right = node.input_index(kRightOfProduct);
    const VariableInfo& variable = VariableOf(node.input(0));
    const int64_t elements = variable.shape.num_elements();
    const Division division = {
        .size = by_product ? variable.shape.dim(0) : elements,
        .multiple = by_product ? kMultipleOfUpdatedRows : kMultipleOfElements};
    const int parts = static_cast<int>(std::min(useful, division.MaxParts()));
    if (parts < 2) return absl::OkStatus();
    std::vector<NodePart> made;
    for (int p = 0; p < parts; ++p) {
      const int64_t first = division.FirstOf(p, parts);
      const int64_t count = division.FirstOf(p + 1, parts) - first;
      const int64_t row = elements / division.size;
      NodePart& part = made.emplace_back();
      part.of_update = true;
      part.inputs.resize(node.num_inputs());
      for (int i = 0; i < node.num_inputs(); ++i) {
        if (node.input(i).dtype() == DT_RESOURCE || i == gradient) {
          part.inputs[i] = DimRange{0, first * row, count * row};
        }
      }
      MF_ASSIGN_OR_RETURN(part.kernel, CreateKernel(s_, node));
      std::unique_ptr<const Kernel> update = std::move(part.kernel.kernel);
      if (by_product) {
        part.inputs[left] = DimRange{1, first, count};
        const int64_t rows = s_.local_shape(node.input(left)).dim(0);
        part.kernel.kernel = UpdateOfRows(std::move(update), left, right, rows, first, count);
        part.kernel.flops = part.kernel.flops / division.size * count;
      } else {
        const auto element = static_cast<int64_t>(DataTypeSize(variable.dtype));
        part.kernel.kernel = UpdateOfElements(std::move(update), gradient, element, first, count);
      }
    }
    s_.parts[node.id()] = std::move(made);
    return absl::OkStatus();
  }

  // Returns whether the plan can make the forms that the kernel of a part reads. Forms of parts
  // that the op's sharding rule describes must be those of the node's kernel, of whole inputs.
  // Other parts read forms of the same inputs, which may contain only what the part needs.
  static bool FindsForms(const KernelPlan& part, const KernelPlan& whole,
                         const Division& division) {
    if (division.by_kernel) {
      return absl::c_all_of(whole.forms, [&](const OperandForm& of_whole) {
        return absl::c_any_of(part.forms, [&](const OperandForm& of_part) {
          return of_part.input == of_whole.input;
        });
      });
    }
    return absl::c_equal(part.forms, whole.forms, [&](const OperandForm& a, const OperandForm& b) {
      return a.input == b.input && a.key == b.key && division.inputs[a.input] < 0;
    });
  }

  // Returns the stride between the rows of output 0, in elements, or 0 if they are contiguous.
  int64_t RowStrideOf(const Node& node) const {
    const auto slice = absl::c_find_if(s_.slices, [&node](const ConcatSlice& slice) {
      return slice.value() == node.output(0) && slice.slice.row_stride > 0;
    });
    if (slice == s_.slices.end()) return 0;
    return slice->slice.row_stride / static_cast<int64_t>(DataTypeSize(node.output_dtype(0)));
  }

  PlanState& s_;
};

}  // namespace

absl::StatusOr<bool> DivideAmongThreads::Run(PlanState& s) {
  // The functions of branches and loops run on a single thread.
  if (s.traits.num_threads == 1 || s.is_body) return false;
  MF_RETURN_IF_ERROR(Divider(s).Run());
  return true;
}

}  // namespace mirrorflow
