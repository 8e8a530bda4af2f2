// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/variable_layout.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/names.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Returns whether the variable is synchronised on read, according to the attributes that
// CreateVariable writes. Their values are TensorFlow's; graphs from other sources lack them.
absl::StatusOr<bool> IsOnRead(const Node& node) {
  auto word = [&](absl::string_view attr, absl::string_view otherwise) {
    return node.has_attr(attr) ? node.attr<std::string>(attr) : std::string(otherwise);
  };
  const std::string synchronization = word("_synchronization", "ON_WRITE");
  const std::string aggregation = word("_aggregation", "NONE");
  if (synchronization == "ON_WRITE") return false;
  const bool is_number = node.attr<DataType>("dtype") != DT_BOOL;
  if (synchronization == "ON_READ" && aggregation == "SUM" && is_number) return true;
  return absl::InvalidArgumentError(absl::StrCat(
      OpAndName(node),
      ": unsupported synchronization; expected ON_WRITE, or ON_READ of a numeric dtype with "
      "aggregation SUM, got ",
      synchronization, " of ", DataTypeName(node.attr<DataType>("dtype")), " with ", aggregation));
}

// Returns whether the handle is used only by reads and by optimizer updates that can run on a range
// of the variable. Returns false if the graph has functions, because a function could write the
// variable in other ways.
bool OnlyOptimizersWrite(const Graph& graph, const Node& handle) {
  const DataType dtype = handle.attr<DataType>("dtype");
  if ((dtype != DT_FLOAT && dtype != DT_DOUBLE) || !graph.functions().functions().empty()) {
    return false;
  }
  return std::all_of(handle.uses().begin(), handle.uses().end(), [](const Use& use) {
    const OpDef& op = use.user->op();
    return use.slot == Use::kControl || op.role == OpRole::kRead ||
           (op.role == OpRole::kWrite && !op.update_gradient.empty());
  });
}

}  // namespace

absl::Status VariableLayout::CollectVariables(const Graph& graph, bool share) {
  int64_t total_bytes = 0;
  for (Node* node : graph.Nodes()) {
    if (node->op().role != OpRole::kVariable) continue;
    const std::string& name = VariableName(*node);
    VariableInfo info;
    info.name = name;
    info.dtype = node->attr<DataType>("dtype");
    info.shape = node->attr<Shape>("shape");
    info.handle = node->id();
    info.is_optimizer_state = node->has_attr(kOptimizerStateAttr);
    info.may_overflow = node->has_attr(kMayOverflowAttr);
    if (node->has_attr("_initializer")) info.initializer = node->attr<std::string>("_initializer");
    if (std::any_of(name.begin(), name.end(), absl::ascii_iscntrl)) {
      return absl::InvalidArgumentError(absl::StrCat(OpAndName(*node),
                                                     ": illegal variable name; expected printable "
                                                     "characters, got '",
                                                     Printable(name), "'"));
    }
    if (!info.shape.IsFullyDefined() || DataTypeSize(info.dtype) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable '", name, "': expected a numeric dtype and a fully defined shape, got ",
          DataTypeName(info.dtype), info.shape.ToString()));
    }
    MF_ASSIGN_OR_RETURN(info.on_read, IsOnRead(*node));
    info.can_share = share && OnlyOptimizersWrite(graph, *node);
    MF_RETURN_IF_ERROR(
        Annotate(info.shape.Validate(info.dtype), absl::StrCat("variable '", name, "'")));
    const int existing = Find(name);
    if (existing < 0) {
      // Gradients double the sum, but it still fits into an offset by a wide margin.
      constexpr int64_t kMaxBytes = int64_t{1} << 60;
      total_bytes += std::min(info.bytes(), kMaxBytes);
      if (total_bytes > kMaxBytes) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "variable '", name, "': the variables need more than ", kMaxBytes, " bytes"));
      }
      by_name_.emplace(name, static_cast<int>(variables_.size()));
      variables_.push_back(std::move(info));
      continue;
    }
    VariableInfo& first = variables_[existing];
    if (first.dtype != info.dtype || first.shape != info.shape || first.on_read != info.on_read) {
      return absl::InvalidArgumentError(absl::StrCat(
          "two handles of variable '", name, "' disagree: ", DataTypeName(first.dtype),
          first.shape.ToString(), " and ", DataTypeName(info.dtype), info.shape.ToString()));
    }
    first.can_share &= info.can_share;
    if (first.initializer.empty()) first.initializer = info.initializer;
  }
  return absl::OkStatus();
}

