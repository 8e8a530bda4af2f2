// SPDX-License-Identifier: Apache-2.0
//
// Serves a model: a pool of threads answers requests with batches of different sizes, while another
// thread replaces the weights. Each answer must equal, bit for bit, what a single thread computes
// with one of the two weight versions.
//
//   bazel run --config=opt //examples:serve -- [THREADS [REQUESTS]]
//
// By default, 2 threads answer 10,000 requests. The program prints the requests per second, and the
// median (p50) and the 99th percentile (p99) of their latencies.
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mirrorflow.h"

namespace mf = mirrorflow;

namespace {

using Clock = std::chrono::steady_clock;
using Weights = std::map<std::string, mf::Tensor>;

constexpr int64_t kFeatures = 784;
constexpr int64_t kMaxRows = 32;  // per request

double Milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Returns the class probabilities for `x`.
mf::Output BuildModel(const mf::Scope& root, const mf::Output& x) {
  auto hidden = mf::layers::Dense(root, x, 256, mf::ops::Relu);
  hidden = mf::layers::Dense(root, hidden, 256, mf::ops::Relu);
  auto logits = mf::layers::Dense(root, mf::layers::Dropout(root, hidden, 0.2), 10);
  return mf::ops::Softmax(root, mf::ForInference(root, logits));  // without dropout
}

// Returns random initial weights. A real server would load trained weights from a file
// (ReadSafetensors).
absl::StatusOr<Weights> MakeWeights(const mf::Graph& graph, uint64_t seed) {
  MF_ASSIGN_OR_RETURN(auto strategy, mf::OneDeviceStrategy::Create({.seed = seed}));
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  Weights weights;
  for (const std::string& name : session->VariableNames()) {
    MF_ASSIGN_OR_RETURN(weights[name], session->ReadVariable(name));
  }
  return weights;
}

// Returns one request of each size.
absl::StatusOr<std::vector<mf::Tensor>> MakeRequests() {
  std::mt19937 random(1);
  std::vector<mf::Tensor> requests;
  for (int64_t i = 0; i < kMaxRows; ++i) {
    const int64_t rows = 1 + i * 11 % kMaxRows;  // in shuffled order
    MF_ASSIGN_OR_RETURN(mf::Tensor request, mf::Tensor::Allocate(mf::DT_FLOAT, {rows, kFeatures}));
    for (float& x : request.flat<float>()) x = static_cast<float>(random()) / 4294967296.0F;
    requests.push_back(std::move(request));
  }
  return requests;
}

// Pads the batch to the next power of two, so the step is compiled for only a few sizes.
absl::StatusOr<mf::Tensor> Predict(mf::Step step, const mf::Tensor& rows) {
  const int64_t n = rows.shape().dim(0);
  const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
  MF_ASSIGN_OR_RETURN(mf::Tensor feed, mf::Tensor::Allocate(mf::DT_FLOAT, {padded, kFeatures}));
  std::memcpy(feed.raw(), rows.raw(), rows.bytes());
  MF_ASSIGN_OR_RETURN(mf::StepOutputs outputs, step.Run({feed}));
  return outputs[0].Rows(0, n);
}

struct Traffic {
  std::vector<mf::Tensor> requests = {};
  std::vector<std::vector<mf::Tensor>> answers = {};  // by weight version and request
  int64_t count = 0;                                  // the requests are sent round-robin
  std::atomic<int64_t> next = 0;
};

// Answers requests until none are left. Appends the latencies to `ms`.
absl::Status AnswerRequests(const mf::Step& step, Traffic& traffic, std::vector<double>* ms) {
  for (int64_t i; (i = traffic.next++) < traffic.count;) {
    const size_t r = i % traffic.requests.size();
    const Clock::time_point start = Clock::now();
    MF_ASSIGN_OR_RETURN(const mf::Tensor answer, Predict(step, traffic.requests[r]));
    ms->push_back(Milliseconds(Clock::now() - start));
    if (std::none_of(traffic.answers.begin(), traffic.answers.end(), [&](const auto& version) {
          return mf::Tensor::Identical(answer, version[r]);
        })) {
      return absl::InternalError("the answer matches neither version of the weights");
    }
  }
  return absl::OkStatus();
}

// Replaces all weights atomically every few milliseconds.
absl::Status KeepUpdating(mf::Session& session, const std::vector<Weights>& versions,
                          const std::atomic<bool>& done, int* count) {
  do {
    MF_RETURN_IF_ERROR(session.AssignVariables(versions[(*count)++ % versions.size()]));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (!done);
  return absl::OkStatus();
}

absl::Status Serve(int num_threads, int64_t num_requests) {
  mf::Graph graph;
  mf::Scope root(&graph);
  auto x = mf::ops::Placeholder(root.WithName("x"), mf::DT_FLOAT, {-1, kFeatures});
  auto probabilities = BuildModel(root, x);
  MF_ASSIGN_OR_RETURN(auto strategy, mf::OneDeviceStrategy::Create());
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(const mf::Step step, session->Prepare({x}, {probabilities}));

  // A single thread computes the expected answers. This also warms up the cache: it compiles the
  // step for every size.
  Traffic traffic{.count = num_requests};
  MF_ASSIGN_OR_RETURN(traffic.requests, MakeRequests());
  std::vector<Weights> versions(2);
  for (size_t v = 0; v < versions.size(); ++v) {
    MF_ASSIGN_OR_RETURN(versions[v], MakeWeights(graph, /*seed=*/v));
    MF_RETURN_IF_ERROR(session->AssignVariables(versions[v]));
    std::vector<mf::Tensor>& answers = traffic.answers.emplace_back();
    for (const mf::Tensor& request : traffic.requests) {
      MF_ASSIGN_OR_RETURN(answers.emplace_back(), Predict(step, request));
    }
  }

  std::atomic<bool> done = false;
  int updates = 0;
  absl::Status updated;
  std::thread updater([&] { updated = KeepUpdating(*session, versions, done, &updates); });
  std::vector<absl::Status> answered(num_threads);
  std::vector<std::vector<double>> times(num_threads);
  std::vector<std::thread> pool;
  const Clock::time_point start = Clock::now();
  for (int t = 0; t < num_threads; ++t) {
    pool.emplace_back([&, t] { answered[t] = AnswerRequests(step, traffic, &times[t]); });
  }
  for (std::thread& thread : pool) thread.join();
  const double total_ms = Milliseconds(Clock::now() - start);
  done = true;
  updater.join();

  MF_RETURN_IF_ERROR(updated);
  for (const absl::Status& status : answered) MF_RETURN_IF_ERROR(status);
  std::vector<double> ms;
  for (const auto& of_thread : times) ms.insert(ms.end(), of_thread.begin(), of_thread.end());
  std::sort(ms.begin(), ms.end());
  std::printf("threads=%d requests=%zu updates=%d requests_per_s=%.0f p50_ms=%.3f p99_ms=%.3f\n",
              num_threads, ms.size(), updates, 1000 * static_cast<double>(ms.size()) / total_ms,
              ms[ms.size() / 2], ms[ms.size() * 99 / 100]);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int64_t requests = argc > 2 ? std::atoll(argv[2]) : 10'000;
  if (threads < 1 || requests < 1) {
    std::fprintf(stderr, "usage: %s [THREADS [REQUESTS]]\n", argv[0]);
    return 2;
  }
  const absl::Status status = Serve(threads, requests);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
