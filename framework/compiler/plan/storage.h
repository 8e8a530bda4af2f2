// SPDX-License-Identifier: Apache-2.0
//
// StorageTable: records which values share memory. A view shares its input's memory, and a read
// shares its variable's memory. The operands of a collective are adjacent in one block. An output
// that may overwrite an input at its last use shares that input's memory. The output of a Concat
// can contain its inputs. A Storage is a block of memory, which may not have an address yet.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_STORAGE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_STORAGE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "framework/graph/graph.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow {

struct Storage {
  int64_t bytes = 0;  // without the gaps between rows
  // kNoRegion if the storage is inside `parent` or in the arena, at an offset that PlanMemory
  // assigns.
  RegionId region = kNoRegion;
  int64_t offset = 0;  // in the region or parent, or in the arena once assigned
  int parent = -1;     // the storage that contains this one; -1 if none
  // The rows have equal sizes and are `row_stride` bytes apart. A contiguous storage is one row.
  int64_t rows = 1;
  int64_t row_stride = 0;
  // If true, a collective uses the storage, or the plan does not own it. No output may overwrite a
  // pinned storage, and a pinned storage may not overwrite an input.
  bool pinned = false;
  bool fetched = false;  // if true, no output may overwrite it
};

class StorageTable {
 public:
  // The operands of an all-reduce: the storages of its values, in memory order.
  struct Slots {
    std::vector<int> storages;  // by operand
    std::vector<char> needs_copy;
    int64_t count = 0;  // element count from the start of the first to the end of the last
  };

  StorageTable() = default;
  // Creates a table for the graph's values, none of which has a storage yet.
  explicit StorageTable(const Graph& graph) : first_output_(graph.id_limit()) {
    for (const Node* node : graph.Nodes()) {
      first_output_[node->id()] = by_output_.size();
      by_output_.resize(by_output_.size() + node->num_outputs(), -1);
    }
  }

  // Returns the storage of an output, or -1 for a value without memory at run time (a static
  // constant).
  int of(const Output& output) const {
    const auto id = static_cast<size_t>(output.node->id());
    return id < first_output_.size() ? by_output_[first_output_[id] + output.index] : -1;
  }
  void Set(const Output& output, int storage) {
    by_output_[first_output_[output.node->id()] + output.index] = storage;
  }
  // Returns the storage that owns the memory: `storage` itself or its outermost parent.
  int Root(int storage) const {
    while (all[storage].parent >= 0) storage = all[storage].parent;
    return storage;
  }
  int RootOf(const Output& output) const {
    const int storage = of(output);
    return storage >= 0 ? Root(storage) : -1;
  }
  int Add(Storage storage) {
    all.push_back(storage);
    return static_cast<int>(all.size()) - 1;
  }
  int Add(const Output& output, Storage storage) {
    Set(output, Add(storage));
    return of(output);
  }
  // Adds the storage of `range` of a value that has shape `shape` and is stored in `whole`.
  int AddPart(int whole, const Shape& shape, DataType dtype, const DimRange& range) {
    const Storage& storage = all[whole];
    const auto element = static_cast<int64_t>(DataTypeSize(dtype));
    const int64_t step = shape.num_elements_from(range.dim + 1) * element;  // bytes per index
    Storage part = {.offset = range.first * step, .parent = whole};
    if (storage.rows > 1 && range.dim + 1 < shape.rank()) {
      // The part consists of whole rows. REQUIRES: all earlier dimensions have size 1.
      const int64_t row_bytes = storage.bytes / storage.rows;
      part.offset = range.first * step / row_bytes * storage.row_stride;
      part.rows = range.count * step / row_bytes;
      part.row_stride = storage.row_stride;
    } else if (storage.rows > 1) {
      part.rows = storage.rows;
      part.row_stride = storage.row_stride;
    } else {
      part.rows = shape.num_elements_before(range.dim);
      part.row_stride = shape.dim(range.dim) * step;
    }
    part.bytes = shape.num_elements_before(range.dim) * range.count * step;
    return Add(part);
  }

  std::vector<Storage> all;
  absl::flat_hash_map<NodeId, Slots> slots;  // by all-reduce
  // The constants that are operands, and their offsets.
  std::vector<std::pair<const Node*, int64_t>> constants;
  int64_t constants_bytes = 0;

 private:
  std::vector<size_t> first_output_;  // by node id: index of its outputs in by_output_
  std::vector<int> by_output_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_STORAGE_H_
