// SPDX-License-Identifier: Apache-2.0
//
// Facts about a Compilation, which passes need, give and end. They state the order of a pipeline,
// and Pipeline::Run checks it.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_FACTS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_FACTS_H_

#include <cstdint>

namespace mirrorflow {

enum Fact : uint32_t {
  // Of a program.
  kPruned = 1u << 0,  // only what feeds, fetches and targets need is in the graph
  // Every value has a fully defined global shape; shape operands are constant.
  kShapesKnown = 1u << 1,
  kDuplicatesMerged = 1u << 2,     // no two nodes compute the same
  kSharded = 1u << 3,              // every value has a sharding
  kCollectivesInserted = 1u << 4,  // every use gets the sharding that it needs
  kBucketed = 1u << 5,             // small reductions share collectives
  kVariablesOrdered = 1u << 6,     // control edges order reads and writes of each variable
  kCollectivesOrdered = 1u << 7,   // Compilation::collectives is complete
  // Of a plan.
  kReadersFree = 1u << 8,     // nodes that read a variable have no edges to its writes
  kLocal = 1u << 9,           // PlanState::shapes
  kKernelsChosen = 1u << 10,  // PlanState::kernel_plans
  kWritesGuarded = 1u << 11,  // no replica writes before every replica's data are known to be good
  kScheduled = 1u << 12,      // PlanState::order
  kStorageAssigned = 1u << 13,  // PlanState::storage
  kEmitted = 1u << 14,          // Plan::instructions, whose operands name storages
  kPlaced = 1u << 15,           // operands have addresses; the plan can run
};
using Facts = uint32_t;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_FACTS_H_