absl::Status VariableLayout::FillBuckets(const Graph& graph, int64_t bucket_bytes, int world_size) {
  // The updates, ordered as their gradients are computed: node ids increase in creation order, and
  // a backward pass creates its nodes in the order that they run in.
  std::vector<Node*> updates;
  for (Node* node : graph.Nodes()) {
    if (node->op().role != OpRole::kWrite || node->op().update_gradient.empty()) continue;
    // Skips updates with operands that an unknown op computes, because no step can run them.
    if (std::none_of(node->inputs().begin(), node->inputs().end(), OfUnknownDtype)) {
      updates.push_back(node);
    }
  }
  auto gradient_id = [](const Node* update) {
    return update->input(update->input_index(update->op().update_gradient)).node->id();
  };
  std::stable_sort(updates.begin(), updates.end(),
                   [&](const Node* a, const Node* b) { return gradient_id(a) < gradient_id(b); });

  const int64_t alignment = static_cast<int64_t>(kBufferAlignment);
  std::vector<int64_t> used;                 // by bucket
  std::vector<std::vector<int>> regions_of;  // by bucket: weights, then one per slot
  for (const Node* update : updates) {
    std::vector<int> updated;  // the weight, then its slots
    for (int i = 0; i < update->num_inputs(); ++i) {
      if (update->input(i).dtype() != DT_RESOURCE) continue;
      updated.push_back(FindHandle(update->input(i)));
      if (updated.back() < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(OpAndName(*update), ": updates an unknown variable"));
      }
    }
    for (const int v : updated) {
      if (!variables_[v].on_read) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          OpAndName(*update), " updates variable '", variables_[v].name,
          "', which is synchronised on read; expected a variable that is equal on all replicas"));
    }
    VariableInfo& weight = variables_[updated[0]];
    if (weight.bucket >= 0) continue;  // updated twice: already placed
    const int64_t bytes = AlignUp(weight.bytes());
    const bool fits = !buckets_.empty() && buckets_.back().dtype == weight.dtype &&
                      buckets_.back().shared == weight.can_share &&
                      used.back() + bytes <= bucket_bytes &&
                      regions_of.back().size() >= updated.size();
    if (!fits) {
      const int b = static_cast<int>(buckets_.size());
      buckets_.push_back({weight.dtype, static_cast<int>(regions_.size()), 0, weight.can_share});
      regions_.push_back({.name = absl::StrCat("gradients/", b), .gradients = true});
      used.push_back(0);
      regions_of.emplace_back();
      for (size_t k = 0; k < updated.size(); ++k) {
        regions_of.back().push_back(static_cast<int>(regions_.size()));
        regions_.push_back({k == 0 ? absl::StrCat("weights/", b) : absl::StrCat("slot", k, "/", b),
                            0, weight.can_share});
      }
    }
    const int b = static_cast<int>(buckets_.size()) - 1;
    for (size_t k = 0; k < updated.size(); ++k) {
      VariableInfo& variable = variables_[updated[k]];
      // A slot of another size, or one that other nodes also write, is stored in the region of all
      // other variables. A slot that is also a weight, or a slot of another weight, stays where it
      // is.
      if (k > 0 && (variable.bytes() != weight.bytes() || variable.bucket >= 0 ||
                    variable.can_share < weight.can_share)) {
        continue;
      }
      variable.region = regions_of[b][k];
      variable.offset = used[b];
      variable.is_slot = k > 0;
      variable.is_optimizer_state |= k > 0;
      variable.bucket = b;
    }
    buckets_[b].bytes = used[b] + weight.bytes();
    used[b] += bytes;
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const int64_t capacity = AlignUp(used[b], alignment * world_size);
    regions_[buckets_[b].gradient_region].bytes = capacity;
    for (int region : regions_of[b]) regions_[region].bytes = capacity;
  }

  const int rest = static_cast<int>(regions_.size());
  regions_.push_back({"variables", 0});
  for (VariableInfo& variable : variables_) {
    if (variable.bucket >= 0) continue;
    variable.region = rest;
    variable.offset = regions_[rest].bytes;
    regions_[rest].bytes += AlignUp(variable.bytes());
  }
  return absl::OkStatus();
}

absl::StatusOr<VariableLayout> VariableLayout::Create(const Graph& graph, int64_t bucket_bytes,
                                                      int world_size, bool share) {
  if (bucket_bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("bucket_bytes must be at least 1, got ", bucket_bytes));
  }
  VariableLayout layout;
  MF_RETURN_IF_ERROR(layout.CollectVariables(graph, share));
  MF_RETURN_IF_ERROR(layout.FillBuckets(graph, bucket_bytes, world_size));
  return layout;
}

int VariableLayout::Find(absl::string_view name) const {
  const auto it = by_name_.find(name);
  return it != by_name_.end() ? it->second : -1;
}

int VariableLayout::FindHandle(const Output& handle) const {
  const Node& node = VariableOf(handle);
  return node.op().role == OpRole::kVariable ? Find(VariableName(node)) : -1;
}

}  // namespace mirrorflow
