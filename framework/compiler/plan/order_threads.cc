// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/order_threads.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "framework/compiler/plan/interval_map.h"

namespace mirrorflow {
namespace {

// The last instructions that accessed a range of bytes.
struct LastAccesses {
  absl::InlinedVector<int, 2> writers;  // several if they are parts of one node
  absl::InlinedVector<int, 2> readers;  // since these writes; only the latest of each thread
  // The writers and readers before `writers`, which other parts of the same node must also follow.
  absl::InlinedVector<int, 2> earlier;
};

class Orderer {
 public:
  explicit Orderer(const Plan& plan)
      : plan_(plan),
        has_run_(plan.num_threads, std::vector<int>(plan.num_threads, -1)),
        had_run_(plan.instructions.size()),
        last_rejecting_(plan.num_threads, -1) {}

  std::vector<ThreadWait> Run() {
    std::vector<ThreadWait> waits;
    for (int i = 0; i < static_cast<int>(plan_.instructions.size()); ++i) {
      const int thread = plan_.instructions[i].thread;
      std::vector<int>& known = has_run_[thread];
      std::vector<int> others = OthersBefore(i);
      // Waiting for a later instruction often makes waits for earlier ones redundant.
      absl::c_sort(others, std::greater<>());
      for (const int other : others) {
        if (known[plan_.instructions[other].thread] >= other) continue;
        waits.push_back({i, other});
        for (int t = 0; t < plan_.num_threads; ++t) {
          known[t] = std::max(known[t], had_run_[other][t]);
        }
      }
      known[thread] = i;
      had_run_[i] = known;
    }
    return waits;
  }

 private:
  // Returns, for each other thread, its last instruction that must run before instruction `i`.
  std::vector<int> OthersBefore(int i) {
    std::vector<int> last(plan_.num_threads, -1);
    const auto follow = [&](int other) {
      if (other < 0) return;
      int& of_thread = last[plan_.instructions[other].thread];
      of_thread = std::max(of_thread, other);
    };
    // Process reads first: an instruction may overwrite its own inputs. An access with gaps between
    // its rows counts as one to the gaps, too: an image can have millions of rows.
    for (const bool is_write : {false, true}) {
      for (const MemoryAccess& access : plan_.accesses[i]) {
        if (access.is_write != is_write || access.bytes == 0) continue;
        const int64_t begin = access.operand.offset;
        regions_[access.operand.region].ForEach(begin, begin + access.extent(),
                                                [&](LastAccesses& last_accesses) {
                                                  Visit(i, is_write, follow, &last_accesses);
                                                  return true;
                                                });
      }
    }
    if (CommitsStep(plan_, static_cast<size_t>(i))) {
      for (const int rejecting : last_rejecting_) follow(rejecting);
    }
    // GuardWrites orders writes after a collective that every rank starts, if it has not rejected
    // the step's data.
    if (WritesVariable(plan_, static_cast<size_t>(i))) follow(last_finish_);
    if (Finishes(plan_.instructions[i].kind)) last_finish_ = i;
    if (CanReject(plan_, static_cast<size_t>(i))) {
      last_rejecting_[plan_.instructions[i].thread] = i;
    }
    std::vector<int> others;
    for (int t = 0; t < plan_.num_threads; ++t) {
      if (t != plan_.instructions[i].thread && last[t] >= 0) others.push_back(last[t]);
    }
    return others;
  }

  // Calls follow(other) for each access that must precede that of instruction `i`. The parts of a
  // node access different bytes wherever one of them writes, so they need not follow one another.
  template <typename Follow>
  void Visit(int i, bool is_write, const Follow& follow, LastAccesses* last) const {
    const auto is_other_part = [&](int other) {
      return ArePartsOfSameNode(plan_.instructions[other], plan_.instructions[i]);
    };
    const auto follow_all = [&](absl::Span<const int> others) {
      for (const int other : others) {
        if (!is_other_part(other)) follow(other);
      }
    };
    follow_all(last->writers);
    const bool continues = !last->writers.empty() && is_other_part(last->writers[0]);
    if (continues) follow_all(last->earlier);
    if (!is_write) return AddReader(i, last);
    follow_all(last->readers);
    if (continues) {
      last->writers.push_back(i);
      return;
    }
    LastAccesses now = {.writers = {i}, .earlier = std::move(last->writers)};
    now.earlier.insert(now.earlier.end(), last->readers.begin(), last->readers.end());
    *last = std::move(now);
  }

  void AddReader(int i, LastAccesses* last) const {
    for (int& reader : last->readers) {
      if (plan_.instructions[reader].thread != plan_.instructions[i].thread) continue;
      reader = i;
      return;
    }
    last->readers.push_back(i);
  }

  const Plan& plan_;
  std::map<RegionId, IntervalMap<LastAccesses>> regions_;
  // has_run_[t][u]: the last instruction of thread u that thread t knows to have run.
  std::vector<std::vector<int>> has_run_;
  std::vector<std::vector<int>> had_run_;  // by instruction: its thread's has_run_ right after it
  // For each thread, the last instruction that can reject the step's data, or -1.
  std::vector<int> last_rejecting_;
  int last_finish_ = -1;  // the last instruction that finishes a collective, or -1
};

}  // namespace

absl::StatusOr<bool> OrderThreads::Run(PlanState& s) {
  Plan& plan = *s.plan;
  for (const Instruction& instruction : plan.instructions) {
    plan.num_threads = std::max(plan.num_threads, instruction.thread + 1);
  }
  if (plan.num_threads > 1) plan.waits = Orderer(plan).Run();
  // Branch and loop bodies run on a single thread.
  MakeDispatchLists(plan, s.traits.inline_lanes || s.is_body);
  return true;
}

}  // namespace mirrorflow
