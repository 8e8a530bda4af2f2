// SPDX-License-Identifier: Apache-2.0
//
// The cost model predicts how long a plan's instructions take, without running them. The prediction
// depends on what they compute and on how recently the memory that they touch was last touched. The
// caller provides all machine parameters in a CostTable. Nothing is measured here, so equal plans
// and tables have equal costs.
//
// An instruction demands amounts of a few resources, and its op has a price for each resource: the
// cost is their inner product. A byte's reuse distance determines the memory level that it is read
// from: a cache of C bytes holds a byte until more than C other bytes have been touched.
//
// A branch costs as much as its more expensive side. A loop costs as much as one iteration, because
// a plan does not contain the number of iterations.
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

// The resources that instructions demand. Each memory level adds its price to the prices of the
// nearer levels, so a farther level is never cheaper.
enum Resource {
  kCalls,
  kFlops,
  kReads,        // bytes
  kSharedReads,  // the part of kReads that misses the core's own caches
  kFarReads,     // the part of kReads that misses every cache
  kWrites,
  kSharedWrites,
  kFarWrites,
  kNumResources
};
using Amounts = std::array<double, kNumResources>;

// Returns the inner product of demands and prices.
double CostOf(const Amounts& demands, const Amounts& prices);

// The machine as one replica sees it while the other replicas run.
struct CostTable {
  int64_t near_bytes = 0;    // size of the core's own caches
  int64_t shared_bytes = 0;  // a replica's part of the last-level cache
  // Nanoseconds per unit of each resource, by PricedAs() key.
  absl::flat_hash_map<std::string, Amounts> prices;
  // The prices of ops that are not in `prices`, with or without forms: those of matrix products and
  // convolutions, and those of others.
  Amounts products = {};
  Amounts other = {};
};

// Returns the key of instruction `i` in CostTable::prices: its op, or for example `start AllReduce`
// for the start of a collective. Kernels that read an operand in a form (framework/runtime/forms.h)
// have keys of their own, such as `MatMul of forms`, because others copy the operand first.
std::string PricedAs(const Plan& plan, size_t i);

// Returns the floating-point operation count of matrix products and convolutions, including those
// in an update that ends a collective.
int64_t FlopsOf(const Plan& plan, const Instruction& instruction);

// Returns how many bytes of an operand an instruction touches: all of them, except that a gather
// reads only the rows that it writes.
int64_t TouchedBytes(const Plan& plan, size_t instruction, const MemoryAccess& access);

// Returns the demands of each instruction of `plan` in a step that runs repeatedly.
std::vector<Amounts> DemandsOf(const Plan& plan, const CostTable& table);

// Returns the cost of each instruction in nanoseconds.
std::vector<double> CostsOf(const Plan& plan, const CostTable& table);

// Returns the most expensive chain of instructions that cannot run in parallel, even with any
// number of lanes, in plan order. Each instruction reads or overwrites what the previous
// instruction wrote, overwrites what the previous instruction read, or finishes the collective that
// it started.
std::vector<int> CriticalPath(const Plan& plan, absl::Span<const double> costs);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_COST_MODEL_H_
