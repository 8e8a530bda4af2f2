// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ops/gather.h"
#include "ops/gather_nd.h"

namespace mirrorflow {
namespace {

constexpr int64_t kMinBlockBytes = 4096;
constexpr int64_t kMaxTouches = int64_t{1} << 20;  // per step
constexpr absl::string_view kOfForms = " of forms";

// Computes reuse distances in a sequence of touches: a binary indexed tree counts the touches that
// are the last touch of their block. Source: Bennett and Kruskal, "LRU stack processing", 1975.
class ReuseDistances {
 public:
  explicit ReuseDistances(int64_t touches) : tree_(touches + 1, 0) {}

  // Returns how many blocks, including this block, have been touched since this block's last touch,
  // or 1 if this is its first touch.
  int64_t Touch(RegionId region, int64_t block) {
    const int64_t now = ++time_;
    const auto [last, is_new] = last_.try_emplace({region, block}, now);
    int64_t distance = 1;
    if (!is_new) {
      distance += static_cast<int64_t>(last_.size()) - CountUpTo(last->second);
      Add(last->second, -1);
      last->second = now;
    }
    Add(now, 1);
    return distance;
  }

 private:
  void Add(int64_t at, int32_t count) {
    for (; at < static_cast<int64_t>(tree_.size()); at += at & -at) tree_[at] += count;
  }
  int64_t CountUpTo(int64_t at) const {
    int64_t count = 0;
    for (; at > 0; at -= at & -at) count += tree_[at];
    return count;
  }

  std::vector<int32_t> tree_;
  absl::flat_hash_map<std::pair<RegionId, int64_t>, int64_t> last_;
  int64_t time_ = 0;
};

// Returns the fraction of accesses at this reuse distance that miss a cache. The fraction rises
// gradually around the cache's size, because real caches have no sharp limit.
double ShareBeyond(int64_t distance, int64_t cache_bytes) {
  const double octaves = std::log2(static_cast<double>(distance) /
                                   static_cast<double>(std::max<int64_t>(cache_bytes, 1)));
  return std::clamp(octaves + 0.5, 0.0, 1.0);
}

// Returns the prices for this key. Falls back to those of the same op with or without forms, and
// then to the defaults.
const Amounts& PricesOf(const CostTable& table, absl::string_view key, bool is_product) {
  const absl::string_view op = absl::StripSuffix(key, kOfForms);
  for (const std::string& name : {std::string(key), std::string(op), absl::StrCat(op, kOfForms)}) {
    const auto known = table.prices.find(name);
    if (known != table.prices.end()) return known->second;
  }
  return is_product ? table.products : table.other;
}

}  // namespace

double CostOf(const Amounts& demands, const Amounts& prices) {
  return absl::c_inner_product(demands, prices, 0.0);
}

std::string PricedAs(const Plan& plan, size_t i) {
  const Instruction& instruction = plan.instructions[i];
  if (instruction.node < 0) return "Event";
  const std::string& op = plan.node_ops[instruction.node];
  if (instruction.kind == InstructionKind::kStart) return absl::StrCat("start ", op);
  if (instruction.kind == InstructionKind::kCopy) return "Copy";
  const bool reduces =
      Finishes(instruction.kind) && plan.collectives[instruction.index].update() != nullptr;
  if (reduces) return absl::StrCat("reduced ", op);
  const bool reads_forms = absl::c_any_of(plan.accesses[i], [&](const MemoryAccess& access) {
    return access.operand.region >= plan.form_region(0);
  });
  return reads_forms ? absl::StrCat(op, kOfForms) : op;
}

int64_t FlopsOf(const Plan& plan, const Instruction& instruction) {
  if (instruction.kind == InstructionKind::kKernel) return plan.kernel_flops[instruction.index];
  if (!Finishes(instruction.kind)) return 0;
  const UpdateCall* const update = plan.collectives[instruction.index].update();
  return update == nullptr ? 0 : plan.kernel_flops[update->kernel];
}

int64_t TouchedBytes(const Plan& plan, size_t instruction, const MemoryAccess& access) {
  const int32_t node = plan.instructions[instruction].node;
  if (access.is_write || node < 0) return access.bytes;
  const std::string& op = plan.node_ops[node];
  if (op != ops::kGatherV2 && op != ops::kResourceGather && op != ops::kGatherNd)
    return access.bytes;
  int64_t written = 0;
  for (const MemoryAccess& other : plan.accesses[instruction]) {
    if (other.is_write) written += other.bytes;
  }
  return std::min(access.bytes, written);
}

std::vector<Amounts> DemandsOf(const Plan& plan, const CostTable& table) {
  int64_t bytes = 0, accesses = 0;
  for (const std::vector<MemoryAccess>& list : plan.accesses) {
    accesses += static_cast<int64_t>(list.size());
    for (const MemoryAccess& access : list) bytes += access.bytes;
  }
  int64_t block = kMinBlockBytes;
  while (bytes / block > kMaxTouches) block *= 2;
  ReuseDistances distances(2 * (bytes / block + 2 * accesses));
  std::vector<Amounts> demands(plan.instructions.size());
  auto touch = [&](size_t i, const MemoryAccess& access) {
    const int64_t end = access.operand.offset + TouchedBytes(plan, i, access);
    for (int64_t at = access.operand.offset, next; at < end; at = next) {
      next = std::min(end, (at / block + 1) * block);
      const int64_t distance = distances.Touch(access.operand.region, at / block) * block;
      const auto bytes = static_cast<double>(next - at);
      double* const levels = &demands[i][access.is_write ? kWrites : kReads];
      levels[0] += bytes;
      levels[1] += bytes * ShareBeyond(distance, table.near_bytes);
      levels[2] += bytes * ShareBeyond(distance, table.shared_bytes);
    }
  };
  // A write hits the cache if the same instruction has read the memory.
  auto was_read = [&](size_t i, const MemoryAccess& access) {
    if (!access.is_write) return false;
    return absl::c_any_of(plan.accesses[i], [&](const MemoryAccess& other) {
      return !other.is_write && other.operand.region == access.operand.region &&
             other.operand.offset == access.operand.offset && other.bytes >= access.bytes;
    });
  };
  // The first pass represents the first step, without earlier touches. The second pass represents
  // every later step.
  for (int time = 0; time < 2; ++time) {
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction& instruction = plan.instructions[i];
      demands[i] = {};
      if (instruction.node >= 0) demands[i][kCalls] = 1;
      demands[i][kFlops] = static_cast<double>(FlopsOf(plan, instruction));
      // If lanes run inline, a collective touches memory only when it finishes.
      if (instruction.kind == InstructionKind::kStart) continue;
      for (const MemoryAccess& access : plan.accesses[i]) {
        if (!was_read(i, access)) touch(i, access);
      }
    }
  }
  return demands;
}

