// SPDX-License-Identifier: Apache-2.0
//
// Facts about a Compilation that passes need, give and end. They determine which orders of passes
// are valid; Pipeline::Run checks them.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_FACTS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_FACTS_H_

#include <cstdint>

namespace mirrorflow {

enum Fact : uint32_t {
  // Facts about a program.
  kPruned = 1u << 0,      // the graph has only what feeds, fetches and targets need
  kBodiesMade = 1u << 1,  // branches and loops run bodies, which have no variables
  // Every value has a fully defined global shape; shape operands are constant.
  kShapesKnown = 1u << 2,
  kListsLowered = 1u << 3,      // no value is a list of tensors
  kDuplicatesMerged = 1u << 4,  // no two nodes compute the same value, to be sent twice
  // Shardings can be chosen: the ops are those that will run, or parts of them.
  kReadyToShard = 1u << 5,
  kSharded = 1u << 6,          // every value has a sharding
  kShardingsMet = 1u << 7,     // every use gets the sharding that it needs
  kDtypesFinal = 1u << 8,      // every value has the dtype in which it is computed and sent
  kReductionsKnown = 1u << 9,  // every gradient is reduced either by a collective or in its update
  kCollectivesFinal = 1u << 10,    // no pass adds, merges or removes collectives any more
  kVariablesOrdered = 1u << 11,    // control edges order reads and writes of each variable
  kCollectivesOrdered = 1u << 12,  // Compilation::collectives is complete
  // Facts about a plan.
  kReadersFree = 1u << 13,      // nodes that read a variable have no edges to its writes
  kLayersFused = 1u << 14,      // layers are fused; only single operations remain
  kLocal = 1u << 15,            // PlanState::shapes is filled
  kKernelsChosen = 1u << 16,    // PlanState::kernel_plans is filled
  kWritesGuarded = 1u << 17,    // no replica writes before the data of all are known to be valid
  kScheduled = 1u << 18,        // PlanState::order is filled
  kStorageAssigned = 1u << 19,  // PlanState::storage is filled
  kEmitted = 1u << 20,          // Plan::instructions is filled; operands name storages
  kPlaced = 1u << 21,           // operands have addresses; the plan can run
};
using Facts = uint32_t;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_FACTS_H_
