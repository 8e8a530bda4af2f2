// SPDX-License-Identifier: Apache-2.0
//
// Tests connections between the ranks of workers while strangers also connect.
#include "distribute/cluster/connections/data_connections.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/host_port.h"
#include "distribute/cluster/connections/tls_stream.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/owned_socket.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/cluster/memory_worker_group.h"
#include "tests/support/captured_log.h"
#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/forwarding_worker_group.h"
#include "tests/support/is_error.h"
#include "tests/support/proxied_worker_group.h"
#include "tests/support/streams.h"

namespace mirrorflow {
namespace {

const Handshake::Cluster kCluster = {.secret = "0123456789abcdef", .job = "a", .incarnation = 5};

// Returns a topology in which worker w has sizes[w] ranks and forms one domain.
Topology WorkersOf(const std::vector<int>& sizes) {
  Topology topology;
  for (size_t w = 0; w < sizes.size(); ++w) {
    const int worker = static_cast<int>(w);
    topology.replicas.resize(topology.replicas.size() + sizes[w],
                             {.worker = worker, .domain = worker});
  }
  return topology;
}

// Worker 0 has ranks 0 and 1, worker 1 has ranks 2 and 3, and worker 2 has rank 4.
const Topology kTopology = WorkersOf({2, 2, 1});

// Returns two workers with 64 connections between them.
Topology TwoLargeWorkers() { return WorkersOf({64, 64}); }

// Blocks a worker once all workers have published their addresses.
class HeldWorkerGroup final : public ForwardingWorkerGroup {
 public:
  using ForwardingWorkerGroup::ForwardingWorkerGroup;

  // Blocks until all workers have published their addresses. Returns the address of `worker`.
  std::string AddressOf(int worker) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return !addresses_.empty(); });
    return addresses_[worker];
  }
  void Release() {
    std::lock_guard<std::mutex> lock(mu_);
    released_ = true;
    changed_.notify_all();
  }

  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view name, std::string value,
                                                     MonotonicTime deadline) override {
    MF_ASSIGN_OR_RETURN(auto values,
                        ForwardingWorkerGroup::AllGather(name, std::move(value), deadline));
    std::unique_lock<std::mutex> lock(mu_);
    addresses_ = values;
    changed_.notify_all();
    changed_.wait(lock, [&] { return released_; });
    return values;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<std::string> addresses_;  // guarded by mu_
  bool released_ = false;               // guarded by mu_
};

using Connections = absl::StatusOr<std::vector<std::map<int, std::unique_ptr<Stream>>>>;

class Workers {
 public:
  struct Options {
    Handshake::Cluster cluster = kCluster;
    TlsFiles tls = {};
    absl::Duration timeout = absl::Seconds(20);
    WorkerGroup* group = nullptr;  // replaces the worker's own group
  };
  Connections Connect(int worker, const Options& options) {
    return ConnectData(kTopology, kTopology.RanksOfWorker(worker),
                       options.group != nullptr ? *options.group : group(worker),
                       MonotonicTime::Now() + options.timeout,
                       {.address = "127.0.0.1",
                        .cluster = options.cluster,
                        .tls = options.tls,
                        .strangers = strangers_});
  }
  // Connects all workers concurrently.
  std::vector<Connections> ConnectAll(const std::function<Options(int worker)>& options_of) {
    std::vector<Connections> connections(3);
    std::vector<std::thread> threads;
    for (int w = 0; w < 3; ++w) {
      threads.emplace_back([&, w] { connections[w] = Connect(w, options_of(w)); });
    }
    for (std::thread& thread : threads) thread.join();
    return connections;
  }
  WorkerGroup& group(int worker) { return *groups_[worker]; }
  std::string log() const { return log_.text(); }

 private:
  std::vector<std::unique_ptr<MemoryWorkerGroup>> groups_ = CreateMemoryWorkerGroups(3);
  CapturedLog log_;
  const std::shared_ptr<RejectedPeerLog> strangers_ = std::make_shared<RejectedPeerLog>("data");
};

