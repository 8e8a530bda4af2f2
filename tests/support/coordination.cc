// SPDX-License-Identifier: Apache-2.0
#include "tests/support/coordination.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "gtest/gtest.h"

namespace mirrorflow {

CoordinationClient::Options TestWorkerOptions(int port, int worker, int num_workers) {
  CoordinationClient::Options options{
      .coordinator = absl::StrCat("127.0.0.1:", port), .secret = kTestSecret, .job = "test"};
  options.member.set_worker(worker);
  options.member.set_num_workers(num_workers);
  coordination::Setting& build = *options.member.add_settings();
  build.set_name("build");
  build.set_value("1");
  options.member.set_host(absl::StrCat("host", worker));
  options.member.set_pid(1000 + worker);
  return options;
}

CoordinatedCluster::CoordinatedCluster(int num_workers) : clients_(num_workers) {
  auto server = CoordinationServer::Start(
      {.address = "127.0.0.1:0", .num_workers = num_workers, .secret = kTestSecret, .job = "test"});
  EXPECT_TRUE(server.ok()) << server.status();
  if (!server.ok()) return;
  server_ = *std::move(server);
  std::vector<std::thread> workers;
  for (int w = 0; w < num_workers; ++w) {
    workers.emplace_back([&, w] {
      auto client = CoordinationClient::Connect(TestWorkerOptions(server_->port(), w, num_workers),
                                                MonotonicTime::Now() + absl::Seconds(30));
      EXPECT_TRUE(client.ok()) << client.status();
      if (client.ok()) clients_[w] = *std::move(client);
    });
  }
  for (std::thread& worker : workers) worker.join();
}

}  // namespace mirrorflow
