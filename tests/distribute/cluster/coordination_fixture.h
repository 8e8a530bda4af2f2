// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_DISTRIBUTE_CLUSTER_COORDINATION_FIXTURE_H_
#define MIRRORFLOW_TESTS_DISTRIBUTE_CLUSTER_COORDINATION_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "gtest/gtest.h"
#include "tests/support/captured_log.h"
#include "tests/support/coordination.h"

namespace mirrorflow {

using Options = CoordinationClient::Options;
using Client = absl::StatusOr<std::unique_ptr<CoordinationClient>>;

inline MonotonicTime In(double seconds) { return MonotonicTime::Now() + absl::Seconds(seconds); }

// Runs a coordination service, and workers as threads of this process.
class CoordinationTest : public testing::Test {
 protected:
  void Start(int num_workers, const std::string& secret = kTestSecret,
             const std::string& address = "127.0.0.1:0", const TlsFiles& tls = {}) {
    num_workers_ = num_workers;
    auto server = CoordinationServer::Start({.address = address,
                                             .num_workers = num_workers,
                                             .secret = secret,
                                             .job = "test",
                                             .tls = tls});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // Connects workers 0, 1, … concurrently. `change` can modify the options of each.
  std::vector<Client> ConnectAll(int count, double seconds = 30,
                                 const std::function<void(Options*)>& change = nullptr) {
    std::vector<Client> clients(count);
    std::vector<std::thread> threads;
    for (int w = 0; w < count; ++w) {
      threads.emplace_back([&, w] {
        Options options = TestWorkerOptions(server_->port(), w, num_workers_);
        if (change) change(&options);
        clients[w] = CoordinationClient::Connect(options, In(seconds));
      });
    }
    for (std::thread& thread : threads) thread.join();
    return clients;
  }
  // Waits until a line that contains `text` is logged; returns false if none is. Meanwhile,
  // advances the clock repeatedly by `step`, because some lines are logged only every few seconds.
  bool AwaitLog(absl::string_view text, absl::Duration step = absl::ZeroDuration()) {
    for (int i = 0; i < 3000; ++i) {
      for (const std::string& line : log()) {
        if (absl::StrContains(line, text)) return true;
      }
      if (i % 10 == 9) MonotonicTime::AdvanceForTest(step);
      absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
  }
  std::vector<std::string> log() const { return log_.lines(); }

  int num_workers_ = 0;
  CapturedLog log_;
  std::unique_ptr<CoordinationServer> server_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_DISTRIBUTE_CLUSTER_COORDINATION_FIXTURE_H_
