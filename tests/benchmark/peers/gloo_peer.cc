// SPDX-License-Identifier: Apache-2.0
//
// Gloo: an all-reduce of floats between two processes over TCP, each on its own host and core.
// Usage: `gloo_peer ring|bcube BYTES DIRECTORY ADDRESSES WORKER`. The processes find each other
// through files in DIRECTORY, which must be empty. peer.py describes the other arguments and the
// protocol.
#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kWorkers = 2;
constexpr uint32_t kStepsTag = 1;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Call this before Gloo starts its thread, so the thread uses the same core.
void PinToCore(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof(cores), &cores);
}

class Worker {
 public:
  Worker(int worker, gloo::AllreduceOptions::Algorithm algorithm, size_t bytes,
         const std::string& directory, const std::string& address)
      : algorithm_(algorithm),
        values_(bytes / sizeof(float), 1.0f),
        context_(std::make_shared<gloo::rendezvous::Context>(worker, kWorkers)) {
    gloo::transport::tcp::attr attr;
    attr.hostname = address;
    auto device = gloo::transport::tcp::CreateDevice(attr);
    gloo::rendezvous::FileStore store(directory);
    context_->setTimeout(std::chrono::minutes(5));  // other programs run in between
    context_->connectFullMesh(store, device);
  }

  // Returns the number that worker 0 passes.
  int64_t Agree(int64_t steps) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(&steps, 1);
    options.setRoot(0);
    options.setTag(kStepsTag);
    gloo::broadcast(options);
    return steps;
  }

  void Run(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) {
      gloo::AllreduceOptions options(context_);
      options.setOutput(values_.data(), values_.size());
      options.setAlgorithm(algorithm_);
      options.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
      gloo::allreduce(options);
    }
  }

  // Runs `steps` steps and returns how many seconds they took.
  double Time(int64_t steps) {
    Agree(steps);
    const double began = Seconds();
    Run(steps);
    return Seconds() - began;
  }

 private:
  const gloo::AllreduceOptions::Algorithm algorithm_;
  std::vector<float> values_;
  const std::shared_ptr<gloo::rendezvous::Context> context_;
};

// Repeats what worker 0 does until the input ends.
void Follow(Worker& worker) {
  std::thread([] {
    while (std::getchar() != EOF) {
    }
    _exit(0);
  }).detach();
  for (;;) worker.Run(worker.Agree(0));
}

void Talk(Worker& worker) {
  int64_t steps = 1;
  double seconds = 0;
  while ((seconds = worker.Time(steps)) < 0.1) steps *= 2;
  const double step_seconds = seconds / static_cast<double>(steps);
  std::printf("version %d.%d.%d\nready\n", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR,
              GLOO_VERSION_PATCH);
  std::fflush(stdout);
  double wanted = 0;
  while (std::scanf(" run %lf", &wanted) == 1) {
    steps = std::max<int64_t>(1, static_cast<int64_t>(wanted / step_seconds));
    seconds = worker.Time(steps);
    std::printf("ran %lld %.9f\n", static_cast<long long>(steps), seconds);
    std::fflush(stdout);
  }
}

// Returns HOST from a worker's HOST:PORT.
std::string HostOf(std::string addresses, int worker) {
  while (worker-- > 0) addresses.erase(0, addresses.find(',') + 1);
  return addresses.substr(0, addresses.find(':'));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: gloo_peer ring|bcube BYTES DIRECTORY ADDRESSES WORKER\n");
    return 2;
  }
  const int number = std::atoi(argv[5]);
  PinToCore(number);
  Worker worker(number,
                std::string(argv[1]) == "ring" ? gloo::AllreduceOptions::Algorithm::RING
                                               : gloo::AllreduceOptions::Algorithm::BCUBE,
                std::strtoul(argv[2], nullptr, 10), argv[3], HostOf(argv[4], number));
  number == 0 ? Talk(worker) : Follow(worker);
}
