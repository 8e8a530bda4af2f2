// SPDX-License-Identifier: Apache-2.0
//
// The cost model: predicts how long the instructions of a plan take, without running them. The
// prediction depends on what they compute and on how long ago the memory that they touch was last
// touched. The caller provides all figures of the machine in a CostTable; nothing is measured here,
// so equal plans and tables have equal costs.
//
// An instruction demands amounts of a few resources, and its op has a price for each: the cost is
// their inner product. The level of memory that a byte comes from follows from its reuse distance:
// a cache of C bytes holds a byte until more than C other bytes have been touched.
//
// The cost of a branch is that of its more expensive side. The cost of a loop is that of one
// iteration, because a plan does not contain the number of iterations.
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_COST_MODEL_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_COST_MODEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {

// The resources that instructions demand. Each level of memory adds its price to that of the nearer
// levels, so a farther level is never cheaper.
enum Resource {
  kCalls,
  kFlops,
  kReads,        // bytes
  kSharedReads,  // the part of them that misses the core's own caches
  kFarReads,     // the part of them that misses every cache
  kWrites,
  kSharedWrites,
  kFarWrites,
  kNumResources
};
using Amounts = std::array<double, kNumResources>;

// Returns the inner product of demands and prices.
double CostOf(const Amounts& demands, const Amounts& prices);

// The machine as one replica sees it while the others run.
struct CostTable {
  int64_t near_bytes = 0;    // size of the core's own caches
  int64_t shared_bytes = 0;  // a replica's share of the last-level cache
  // Nanoseconds per unit of each resource, by the key that PricedAs returns.
  absl::flat_hash_map<std::string, Amounts> prices;
  Amounts other = {};  // for every op that is not in `prices`
};

// Returns the key of an instruction in `prices`: its op, or `start AllReduce` for the start of a
// collective.
std::string PricedAs(const Plan& plan, const Instruction& instruction);

// Counts the operations of matrix products and convolutions, including those in an update that ends
// a collective.
int64_t FlopsOf(const Plan& plan, const Instruction& instruction);

// Returns the demands of each instruction of `plan` in a step that runs repeatedly.
std::vector<Amounts> DemandsOf(const Plan& plan, const CostTable& table);

// Returns the cost of each instruction in nanoseconds.
std::vector<double> CostsOf(const Plan& plan, const CostTable& table);

// Returns the most expensive chain of instructions that no number of lanes could run in parallel,
// in plan order. Each reads or overwrites what the previous one wrote, overwrites what it read, or
// finishes the collective that it started.
std::vector<int> CriticalPath(const Plan& plan, absl::Span<const double> costs);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_COST_MODEL_H_
