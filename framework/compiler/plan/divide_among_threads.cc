// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/divide_among_threads.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/invariants.h"
#include "framework/compiler/plan/choose_kernels.h"
#include "framework/core/status.h"
#include "framework/runtime/update_kernel.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {
namespace {

// Conservative compute and memory rates of one core, for estimating a node's time. Most kernels are
// faster.
constexpr double kFlopsPerNs = 30;
constexpr double kBytesPerNs = 8;

// Parts of a vector begin at multiples of this many elements. It is a multiple of every SIMD
// register width, so all parts except the last consist of full registers.
constexpr int64_t kMultipleOfElements = 64;

// Parts of a variable that is updated by a product begin at multiples of this many rows, the height
// of a register tile (kernels/cpu/product.cc).
constexpr int64_t kMultipleOfUpdatedRows = 12;

// A way to divide a node. For each operand, holds the dimension that is divided, or -1 if every
// part uses the whole operand. All divided dimensions have the same size.
struct Division {
  std::vector<int> inputs, outputs;
  int64_t size = 0;      // of each divided dimension
  int64_t multiple = 1;  // every part begins at a multiple of it
  bool by_kernel = false;
  double common_bytes = 0;  // size of the inputs that every part reads in full

  int64_t MaxParts() const { return (size + multiple - 1) / multiple; }
  // Returns the first index of part `part` out of `parts`.
  int64_t FirstOf(int64_t part, int64_t parts) const {
    if (part == parts) return size;
    // Computes MaxParts() * part / parts without overflow.
    const int64_t each = MaxParts() / parts, remainder = MaxParts() % parts;
    return (each * part + remainder * part / parts) * multiple;
  }
  // Returns the largest part's share of the node's work, from 0 to 1.
  double LargestShare(int64_t parts) const {
    int64_t largest = 0;
    for (int64_t p = 0; p < parts; ++p) {
      largest = std::max(largest, FirstOf(p + 1, parts) - FirstOf(p, parts));
    }
    return static_cast<double>(largest) / static_cast<double>(size);
  }
};

bool IsContiguous(const Shape& shape, int dim) { return shape.num_elements_before(dim) == 1; }

// Sets *dim to the operand's dimension that its sharding term labels with `letter`, or to -1 if
// there is none. Returns false if the operand cannot be divided along that dimension, for example
// because its size is not `size` or the parts would not be contiguous.
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

// Returns a kernel that updates `count` elements of each variable, starting at element `first`.
std::unique_ptr<const Kernel> UpdateOfElements(std::unique_ptr<const Kernel> update, int gradient,
                                               int64_t element_bytes, int64_t first,
                                               int64_t count) {
  return MakeKernel([=, update = std::move(update)](const KernelArgs& args) {
    const std::byte* const of_part = args.input<std::byte>(gradient) + first * element_bytes;
    update->AsUpdate()->RunPart(args, of_part, first, count);
  });
}

// Returns a kernel that updates `count` rows of each variable, starting at row `first`. The
// gradient is a product of inputs `left` and `right`, which have `k` rows.
std::unique_ptr<const Kernel> UpdateOfRows(std::unique_ptr<const Kernel> update, int left,
                                           int right, int64_t k, int64_t first, int64_t count) {
  return MakeKernel([=, update = std::move(update)](const KernelArgs& args) {
    const ProductRows rows = {args.input<std::byte>(left), args.input<std::byte>(right), k};
    update->AsUpdateByProduct()->RunRows(args, {&rows, 1}, first, first + count);
  });
}

// Returns whether no two parts write the same elements of output `i`, provided that the ranges of
// different parts do not overlap.
bool HasOneWriter(const std::vector<NodePart>& parts, int i) {
  const auto is_whole = [i](const NodePart& part) { return !part.outputs[i].has_value(); };
  const auto is_empty = [i](const NodePart& part) {
    return part.outputs[i].has_value() && part.outputs[i]->count == 0;
  };
  const auto num_whole = absl::c_count_if(parts, is_whole);
  return num_whole == 0 || (num_whole == 1 && absl::c_count_if(parts, is_empty) + 1 ==
                                                  static_cast<int>(parts.size()));
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
  // Returns an operand's size in bytes. A variable handle counts only if the node writes the
  // variable; readers may access any part of it, so it counts as 0 for them.
  int64_t BytesOf(const Node& node, const Output& value) const {
    if (value.dtype() != DT_RESOURCE) return s_.LocalBytes(value);
    return node.op().role == OpRole::kWrite ? VariableOf(value).bytes() : 0;
  }

  double InputBytes(const Node& node, int i) const {
    return node.is_static_input(i) ? 0 : static_cast<double>(BytesOf(node, node.input(i)));
  }

  // Estimates how long a single thread takes to run the node.
  double NsOf(const Node& node) const {
    double bytes = 0;
    for (int i = 0; i < node.num_inputs(); ++i) bytes += InputBytes(node, i);
    for (int i = 0; i < node.num_outputs(); ++i) {
      bytes += static_cast<double>(s_.LocalBytes(node.output(i)));
    }
    const auto flops = static_cast<double>(s_.kernel_plans[node.id()].flops);
    return flops / kFlopsPerNs + bytes / kBytesPerNs;
  }

  // Returns into how many parts, at most one per thread, a node that takes `ns` can be divided
  // without any part becoming too short.
  int64_t UsefulParts(double ns) const {
    const double threads = s_.traits.num_threads;
    const auto least_ns = static_cast<double>(s_.options.min_part_ns);
    return static_cast<int64_t>(least_ns > 0 ? std::min(ns / least_ns, threads) : threads);
  }

  // Returns the ways to divide the node into 2 to `useful` parts, sorted by the estimated time of
  // the largest part, shortest first.
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
      Division division = {.inputs = std::vector<int>(node.num_inputs(), -1),
                           .outputs = std::vector<int>(node.num_outputs(), -1),
                           .size = out.dim(divisible.dim),
                           .multiple = divisible.multiple,
                           .by_kernel = true};
      division.outputs[0] = divisible.dim;
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

  // Sets *division to the division along dimension `dim` of output 0 that the sharding rule
  // implies. Returns false if the rule does not allow one.
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
    // Without a divided input, the op generates its rows, possibly from their indices.
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

  // Creates the node's parts and their kernels. Returns false if there is no kernel for a part, or
  // if a part's kernel needs a form that the plan cannot make.
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
      for (const auto& [output, range] : part.kernel.part_outputs) part.outputs[output] = range;
      if (!FindsForms(part.kernel, s_.kernel_plans[node.id()], division)) return false;
    }
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (HasOneWriter(made, i)) continue;
      return absl::InternalError(
          absl::StrCat(OpAndName(node), ": several threads would write output ", i));
    }
    // A part can overwrite an input only if no other part reads the same elements.
    std::erase_if(s_.kernel_plans[node.id()].in_place, [&](const std::pair<int, int>& pair) {
      return absl::c_any_of(made, [pair](const NodePart& part) {
        return part.inputs[pair.first] != part.outputs[pair.second];
      });
    });
    s_.parts[node.id()] = std::move(made);
    return true;
  }

  // Divides an optimizer update: by rows of the variable if the update computes its gradient as a
  // product, otherwise by elements.
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

  // Returns whether the plan can make the forms that a part's kernel reads. If the sharding rule
  // defines the parts, each part must read the same forms as the node's own kernel, of inputs that
  // are not divided. If the kernel defines the parts, each must read forms of the same inputs, but
  // these may hold only what the part needs.
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
  // Branch and loop bodies run on a single thread.
  if (s.traits.num_threads == 1 || s.is_body) return false;
  MF_RETURN_IF_ERROR(Divider(s).Run());
  return true;
}

}  // namespace mirrorflow
