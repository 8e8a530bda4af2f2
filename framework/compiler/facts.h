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
  kPruned = 1u << 0,      // only what feeds, fetches and targets need is in the graph
  kBodiesMade = 1u << 1,  // what branches and loops run are bodies, without variables
  // Every value has a fully defined global shape; shape operands are constant.
  kShapesKnown = 1u << 2,
  kListsLowered = 1u << 3,      // no value is a list of tensors
  kDuplicatesMerged = 1u << 4,  // no two nodes compute the same: it would be sent twice
  // The ops for which a sharding is chosen are those that will run, or parts of them.
  kReadyToShard = 1u << 5,
  kSharded = 1u << 6,              // every value has a sharding
  kCollectivesInserted = 1u << 7,  // every use gets the sharding that it needs
  kDtypesFinal = 1u << 8,          // every value has the dtype in which it is computed and sent
  // Updates that reduce their gradient themselves are marked; no all-reduce is made for them.
  kUpdatesReduce = 1u << 9,
  kBucketed = 1u << 10,            // small reductions share collectives
  kVariablesOrdered = 1u << 11,    // control edges order reads and writes of each variable
  kCollectivesOrdered = 1u << 12,  // Compilation::collectives is complete
  // Of a plan.
  kReadersFree = 1u << 13,    // nodes that read a variable have no edges to its writes
  kLayersFused = 1u << 14,    // what is left of layers are single operations
  kLocal = 1u << 15,          // PlanState::shapes
  kKernelsChosen = 1u << 16,  // PlanState::kernel_plans
  kWritesGuarded = 1u << 17,  // no replica writes before every replica's data are known to be good
  kScheduled = 1u << 18,      // PlanState::order
  kStorageAssigned = 1u << 19,  // PlanState::storage
  kEmitted = 1u << 20,          // Plan::instructions, whose operands name storages
  kPlaced = 1u << 21,           // operands have addresses; the plan can run
};
using Facts = uint32_t;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_FACTS_H_
