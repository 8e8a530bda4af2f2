// SPDX-License-Identifier: Apache-2.0
//
// Tests where MetricsServer listens and what a training run in this process reports.
// tests/tools/metrics_test.py queries the workers of a program.
#include "train/trainer/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "distribute/strategy/strategy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/optimizers/optimizers.h"
#include "train/trainer/trainer.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Returns the server's answer, or "" if nothing is listening on `port`.
std::string Get(int port, const std::string& path) {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string all;
  if (connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\n\r\n";
    send(client, request.data(), request.size(), MSG_NOSIGNAL);
    char chunk[4096];
    for (ssize_t n; (n = recv(client, chunk, sizeof(chunk), 0)) > 0;) all.append(chunk, n);
  }
  close(client);
  return all;
}

// Returns an even port p. Either p or p + 1 was free a moment ago, so probably both are free.
int TwoFreePorts() {
  const auto server = MetricsServer::Start({.address = "0"});
  EXPECT_TRUE(server.ok()) << server.status();
  return (*server)->port() / 2 * 2;
}

TEST(MetricsServerTest, PortAloneListensOnLoopback) {
  for (const char* const address : {"0", ":0", "127.0.0.1:0", "localhost:0"}) {
    const auto server = MetricsServer::Start({.address = address});
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_THAT(Get((*server)->port(), "/healthz"), StartsWith("HTTP/1.0 200 ")) << address;
  }
  const auto server = MetricsServer::Start({.address = "0"});
  ASSERT_TRUE(server.ok()) << server.status();
  // The server does not listen on any other loopback address.
  const auto other =
      MetricsServer::Start({.address = "127.0.0.2:" + std::to_string((*server)->port())});
  EXPECT_TRUE(other.ok()) << other.status();
}

TEST(MetricsServerTest, WorkersOnOneHostHaveDifferentPorts) {
  const std::string port = std::to_string(TwoFreePorts());
  const auto second = MetricsServer::Start(
      {.address = port, .cluster = {.num_workers = 2, .task_index = 5, .local_rank = 1}});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->port(), std::stoi(port) + 1);
  EXPECT_THAT(Get((*second)->port(), "/metrics"), HasSubstr("mirrorflow_workers{worker=\"5\"} 2"));
}

TEST(MetricsServerTest, BadAddressIsAnError) {
  for (const char* const address : {"", ":", "host", "localhost:", "localhost:x", "65536", "-1",
                                    "1:2:3", "::1", "[::1]", "http://localhost:9090", "9090/"}) {
    EXPECT_THAT(MetricsServer::Start({.address = address}).status(),
                IsError(absl::StatusCode::kInvalidArgument, address, "got"))
        << address;
  }
  EXPECT_THAT(MetricsServer::Start({.address = "65535", .cluster = {.local_rank = 1}}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "65535", "65536"));
}

TEST(MetricsServerTest, ReportsProgressOfFit) {
  const auto server = MetricsServer::Start({.address = "0", .job = "line"});
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  (*server)->SetWaiting("data");
  EXPECT_THAT(Get(port, "/readyz"), AllOf(StartsWith("HTTP/1.0 503 "), HasSubstr("data")));

  const auto strategy = MirroredStrategy::Create({.num_cpu_replicas = 2});
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  Graph graph;
  const Scope root(&graph);
  const auto scope = (*strategy)->scope();
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 1});
  const Output y = ops::Placeholder(root, DT_FLOAT, {-1, 1});
  const Output loss = losses::MeanSquaredError(root, layers::Dense(root, x, 1), y);
  const Operation train = SGD({.learning_rate = 0.1}).Minimize(root, loss);
  const auto trainer =
      Trainer::Create(**strategy, graph, {.inputs = {x, y}, .loss = loss, .train = train});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const Dataset dataset = Dataset::FromTensors(
      {Tensor::Of<float>({4, 1}, {1, 2, 3, 4}), Tensor::Of<float>({4, 1}, {2, 4, 6, 8})});
  const auto checkpoints = CheckpointManager::Create(
      (*trainer)->session(), {.directory = TemporaryPath("metrics_server_checkpoints")});
  ASSERT_TRUE(checkpoints.ok()) << checkpoints.status();
  std::string first;  // the metrics that are served during the first step
  const auto fitted = (*trainer)->Fit(dataset.Batch(2), {.epochs = 4,
                                                         .callbacks = {server->get()},
                                                         .on_step =
                                                             [&](int64_t step, float) {
                                                               if (step == 1) {
                                                                 first = Get(port, "/metrics");
                                                               }
                                                               return absl::OkStatus();
                                                             },
                                                         .checkpoints = checkpoints->get(),
                                                         .checkpoint_every = 2});
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  const std::string labels = "{job=\"line\",worker=\"0\"} ";
  EXPECT_THAT(first, AllOf(HasSubstr("mirrorflow_step" + labels + "1\n"),
                           HasSubstr("mirrorflow_examples_total" + labels + "2\n"),
                           HasSubstr("mirrorflow_replicas" + labels + "2\n"),
                           Not(HasSubstr("mirrorflow_checkpoint_age_seconds"))));
  EXPECT_THAT(Get(port, "/readyz"), StartsWith("HTTP/1.0 200 "));
  const std::string last = Get(port, "/metrics");
  EXPECT_THAT(last, AllOf(HasSubstr("mirrorflow_step" + labels + "8\n"),
                          HasSubstr("mirrorflow_examples_total" + labels + "16\n"),
                          HasSubstr("mirrorflow_step_duration_seconds_count" + labels + "8\n"),
                          HasSubstr("mirrorflow_checkpoint_age_seconds" + labels)));
  const auto value = [&](const std::string& name) {
    const size_t at = last.find("\n" + name + labels);
    return at == last.npos ? -1 : std::stod(last.substr(at + 1 + name.size() + labels.size()));
  };
  EXPECT_EQ(value("mirrorflow_variable_bytes"), (*trainer)->session().variable_bytes());
  EXPECT_GT(value("mirrorflow_variable_bytes"), 0);
  EXPECT_GT(value("mirrorflow_value_bytes"), 0);
  EXPECT_GT(value("mirrorflow_exposed_communication_seconds_total"), 0);
  EXPECT_LT(value("mirrorflow_exposed_communication_seconds_total"),
            value("mirrorflow_step_duration_seconds_sum"));
  EXPECT_GT(value("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(value("process_cpu_seconds_total"), 0);

  const auto failed = (*trainer)->Fit(dataset.Batch(2),
                                      {.callbacks = {server->get()}, .on_step = [](int64_t, float) {
                                         return absl::DataLossError("on purpose");
                                       }});
  EXPECT_THAT(failed.status(), IsError(absl::StatusCode::kDataLoss, "on purpose"));
  EXPECT_THAT(Get(port, "/healthz"), AllOf(StartsWith("HTTP/1.0 503 "), HasSubstr("on purpose")));
  ASSERT_TRUE((*trainer)->Fit(dataset.Batch(2), {.callbacks = {server->get()}}).ok());
  EXPECT_THAT(Get(port, "/healthz"), StartsWith("HTTP/1.0 200 "));
  EXPECT_THAT(Get(port, "/readyz"), StartsWith("HTTP/1.0 200 "));
}

}  // namespace
}  // namespace mirrorflow
