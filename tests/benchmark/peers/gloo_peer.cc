// SPDX-License-Identifier: Apache-2.0
//
// Gloo: all-reduce of floats between two ranks over loopback TCP. Each rank is a thread with its
// own context and core. Usage: `gloo_peer ring|bcube BYTES`; peer.py describes the protocol.
#include <gloo/allreduce.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kRanks = 2;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void PinToCore(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof(cores), &cores);
}

class Rank {
 public:
  Rank(int rank, gloo::AllreduceOptions::Algorithm algorithm, size_t bytes,
       gloo::rendezvous::Store& store)
      : rank_(rank), algorithm_(algorithm), values_(bytes / sizeof(float), 1.0f) {
    gloo::transport::tcp::attr attr;
    attr.hostname = "127.0.0.1";
    context_ = std::make_shared<gloo::rendezvous::Context>(rank, kRanks);
    auto device = gloo::transport::tcp::CreateDevice(attr);
    context_->connectFullMesh(store, device);
  }

  void Run(long steps) {
    PinToCore(rank_);
    for (long i = 0; i < steps; ++i) {
      gloo::AllreduceOptions options(context_);
      options.setOutput(values_.data(), values_.size());
      options.setAlgorithm(algorithm_);
      options.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
      gloo::allreduce(options);
    }
  }

 private:
  const int rank_;
  const gloo::AllreduceOptions::Algorithm algorithm_;
  std::vector<float> values_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

// The seconds that `steps` steps take.
double Time(std::vector<std::unique_ptr<Rank>>& ranks, long steps) {
  std::thread other([&] { ranks[1]->Run(steps); });
  const double began = Seconds();
  ranks[0]->Run(steps);
  other.join();
  return Seconds() - began;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: gloo_peer ring|bcube BYTES\n");
    return 2;
  }
  const auto algorithm = std::string(argv[1]) == "ring" ? gloo::AllreduceOptions::Algorithm::RING
                                                        : gloo::AllreduceOptions::Algorithm::BCUBE;
  gloo::rendezvous::HashStore store;
  std::vector<std::unique_ptr<Rank>> ranks(kRanks);
  std::vector<std::thread> makers;
  for (int r = 0; r < kRanks; ++r) {
    makers.emplace_back([&, r] {
      ranks[r] = std::make_unique<Rank>(r, algorithm, std::strtoul(argv[2], nullptr, 10), store);
    });
  }
  for (std::thread& maker : makers) maker.join();
  long steps = 1;
  double seconds = 0;
  while ((seconds = Time(ranks, steps)) < 0.1) steps *= 2;
  const double step_seconds = seconds / static_cast<double>(steps);
  std::printf("version %d.%d.%d\nready\n", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR,
              GLOO_VERSION_PATCH);
  std::fflush(stdout);
  double wanted = 0;
  while (std::scanf(" run %lf", &wanted) == 1) {
    steps = std::max(1L, static_cast<long>(wanted / step_seconds));
    seconds = Time(ranks, steps);
    std::printf("ran %ld %.9f\n", steps, seconds);
    std::fflush(stdout);
  }
}
