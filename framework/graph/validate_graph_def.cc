// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/validate_graph_def.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/graph/function_references.h"
#include "framework/graph/topological_sort.h"

namespace mirrorflow {
namespace {

absl::Status CheckVersions(const proto::VersionDef& versions) {
  if (versions.min_consumer() > kGraphDefVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph needs a newer reader; expected min_consumer of at most ",
                     kGraphDefVersion, ", got ", versions.min_consumer()));
  }
  for (int bad : versions.bad_consumers()) {
    if (bad != kGraphDefVersion) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the graph refuses readers of version ", bad, ", the version of this reader"));
  }
  return absl::OkStatus();
}

// The number of nodes and bytes with all functions inlined. Saturates at kMany, which exceeds any
// limit.
struct Size {
  static constexpr int64_t kMany = int64_t{1} << 61;
  int64_t nodes = 0;
  int64_t bytes = 0;

  void Add(const Size& other) {
    nodes = std::min(nodes + other.nodes, kMany);
    bytes = std::min(bytes + other.bytes, kMany);
  }
};

// A library's functions, by index, and the functions that each of them references.
class Library {
 public:
  explicit Library(const proto::FunctionDefLibrary& library) {
    for (const proto::FunctionDef& function : library.function()) {
      // A duplicate is counted once. FunctionLibrary::Add compares the two bodies.
      if (index_.emplace(function.signature().name(), functions_.size()).second) {
        functions_.push_back(&function);
      }
    }
  }

  // Functions are inlined where they are referenced, so inlining a recursive function would never
  // end.
  absl::Status CheckNotRecursive() {
    std::vector<std::vector<int>> mentioned;
    for (const proto::FunctionDef* function : functions_) {
      mentioned.emplace_back();
      for (const proto::NodeDef& node : function->node_def()) {
        Visit(node, [&](int other) { mentioned.back().push_back(other); });
      }
      // Protobuf maps have no fixed order, but the error message needs one.
      std::sort(mentioned.back().begin(), mentioned.back().end());
    }
    TopologicalSort sort = SortTopologically(static_cast<int>(functions_.size()),
                                             [&](int function, absl::FunctionRef<void(int)> visit) {
                                               for (int other : mentioned[function]) visit(other);
                                             });
    order_ = std::move(sort.order);
    if (sort.cycle.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "library functions call each other in a cycle: ", CycleToString(sort.cycle, [&](int i) {
          return Printable(functions_[i]->signature().name());
        })));
  }

  // Call CheckNotRecursive first.
  void ComputeSizes() {
    sizes_.resize(functions_.size());
    for (int i : order_) {
      for (const proto::NodeDef& node : functions_[i]->node_def()) sizes_[i].Add(SizeOf(node));
      // Counts the nodes that represent the call's results.
      sizes_[i].nodes += functions_[i]->signature().output_arg_size();
    }
  }

  // Returns the size of a node, including the functions that it references.
  Size SizeOf(const proto::NodeDef& node) const {
    Size size{1, static_cast<int64_t>(node.ByteSizeLong())};
    Visit(node, [&](int function) { size.Add(sizes_[function]); });
    return size;
  }

 private:
  void Visit(const proto::NodeDef& node, absl::FunctionRef<void(int)> visit) const {
    VisitFunctions(node, [&](const std::string& name) {
      const auto it = index_.find(name);
      if (it != index_.end()) visit(it->second);
    });
  }

  std::vector<const proto::FunctionDef*> functions_;
  absl::flat_hash_map<absl::string_view, int> index_;
  std::vector<int> order_;   // each function after those that it references
  std::vector<Size> sizes_;  // by function; computed in `order_`
};

absl::Status CheckSize(const proto::GraphDef& def, const Library& library,
                       const GraphLimits& limits) {
  Size total;
  for (const proto::NodeDef& node : def.node()) {
    const Size size = library.SizeOf(node);
    total.Add(size);
    if (total.nodes <= limits.max_nodes && total.bytes <= limits.max_bytes) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        Printable(node.op()), "(", Printable(node.name()), "): the graph is too large at this ",
        "node, including the functions that it references; expected at most ", limits.max_nodes,
        " nodes and ", limits.max_bytes, " bytes, got ", total.nodes, " and ", total.bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateGraphDef(const proto::GraphDef& def, const GraphLimits& limits) {
  MF_RETURN_IF_ERROR(CheckVersions(def.versions()));
  for (const proto::FunctionDef& function : def.library().function()) {
    if (!function.signature().name().empty()) continue;
    return absl::InvalidArgumentError("a library function has no name");
  }
  Library library(def.library());
  MF_RETURN_IF_ERROR(library.CheckNotRecursive());
  library.ComputeSizes();
  return CheckSize(def, library, limits);
}

}  // namespace mirrorflow