std::vector<double> CostsOf(const Plan& plan, const CostTable& table) {
  const std::vector<Amounts> demands = DemandsOf(plan, table);
  std::vector<double> costs;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    const bool is_product = demands[i][kFlops] > 0;
    costs.push_back(CostOf(demands[i], PricesOf(table, PricedAs(plan, i), is_product)));
    const bool branches = instruction.kind == InstructionKind::kBranch;
    if (!branches && instruction.kind != InstructionKind::kLoop) continue;
    const PlannedControl& control = plan.controls[instruction.index];
    const double first = absl::c_accumulate(CostsOf(*control.plans[0], table), 0.0);
    const double second = absl::c_accumulate(CostsOf(*control.plans[1], table), 0.0);
    costs.back() += branches ? std::max(first, second) : first + second;
  }
  return costs;
}

std::vector<int> CriticalPath(const Plan& plan, absl::Span<const double> costs) {
  struct Use {
    int64_t first;
    int64_t limit;
    int instruction;
  };
  struct Uses {
    std::vector<Use> reads, writes;  // the accesses that no later write covers
  };
  absl::flat_hash_map<int32_t, Uses> by_value;
  const int count = static_cast<int>(plan.instructions.size());
  std::vector<double> end(count, 0);
  std::vector<int> before(count, -1), started(plan.collectives.size(), -1);
  int last = -1;
  for (int i = 0; i < count; ++i) {
    const Instruction& instruction = plan.instructions[i];
    double begin = 0;
    auto after = [&](int other) {
      if (other < 0 || end[other] <= begin) return;
      begin = end[other];
      before[i] = other;
    };
    for (const MemoryAccess& access : plan.accesses[i]) {
      const int64_t first = access.operand.offset, limit = first + access.bytes;
      auto after_all = [&](const std::vector<Use>& uses) {
        for (const Use& use : uses) {
          if (first < use.limit && use.first < limit) after(use.instruction);
        }
      };
      Uses& past = by_value[access.value];
      after_all(past.writes);
      if (access.is_write) {
        after_all(past.reads);
        for (std::vector<Use>* uses : {&past.reads, &past.writes}) {
          const auto hidden = [&](const Use& u) { return first <= u.first && u.limit <= limit; };
          std::erase_if(*uses, hidden);
        }
      }
      (access.is_write ? past.writes : past.reads).push_back({first, limit, i});
    }
    if (instruction.kind == InstructionKind::kStart) started[instruction.index] = i;
    if (instruction.kind == InstructionKind::kFinish) after(started[instruction.index]);
    end[i] = begin + costs[i];
    if (last < 0 || end[i] > end[last]) last = i;
  }
  std::vector<int> path;
  for (int i = last; i >= 0; i = before[i]) path.push_back(i);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace mirrorflow
