// SPDX-License-Identifier: Apache-2.0
//
// Time of one all-reduce (sum of floats, in place, hot) between two threads of one process, each
// pinned to a core of its own: BM_AllReduce/BYTES.
#include <pthread.h>
#include <sched.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "benchmark/benchmark.h"
#include "distribute/collective/in_process.h"

namespace mirrorflow {
namespace {

void PinToCore(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores);
}

// An all-reduce with memory of its own, aligned as an arena would be.
class Contribution {
 public:
  explicit Contribution(int64_t bytes) : memory_(bytes + kAlignment, 0) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    collective_.in = collective_.out = memory_.data() + (-address % kAlignment);
    collective_.count = bytes / static_cast<int64_t>(sizeof(float));
    collective_.kind = CollectiveKind::kAllReduce;
    collective_.dtype = DT_FLOAT;
    collective_.name = "benchmark";
  }
  const Collective& collective() const { return collective_; }

 private:
  static constexpr uintptr_t kAlignment = 4096;
  std::vector<char> memory_;
  Collective collective_;
};

void BM_AllReduce(benchmark::State& state) {
  auto communicators = CreateInProcessCommunicators(2).value();
  std::thread peer([&] {
    PinToCore(1);
    const Contribution contribution(state.range(0));
    while (communicators[1]->Run(contribution.collective()).ok()) {
    }
  });
  PinToCore(0);
  const Contribution contribution(state.range(0));
  for (auto _ : state) {
    const absl::Status status = communicators[0]->Run(contribution.collective());
    if (!status.ok()) state.SkipWithError(status.ToString().c_str());
  }
  communicators[0]->Abort(absl::CancelledError("the benchmark is over"));
  peer.join();
}
// More threads than the one that measures would be counted as if they shared its time.
BENCHMARK(BM_AllReduce)->Arg(4)->Arg(4 << 10)->Arg(64 << 10)->Arg(1 << 20)->Arg(25 << 20);

}  // namespace
}  // namespace mirrorflow
