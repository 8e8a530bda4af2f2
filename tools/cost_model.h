// SPDX-License-Identifier: Apache-2.0
//
// The cost model: how long the instructions of a plan take, told from what they compute and from
// how long ago the memory that they touch was touched last, without running any. What is particular
// to a machine is in a CostTable, which comes from above: nothing is measured here, so equal plans
// and tables have equal costs.
//
// An instruction demands amounts of a few resources, and its op has a price for each: the cost is
// their inner product. The level of memory that a byte comes from follows from its reuse distance:
// a cache of C bytes still has what was touched last before no more than C other bytes.
//
// A branch costs what its costlier side does, and a loop one iteration: nothing in a plan says how
// many there will be.
#ifndef MIRRORFLOW_TOOLS_COST_MODEL_H_
#define MIRRORFLOW_TOOLS_COST_MODEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {

// What instructions demand. Each level of memory adds its price to that of the levels before it, so
// what is further away is never cheaper.
enum Resource {
  kCalls,
  kFlops,
  kReads,        // bytes
  kSharedReads,  // of them, those that are no more in the core's own caches
  kFarReads,     // of them, those that are in no cache
  kWrites,
  kSharedWrites,
  kFarWrites,
  kNumResources
};
using Amounts = std::array<double, kNumResources>;

// The inner product.
double CostOf(const Amounts& demands, const Amounts& prices);

// The machine, as one replica finds it while the others run.
struct CostTable {
  int64_t near_bytes = 0;    // of the core's own caches
  int64_t shared_bytes = 0;  // a replica's part of the last level
  // Nanoseconds for one of each resource, by what PricedAs says.
  absl::flat_hash_map<std::string, Amounts> prices;
  Amounts other = {};  // of all that is not in `prices`
};

// The key of an instruction in `prices`: its op; `start AllReduce` for the start of a collective.
std::string PricedAs(const Plan& plan, const Instruction& instruction);

// Of products and convolutions, those in an update that ends a collective among them.
int64_t FlopsOf(const Plan& plan, const Instruction& instruction);

// By instruction of `plan`: what it demands in a step that runs again and again.
std::vector<Amounts> DemandsOf(const Plan& plan, const CostTable& table);

// By instruction: nanoseconds.
std::vector<double> CostsOf(const Plan& plan, const CostTable& table);

// The instructions that no number of lanes could run side by side, and which take longest:
// each needs what an earlier one has written, or writes over what one has read, or is on the other
// end of a collective. In their order.
std::vector<int> CriticalPath(const Plan& plan, absl::Span<const double> costs);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_COST_MODEL_H_
