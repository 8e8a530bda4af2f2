// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/value_list.h"

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/status/status.h"

namespace mirrorflow {
namespace {

absl::Status Malformed() { return absl::InternalError("coordination: malformed values"); }

}  // namespace

coordination::ValueList ValueListOf(absl::Span<const std::string> values) {
  coordination::ValueList list;
  std::map<absl::string_view, uint32_t> indices;
  for (const std::string& value : values) {
    const auto [known, is_new] = indices.emplace(value, list.distinct_size());
    if (is_new) list.add_distinct(value);
    if (list.run_size() > 0 && list.run(list.run_size() - 1).index() == known->second) {
      coordination::ValueList::Run& run = *list.mutable_run(list.run_size() - 1);
      run.set_length(run.length() + 1);
    } else {
      coordination::ValueList::Run& run = *list.add_run();
      run.set_index(known->second);
      run.set_length(1);
    }
  }
  return list;
}

absl::StatusOr<std::vector<std::string>> ValuesOf(const coordination::ValueList& list, int count) {
  std::vector<std::string> values;
  for (const coordination::ValueList::Run& run : list.run()) {
    const auto left = static_cast<size_t>(count) - values.size();
    if (run.index() >= static_cast<uint32_t>(list.distinct_size()) || run.length() > left) {
      return Malformed();
    }
    values.insert(values.end(), run.length(), list.distinct(static_cast<int>(run.index())));
  }
  if (static_cast<int>(values.size()) != count) return Malformed();
  return values;
}

std::string JoinValues(absl::Span<const std::string> values) {
  return ValueListOf(values).SerializeAsString();
}

absl::StatusOr<std::vector<std::string>> SplitValues(absl::string_view joined, int count) {
  coordination::ValueList list;
  if (!list.ParseFromArray(joined.data(), static_cast<int>(joined.size()))) return Malformed();
  return ValuesOf(list, count);
}

}  // namespace mirrorflow
