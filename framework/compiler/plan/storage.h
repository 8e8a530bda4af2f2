// SPDX-License-Identifier: Apache-2.0
//
// Which values share memory: views lie in their input's, reads in the variable's, operands of a
// collective side by side in one piece, an output that may be written over a dying input in that
// input's. A Storage is one piece of memory before it has a place in the arena.
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
  int64_t bytes = 0;
  // kNoRegion: in the arena, at an offset that PlanMemory gives; or inside `parent`.
  RegionId region = kNoRegion;
  int64_t offset = 0;  // in the region, in the parent or, by PlanMemory, in the arena
  int parent = -1;     // the storage that this one is a part of
  // A collective uses it, or the plan does not own it: no output may be written over it, nor it
  // over an input.
  bool pinned = false;
  bool fetched = false;  // no output may be written over it
};

struct StorageTable {
  // The operands of an all-reduce: the pieces its values lie in, one after the other.
  struct Slots {
    std::vector<int> storages;  // by operand
    std::vector<char> needs_copy;
    int64_t count = 0;  // elements from the first to the last
  };

  // The storage of an output, or -1 for a value without memory at run time (a static constant).
  int of(const Output& output) const {
    const auto it = by_output.find(output);
    return it != by_output.end() ? it->second : -1;
  }
  // The storage that has the memory: itself or its outermost parent.
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
  int Add(const Output& output, Storage storage) { return by_output[output] = Add(storage); }

  std::vector<Storage> all;
  absl::flat_hash_map<Output, int> by_output;
  absl::flat_hash_map<NodeId, Slots> slots;  // by all-reduce
  // The constants that are operands, and where each lies.
  std::vector<std::pair<const Node*, int64_t>> constants;
  int64_t constants_bytes = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_STORAGE_H_