// Sends "RANK to PEER" over each connection, and expects the other end to receive it.
void ExpectPairs(std::vector<Connections>& of_worker) {
  const auto for_each = [&](const auto& call) {
    for (int worker = 0; worker < 3; ++worker) {
      ASSERT_TRUE(of_worker[worker].ok()) << of_worker[worker].status();
      const std::vector<int> ranks = kTopology.RanksOfWorker(worker);
      for (size_t i = 0; i < ranks.size(); ++i) {
        for (const auto& [peer, stream] : (*of_worker[worker])[i]) {
          call(absl::StrCat(ranks[i], " to ", peer), absl::StrCat(peer, " to ", ranks[i]), *stream);
        }
      }
    }
  };
  int connections = 0;
  for_each([&](const std::string& here, const std::string&, Stream& stream) {
    ++connections;
    EXPECT_EQ(SendAll(stream, here), absl::OkStatus());
  });
  // All pairs of ranks in different domains, except (0, 3) and (1, 2).
  EXPECT_EQ(connections, 2 * 6);
  for_each([&](const std::string&, const std::string& there, Stream& stream) {
    const auto got = ReceiveAll(stream, there.size());
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, there);
  });
}

// Connects to `address` from the address `from`. Returns no socket if nothing is listening there.
OwnedSocket ConnectTo(const std::string& address, const std::string& from = "127.0.0.1") {
  const HostPort target = ParseHostPort(address).value();
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(target.port));
  inet_pton(AF_INET, target.host.c_str(), &to.sin_addr);
  OwnedSocket made(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  inet_pton(AF_INET, from.c_str(), &own.sin_addr);
  EXPECT_EQ(bind(made.fd(), reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
  if (connect(made.fd(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) made.Close();
  return made;
}

// The parameter is whether each worker has a certificate.
class DataConnectionsTest : public testing::TestWithParam<bool> {
 protected:
  TlsFiles TlsOf(int worker) {
    if (!GetParam()) return {};
    return WriteCertificate("worker", TemporaryPath(absl::StrCat("worker", worker)),
                            {.authority = &root_});
  }

  // Connects a caller, with a certificate if the workers have them.
  std::unique_ptr<Stream> StreamTo(const std::string& address, const std::string& from) {
    OwnedSocket socket = ConnectTo(address, from);
    fcntl(socket.fd(), F_SETFL, O_NONBLOCK);
    if (!GetParam()) return PlainStream(std::move(socket));
    return TlsStream(std::move(socket), *CreateTlsContext(TlsOf(3)), TlsEnd::kConnecting);
  }

  const TlsFiles root_ = WriteCertificate("root", TemporaryPath("root"));
};
INSTANTIATE_TEST_SUITE_P(, DataConnectionsTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Tls" : "Plain");
});

TEST_P(DataConnectionsTest, RanksOfDifferentDomainsAreConnected) {
  Workers workers;
  auto connections = workers.ConnectAll([&](int w) { return Workers::Options{.tls = TlsOf(w)}; });
  ExpectPairs(connections);
  EXPECT_EQ(workers.log(), "");
}

using Pair = std::pair<int, int>;

// Connects the workers of a topology. Returns the pair of ranks at the ends of each connection.
std::vector<Pair> PairsOf(const Topology& topology) {
  const int num_workers = topology.num_workers();
  const auto groups = CreateMemoryWorkerGroups(num_workers);
  std::vector<Connections> connections(num_workers);
  std::vector<std::thread> threads;
  for (int w = 0; w < num_workers; ++w) {
    threads.emplace_back([&, w] {
      connections[w] = ConnectData(topology, topology.RanksOfWorker(w), *groups[w],
                                   MonotonicTime::Now() + absl::Seconds(20),
                                   {.address = "127.0.0.1", .cluster = kCluster});
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Pair> pairs;
  for (int w = 0; w < num_workers; ++w) {
    EXPECT_EQ(connections[w].status(), absl::OkStatus());
    if (!connections[w].ok()) continue;
    const std::vector<int> ranks = topology.RanksOfWorker(w);
    for (size_t i = 0; i < ranks.size(); ++i) {
      for (const auto& [peer, stream] : (*connections[w])[i]) {
        if (ranks[i] < peer) pairs.emplace_back(ranks[i], peer);
      }
    }
  }
  return pairs;
}

TEST(DataConnectionsOfDomainsTest, OnlyRanksWhoseShardsOverlapAreConnected) {
  std::vector<Pair> of_equal;
  for (int i = 0; i < 8; ++i) of_equal.emplace_back(i, 8 + i);
  EXPECT_THAT(PairsOf(WorkersOf({8, 8})), testing::ElementsAreArray(of_equal));
  EXPECT_THAT(PairsOf(WorkersOf({3, 1})), testing::ElementsAre(Pair(0, 3), Pair(1, 3), Pair(2, 3)));
  EXPECT_THAT(PairsOf(WorkersOf({2, 2, 3})),
              testing::ElementsAre(Pair(0, 2), Pair(0, 4), Pair(0, 5), Pair(1, 3), Pair(1, 5),
                                   Pair(1, 6), Pair(2, 4), Pair(2, 5), Pair(3, 5), Pair(3, 6)));
  EXPECT_EQ(PairsOf(WorkersOf({8, 5})).size(), 12u);
}

// In a domain of several workers, each worker connects its own ranks.
TEST(DataConnectionsOfDomainsTest, WorkersOfOneHostConnectTheirOwnRanks) {
  Topology topology = WorkersOf({1, 1, 1, 1});
  topology.replicas[2].domain = topology.replicas[0].domain;
  topology.replicas[3].domain = topology.replicas[1].domain;
  EXPECT_THAT(PairsOf(topology), testing::ElementsAre(Pair(0, 1), Pair(2, 3)));
}

// Bytes between the workers are readable if, and only if, there are no certificates.
TEST_P(DataConnectionsTest, CaptureShowsNoFloatsIfEncrypted) {
  Workers workers;
  ProxiedWorkerGroup proxied(workers.group(2));
  auto connections = workers.ConnectAll([&](int w) {
    return Workers::Options{.tls = TlsOf(w), .group = w == 2 ? &proxied : nullptr};
  });
  for (const Connections& one : connections) ASSERT_TRUE(one.ok()) << one.status();
  std::vector<float> floats(100000);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = std::sin(static_cast<float>(i) + 1);
  const absl::string_view bytes(reinterpret_cast<const char*>(floats.data()), 4 * floats.size());
  const auto exchange = [&](Stream& stream) {
    const auto got = ExchangeAll(stream, bytes, bytes.size());
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(*got == bytes);
  };
  std::thread other([&] { exchange(*(*connections[0])[0].at(4)); });
  exchange(*(*connections[2])[0].at(0));
  other.join();

  // A few hundred kilobytes contain a given pair of floats by chance once in 10^8 runs.
  const std::string captured = proxied.captured();
  EXPECT_GT(captured.size(), 2 * bytes.size());
  int readable = 0, pairs = 0;
  for (size_t i = 0; i + 2 <= floats.size(); i += 1000) {
    ++pairs;
    readable += absl::StrContains(captured, bytes.substr(4 * i, 8));
  }
  EXPECT_EQ(readable, GetParam() ? 0 : pairs);
}

// Strangers send garbage, nothing, or a hello without the secret. They are refused, and the workers
// connect. Of the many log lines about strangers, only one is written.
TEST_P(DataConnectionsTest, StrangersAreRefused) {
  Workers workers;
  std::vector<Connections> connections(3);
  std::vector<std::thread> threads;
  HeldWorkerGroup held(workers.group(2));
  for (const int w : {0, 1, 2}) {
    threads.emplace_back([&, w] {
      connections[w] = workers.Connect(w, {.tls = TlsOf(w), .group = w == 2 ? &held : nullptr});
    });
  }
  const std::string address = held.AddressOf(0);
  std::vector<OwnedSocket> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(ConnectTo(address));  // these send nothing
  const std::string four_gigabytes = "MFDC\x02" + std::string(300, '\xff');
  send(strangers.emplace_back(ConnectTo(address)).fd(), four_gigabytes.data(),
       four_gigabytes.size(), MSG_NOSIGNAL);
  const std::string garbage(300, 'x');
  send(strangers.emplace_back(ConnectTo(address)).fd(), garbage.data(), garbage.size(),
       MSG_NOSIGNAL);
  Handshake::Cluster other = kCluster;
  other.secret = "another secret..";
  auto handshake = Handshake::Connecting(other, {.connecting = 4, .accepting = 0});
  const std::string hello = handshake.TakeOutput();
  OwnedSocket& liar = strangers.emplace_back();
  const auto lie = [&] {
    liar = ConnectTo(address);
    send(liar.fd(), hello.data(), hello.size(), MSG_NOSIGNAL);
  };
  lie();
  if (!GetParam()) {
    std::string challenge(handshake.wanted(), '\0');
    // A worker that connects later can replace this stranger.
    const auto size = static_cast<ssize_t>(challenge.size());
    for (int tries = 0; recv(liar.fd(), challenge.data(), size, MSG_WAITALL) != size && tries < 100;
         ++tries) {
      lie();
    }
    EXPECT_EQ(handshake.Receive(challenge).code(), absl::StatusCode::kPermissionDenied);
    send(liar.fd(), garbage.data(), 32, MSG_NOSIGNAL);  // in place of the proof
  }
  char rest[64];
  ssize_t got = 0;
  do got = recv(liar.fd(), rest, sizeof rest, 0);  // over TLS, the reason arrives first
  while (got > 0);
  EXPECT_LE(got, 0);  // it is disconnected

  held.Release();
  for (std::thread& thread : threads) thread.join();
  ExpectPairs(connections);
  const std::string log = workers.log();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 0) << log;  // one line
  EXPECT_EQ(ConnectTo(address).fd(), -1);                         // the port is closed
}

// Connects as a rank, with the secret. Returns whether the other end accepts.
bool Claim(
    Stream& stream, const Handshake::Ranks& ranks, absl::FunctionRef<void()> after_hello = [] {}) {
  auto handshake = Handshake::Connecting(kCluster, ranks);
  for (int sent = 0; !handshake.done();) {
    if (!SendAll(stream, handshake.TakeOutput()).ok()) return false;
    if (++sent == 1) after_hello();
    const auto answer = ReceiveAll(stream, handshake.wanted());
    if (!answer.ok()) return false;
    handshake.Bind(stream.binding());
    if (!handshake.Receive(*answer).ok()) return false;
  }
  return true;
}

// A process with the secret, and a certificate if the workers have them, cannot pass as a rank that
// is already connected, a rank whose worker is at another address, or a rank that does not exist.
// Nor can it connect ranks that exchange no data.
TEST_P(DataConnectionsTest, UnexpectedRanksAreRefused) {
  constexpr Handshake::Ranks kValid = {.connecting = 4, .accepting = 0};
  const struct {
    Handshake::Ranks ranks;
    const char* from;
    bool after_another;  // whether another caller has already claimed to be the same rank
    const char* log;
  } cases[] = {
      {kValid, "127.0.0.1", true, "rank 4 is already connected, from 127.0.0.1"},
      {kValid, "127.0.0.2", false, "connects from another address; expected 127.0.0.1"},
      {{.connecting = 5, .accepting = 0}, "127.0.0.1", false, "rank 5 does not connect to rank 0"},
      {{.connecting = 2, .accepting = 4}, "127.0.0.1", false, "rank 2 does not connect to rank 4"},
      {{.connecting = 3, .accepting = 0}, "127.0.0.1", false, "rank 3 does not connect to rank 0"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.log);
    Workers workers;
    std::vector<Connections> connections(3);
    std::vector<std::thread> threads;
    HeldWorkerGroup held(workers.group(2));  // the worker of rank 4
    for (const int w : {0, 1, 2}) {
      threads.emplace_back([&, w] {
        connections[w] = workers.Connect(w, {.tls = TlsOf(w),
                                             .timeout = absl::Seconds(c.after_another ? 2 : 20),
                                             .group = w == 2 ? &held : nullptr});
      });
    }
    const auto first = StreamTo(held.AddressOf(0), c.from),
               second = StreamTo(held.AddressOf(0), c.from);
    if (c.after_another) {
      EXPECT_TRUE(Claim(*first, kValid));
    }
    EXPECT_FALSE(Claim(*second, c.ranks));
    const MonotonicTime deadline = MonotonicTime::Now() + absl::Seconds(20);
    while (workers.log().empty() && MonotonicTime::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_TRUE(absl::StrContains(workers.log(), c.log)) << workers.log();
    held.Release();
    for (std::thread& thread : threads) thread.join();
    if (!c.after_another) ExpectPairs(connections);
  }
}

// Callers from one host, however many they are, do not displace a caller from another host.
TEST_P(DataConnectionsTest, CrowdFromOneHostDisplacesNoOtherHost) {
  Workers workers;
  std::vector<std::thread> threads;
  HeldWorkerGroup held(workers.group(2));
  for (const int w : {0, 1, 2}) {
    threads.emplace_back([&, w] {
      workers
          .Connect(
              w, {.tls = TlsOf(w), .timeout = absl::Seconds(3), .group = w == 2 ? &held : nullptr})
          .IgnoreError();
    });
  }
  const auto first = StreamTo(held.AddressOf(0), "127.0.0.1");
  std::vector<OwnedSocket> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(ConnectTo(held.AddressOf(0), "127.0.0.2"));
  // At least 75 of 100 are dropped, because 16 strangers are served at a time.
  int dropped = 0;
  const MonotonicTime deadline = MonotonicTime::Now() + absl::Seconds(20);
  while (dropped < 75 && MonotonicTime::Now() < deadline) {
    dropped = static_cast<int>(std::count_if(crowd.begin(), crowd.end(), [](const auto& one) {
      char byte;
      return recv(one.fd(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
    }));
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_GE(dropped, 75);
  EXPECT_TRUE(Claim(*first, {.connecting = 4, .accepting = 0}));
  held.Release();
  for (std::thread& thread : threads) thread.join();
}

// 64 handshakes from one host take much longer than the pause before a dropped caller calls again.
TEST(SlowDataConnectionsTest, ManyRanksOfOneHostConnect) {
  const Topology topology = TwoLargeWorkers();
  const auto groups = CreateMemoryWorkerGroups(2);
  ProxiedWorkerGroup slow(*groups[1], absl::Milliseconds(200));
  std::vector<Connections> connections(2);
  std::vector<std::thread> threads;
  for (const int w : {0, 1}) {
    threads.emplace_back([&, w] {
      WorkerGroup& group = w == 0 ? static_cast<WorkerGroup&>(*groups[0]) : slow;
      connections[w] = ConnectData(topology, topology.RanksOfWorker(w), group,
                                   MonotonicTime::Now() + absl::Seconds(20),
                                   {.address = "127.0.0.1", .cluster = kCluster});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Connections& one : connections) EXPECT_TRUE(one.ok()) << one.status();
}

TEST(DescriptorsOfDataConnectionsTest, SoftLimitIsRaised) {
  const Topology topology = TwoLargeWorkers();
  const auto groups = CreateMemoryWorkerGroups(2);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 32;  // each worker needs at least 64
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<Connections> connections(2);
  std::vector<std::thread> threads;
  for (const int w : {0, 1}) {
    threads.emplace_back([&, w] {
      connections[w] = ConnectData(topology, topology.RanksOfWorker(w), *groups[w],
                                   MonotonicTime::Now() + absl::Seconds(20),
                                   {.address = "127.0.0.1", .cluster = kCluster});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const Connections& one : connections) EXPECT_TRUE(one.ok()) << one.status();
}

// Lowers the hard limit in a child process, because that cannot be undone.
TEST(DescriptorsOfDataConnectionsDeathTest, TooLowHardLimitIsReportedBeforeWorkersConnect) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto connect = [] {
    const rlimit low = {.rlim_cur = 64, .rlim_max = 64};
    if (setrlimit(RLIMIT_NOFILE, &low) != 0) std::exit(2);
    const Topology topology = TwoLargeWorkers();
    const auto groups = CreateMemoryWorkerGroups(2);
    // The other worker never calls.
    const Connections connections = ConnectData(topology, topology.RanksOfWorker(0), *groups[0],
                                                MonotonicTime::Now() + absl::Seconds(10),
                                                {.address = "127.0.0.1", .cluster = kCluster});
    std::fprintf(stderr, "%s\n", connections.status().ToString().c_str());
    std::exit(absl::IsResourceExhausted(connections.status()) ? 0 : 1);
  };
  EXPECT_EXIT(connect(), testing::ExitedWithCode(0), "connections for data: .*ulimit -n.*, got 64");
}

// If a worker learns the other workers' addresses late, calls from those workers wait.
TEST(EarlyCallersOfDataConnectionsTest, CallBeforeAddressesAreKnownDoesNotTimeOut) {
  Workers workers;
  HeldWorkerGroup held(workers.group(0));
  std::vector<std::thread> threads;
  for (const int w : {0, 1}) {
    threads.emplace_back([&, w] {
      workers.Connect(w, {.timeout = absl::Seconds(60), .group = w == 0 ? &held : nullptr})
          .IgnoreError();
    });
  }
  ASSERT_TRUE(
      workers.group(2)
          .AllGather("data addresses", "127.0.0.1:1", MonotonicTime::Now() + absl::Seconds(20))
          .ok());
  const auto early = PlainStream(ConnectTo(held.AddressOf(0)));
  fcntl(early->fd(), F_SETFL, O_NONBLOCK);
  EXPECT_TRUE(Claim(*early, {.connecting = 4, .accepting = 0}, [&] {
    MonotonicTime::AdvanceForTest(absl::Seconds(10));
    held.Release();
  }));
  EXPECT_EQ(workers.log(), "");
  MonotonicTime::AdvanceForTest(absl::Minutes(2));  // ends the workers' waits for connections
  for (std::thread& thread : threads) thread.join();
}

// Holds a stranger's calls open, and calls again when one is dropped.
class Flood {
 public:
  Flood(std::string address, std::string from)
      : address_(std::move(address)), from_(std::move(from)) {
    CallAgain();
    thread_ = std::thread([this] {
      while (!stop_) CallAgain();
    });
  }
  ~Flood() {
    stop_ = true;
    thread_.join();
  }

 private:
  void CallAgain() {
    std::vector<pollfd> polled;
    for (OwnedSocket& one : open_) {
      char byte;
      if (one.fd() < 0 || recv(one.fd(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0 ||
          errno != EAGAIN) {
        one = ConnectTo(address_, from_);
      }
      polled.push_back({.fd = one.fd(), .events = POLLIN, .revents = 0});
    }
    poll(polled.data(), polled.size(), 10);
  }

  const std::string address_, from_;
  std::vector<OwnedSocket> open_ = std::vector<OwnedSocket>(64);
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Many workers with three ranks each call worker 0 at the same time, more than it can serve at a
// time. None of their 234 connections is dropped, and no worker is logged as a stranger.
class ManyDataConnectionsTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, ManyDataConnectionsTest, testing::Values("", "127.0.0.2", "127.0.0.1"),
                         [](const auto& info) {
                           const std::string flood = info.param;
                           return flood.empty()          ? "Alone"
                                  : flood == "127.0.0.1" ? "FloodFromAddressOfWorkers"
                                                         : "FloodFromOtherAddress";
                         });

TEST_P(ManyDataConnectionsTest, AllConnectionsAreMade) {
  constexpr int kWorkers = 13, kRanks = 3;
  const std::string flood_from = GetParam();
  Topology topology;
  for (int rank = 0; rank < kWorkers * kRanks; ++rank) {
    topology.replicas.push_back({.worker = rank / kRanks, .domain = rank / kRanks});
  }
  const auto groups = CreateMemoryWorkerGroups(kWorkers);
  HeldWorkerGroup held(*groups[kWorkers - 1]);
  CapturedLog log;
  const auto strangers = std::make_shared<RejectedPeerLog>("data");
  std::vector<Connections> connections(kWorkers);
  std::vector<std::thread> threads;
  for (int w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      WorkerGroup& group = w == kWorkers - 1 ? static_cast<WorkerGroup&>(held) : *groups[w];
      connections[w] = ConnectData(topology, topology.RanksOfWorker(w), group,
                                   MonotonicTime::Now() + absl::Minutes(1),
                                   {.address = "127.0.0.1",
                                    .cluster = kCluster,
                                    .strangers = strangers,
                                    .max_handshakes = 4});
    });
  }
  {
    std::optional<Flood> flood;
    if (!flood_from.empty()) flood.emplace(held.AddressOf(0), flood_from);
    held.Release();
    for (std::thread& thread : threads) thread.join();
  }
  size_t count = 0;
  for (const Connections& one : connections) {
    ASSERT_TRUE(one.ok()) << one.status();
    for (const auto& of_rank : *one) count += of_rank.size();
  }
  EXPECT_EQ(count, kWorkers * (kWorkers - 1) * kRanks);
  if (flood_from != "127.0.0.1") {
    EXPECT_FALSE(absl::StrContains(log.text(), "127.0.0.1")) << log.text();
  }
  EXPECT_EQ(absl::StrContains(log.text(), "127.0.0.2"), flood_from == "127.0.0.2") << log.text();
}

// Worker 0 accepts connections and never answers.
TEST(LateDataConnectionsTest, CallsInProgressToOneWorkerAreLimited) {
  const OwnedSocket listener(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.fd(), 128), 0);
  ASSERT_EQ(getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const Topology topology = TwoLargeWorkers();
  const auto groups = CreateMemoryWorkerGroups(2);
  std::thread other([&] {
    EXPECT_TRUE(groups[0]
                    ->AllGather("data addresses",
                                absl::StrCat("127.0.0.1:", ntohs(address.sin_port)),
                                MonotonicTime::Now() + absl::Seconds(20))
                    .ok());
  });
  const Connections connections = ConnectData(topology, topology.RanksOfWorker(1), *groups[1],
                                              MonotonicTime::Now() + absl::Seconds(1),
                                              {.address = "127.0.0.1", .cluster = kCluster});
  other.join();
  EXPECT_THAT(connections.status(),
              IsError(absl::StatusCode::kDeadlineExceeded, "connections for data: ", "64 of 64"));
  int calls = 0;
  for (OwnedSocket one(accept(listener.fd(), nullptr, nullptr)); one.fd() >= 0;
       one = OwnedSocket(accept(listener.fd(), nullptr, nullptr))) {
    ++calls;
  }
  EXPECT_EQ(calls, 32);
}

TEST(LateDataConnectionsTest, MissingRanksAreCountedAndTenNamed) {
  Topology topology;
  for (int rank = 0; rank < 20; ++rank) {
    topology.replicas.push_back({.worker = rank / 4, .domain = rank / 4});
  }
  const auto groups = CreateMemoryWorkerGroups(5);
  std::vector<std::thread> others;
  // Worker 2 connects. The other workers publish addresses where nothing is listening, and do not
  // connect.
  for (const int w : {0, 1, 3, 4}) {
    others.emplace_back([&, w] {
      EXPECT_TRUE(
          groups[w]
              ->AllGather("data addresses", "127.0.0.1:1", MonotonicTime::Now() + absl::Seconds(20))
              .ok());
    });
  }
  const Connections connections = ConnectData(topology, topology.RanksOfWorker(2), *groups[2],
                                              MonotonicTime::Now() + absl::Seconds(1),
                                              {.address = "127.0.0.1", .cluster = kCluster});
  for (std::thread& other : others) other.join();
  EXPECT_THAT(connections.status(),
              IsError(absl::StatusCode::kDeadlineExceeded, "connections for data: ", "16 of 16",
                      ": 0, 1, 2, 3, 4, 5, 6, 7, 12, 13 and 6 more", "127.0.0.1:1"));
  EXPECT_EQ(FailureOf(connections.status())->rank, 0);
}

TEST_P(DataConnectionsTest, WorkerWithAnotherSecretIsNamed) {
  Workers workers;
  Handshake::Cluster other = kCluster;
  other.secret = "another secret..";
  const auto connections = workers.ConnectAll([&](int w) {
    return Workers::Options{
        .cluster = w == 1 ? other : kCluster, .tls = TlsOf(w), .timeout = absl::Seconds(1)};
  });
  // Worker 0 refuses worker 1. The other workers learn that worker 1 did not connect.
  EXPECT_THAT(connections[1].status(), IsError(absl::StatusCode::kPermissionDenied, "secret"));
  for (const int w : {0, 2}) {
    ASSERT_THAT(connections[w].status(),
                testing::AnyOf(IsError(absl::StatusCode::kDeadlineExceeded, "did not connect"),
                               IsError(absl::StatusCode::kPermissionDenied, "secret")));
    EXPECT_EQ(FailureOf(connections[w].status())->worker, 1) << connections[w].status();
  }
}

TEST(DataConnectionsTlsTest, WorkerWithoutValidCertificateIsNamed) {
  const TlsFiles root = WriteCertificate("root", TemporaryPath("root"));
  const TlsFiles good = WriteCertificate("good", TemporaryPath("good"), {.authority = &root});
  TlsFiles of_other_root = WriteCertificate("other", TemporaryPath("other"));
  of_other_root.authorities = root.certificate;
  const TlsFiles expired =
      WriteCertificate("expired", TemporaryPath("expired"), {.expired = true, .authority = &root});
  for (const TlsFiles& bad : {of_other_root, expired, TlsFiles{}}) {
    SCOPED_TRACE(bad.certificate);
    Workers workers;
    const auto connections = workers.ConnectAll([&](int w) {
      return Workers::Options{.tls = w == 1 ? bad : good, .timeout = absl::Seconds(1)};
    });
    std::string told = workers.log();
    for (const int w : {0, 1, 2}) {
      const auto failure = FailureOf(connections[w].status());
      ASSERT_TRUE(failure.has_value()) << connections[w].status();
      EXPECT_EQ(failure->worker, w == 1 ? 0 : 1) << connections[w].status();
      absl::StrAppend(&told, connections[w].status().message(), "\n");
    }
    // Either end can be the first to detect that a connection cannot be made. The log limits its
    // lines, so it can instead name worker 2, which gave up for the same reason. A worker without
    // TLS can also have refused the others.
    const bool is_refused =
        absl::StrContains(told, "no TLS") || (bad.empty() && absl::StrContains(told, "protocol"));
    EXPECT_TRUE(is_refused) << told;
  }
}

}  // namespace
}  // namespace mirrorflow
