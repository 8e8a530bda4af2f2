// SPDX-License-Identifier: Apache-2.0
//
// Which values share memory: views lie in their input's, reads in the variable's, operands of a
// collective side by side in one piece, an output that may be written over a dying input in that
// input's. A Storage is one piece of memory before it has a place in the arena.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_STORAGE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_STORAGE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "framework/compiler/compilation.h"
#include "framework/compiler/compile_plan.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow {

struct Storage {
  int64_t bytes = 0;
  // kNoRegion: in the arena, at an offset that the memory planner gives; or inside `parent`.
  RegionId region = kNoRegion;
  int64_t offset = 0;  // in the region or in the parent
  int parent = -1;     // the storage that this one is a part of
  // A collective uses it, or somebody else owns it: no output may be written over it, nor it over
  // an input.
  bool pinned = false;
  bool fetched = false;  // no output may be written over it
};

// What a collective node does, told by its attributes: `reduction` reduces, and `axis` names the
// split whose rows are gathered or scattered. Without one it reduces in place.
inline bool ChangesRows(const Node& collective) { return collective.has_attr("axis"); }

class StorageTable {
 public:
  // Storages of all outputs of `order`. `kernel_plans` (by node id) say what may be in place; the
  // variables' regions start at `first_layout_region`. `owns_feeds`: nobody else reads what is fed,
  // so outputs may be written over it too.
  StorageTable(const Compilation& c, const LocalShapes& shapes, const std::vector<Node*>& order,
               const std::vector<KernelPlan>& kernel_plans, RegionId first_layout_region,
               bool owns_feeds);

  // The storage of an output, or -1 for a value without memory at run time (a static constant).
  int of(const Output& output) const;
  const std::vector<Storage>& storages() const { return storages_; }
  // The storage that has the memory: itself or its outermost parent.
  int Root(int storage) const;
  // From the start of the root.
  int64_t OffsetInRoot(int storage) const;

  // The operands of an all-reduce: the pieces its values lie in, one after the other.
  struct Slots {
    std::vector<int> storages;  // by operand
    std::vector<char> needs_copy;
    int64_t count = 0;  // elements from the first to the last
  };
  const Slots& slots(const Node& all_reduce) const { return slots_.at(all_reduce.id()); }

  // The bytes of constants that are operands, and where each lies.
  int64_t constants_bytes() const { return constants_bytes_; }
  const std::vector<std::pair<const Node*, int64_t>>& constants() const { return constants_; }

 private:
  void PlaceCollectives();
  void AssignNode(const Node& node);
  void ShareInPlace(const std::vector<Node*>& order, const std::vector<KernelPlan>& kernel_plans);
  int Add(Storage storage);
  int64_t Bytes(const Output& output) const;
  bool IsOperand(const Output& output) const;
  // The one kernel output behind `value`, if nobody else uses it on the way; else invalid.
  Output SoleProducer(const Output& value) const;

  const Compilation& c_;
  const LocalShapes& shapes_;
  const RegionId first_layout_region_;
  const bool owns_feeds_;
  std::vector<Storage> storages_;
  absl::flat_hash_map<Output, int> of_;
  absl::flat_hash_map<NodeId, Slots> slots_;
  int64_t constants_bytes_ = 0;
  std::vector<std::pair<const Node*, int64_t>> constants_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_STORAGE_H_
