// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/order_threads.h"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "framework/compiler/plan/interval_map.h"

namespace mirrorflow {
namespace {

// The last instructions that accessed a range of bytes.
struct LastAccesses {
  int writer = -1;
  absl::InlinedVector<int, 4> readers;  // since then, at most one for each thread
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
      // A wait for a late instruction often implies the waits for earlier ones.
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
  // Returns the last instruction of each other thread that must run before instruction i.
  std::vector<int> OthersBefore(int i) {
    std::vector<int> last(plan_.num_threads, -1);
    const auto follow = [&](int other) {
      if (other < 0) return;
      int& of_thread = last[plan_.instructions[other].thread];
      of_thread = std::max(of_thread, other);
    };
    // Reads come first, because an instruction may overwrite what it reads.
    for (const bool is_write : {false, true}) {
      for (const MemoryAccess& access : plan_.accesses[i]) {
        if (access.is_write != is_write || access.bytes == 0) continue;
        for (int64_t row = 0; row < access.rows; ++row) {
          const int64_t begin = access.operand.offset + row * access.row_stride;
          regions_[access.operand.region].ForEach(begin, begin + access.row_bytes(),
                                                  [&](LastAccesses& bytes) {
                                                    follow(bytes.writer);
                                                    if (!is_write) {
                                                      AddReader(i, &bytes);
                                                    } else {
                                                      for (const int reader : bytes.readers)
                                                        follow(reader);
                                                      bytes = {.writer = i};
                                                    }
                                                    return true;
                                                  });
        }
      }
    }
    // No variable may change if the step rejects its data.
    if (WritesVariable(plan_, static_cast<size_t>(i))) {
      for (const int rejecting : last_rejecting_) follow(rejecting);
    }
    if (CanReject(plan_, static_cast<size_t>(i))) {
      last_rejecting_[plan_.instructions[i].thread] = i;
    }
    std::vector<int> others;
    for (int t = 0; t < plan_.num_threads; ++t) {
      if (t != plan_.instructions[i].thread && last[t] >= 0) others.push_back(last[t]);
    }
    return others;
  }

  void AddReader(int i, LastAccesses* bytes) const {
    for (int& reader : bytes->readers) {
      if (plan_.instructions[reader].thread != plan_.instructions[i].thread) continue;
      reader = i;
      return;
    }
    bytes->readers.push_back(i);
  }

  const Plan& plan_;
  std::map<RegionId, IntervalMap<LastAccesses>> regions_;
  // has_run_[t][u]: the last instruction of thread u of which thread t knows that it has run.
  std::vector<std::vector<int>> has_run_;
  std::vector<std::vector<int>> had_run_;  // the same for the thread of instruction i, after it
  // The last instruction of each thread that can reject its data, or -1.
  std::vector<int> last_rejecting_;
};

}  // namespace

absl::StatusOr<bool> OrderThreads::Run(PlanState& s) {
  Plan& plan = *s.plan;
  for (const Instruction& instruction : plan.instructions) {
    plan.num_threads = std::max(plan.num_threads, instruction.thread + 1);
  }
  if (plan.num_threads > 1) plan.waits = Orderer(plan).Run();
  // The bodies of branches and loops run on a single thread.
  MakeDispatchLists(plan, s.traits.inline_lanes || s.is_body);
  return true;
}

}  // namespace mirrorflow
