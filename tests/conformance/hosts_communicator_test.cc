// SPDX-License-Identifier: Apache-2.0
//
// Tests communicators of hosts with equal and different rank counts, which ConnectWorkers connects
// over TCP and UCX. The workers are threads of the test. Workers on one host share memory as
// processes do: each worker maps it at a different address.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connect_workers.h"
#include "distribute/collective/check_collective.h"
#include "distribute/collective/shared_memory/host_memory.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/connect_domains.h"
#include "tests/fakes/cluster/memory_worker_group.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(30);

enum class Network { kTcp, kUcx };

// Runs each collective with an output in memory that other workers on the host can write, like the
// memory that sessions allocate, and copies the result to the caller's memory.
class InHostMemory final : public Communicator {
 public:
  InHostMemory(std::unique_ptr<Communicator> inner, std::shared_ptr<HostMemory> memory)
      : inner_(std::move(inner)), memory_(std::move(memory)) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  absl::Status Start(const Collective& collective, Lane* lane) override {
    InFlight started{.collective = collective};
    const auto size = static_cast<int64_t>(DataTypeSize(collective.dtype));
    const int64_t bytes = OutputElements(collective, rank()) * size;
    if (collective.out != nullptr) {
      MF_ASSIGN_OR_RETURN(started.out, memory_->Allocate(std::max<int64_t>(bytes, 1)));
      started.collective.out = started.out.get();
      if (collective.in == collective.out) {
        std::memcpy(started.out.get(), collective.in, bytes);
        started.collective.in = started.out.get();
      }
    }
    in_flight_.push_back(std::move(started));
    return inner_->Start(in_flight_.back().collective, lane);
  }
  absl::Status Finish(const Collective& collective, Lane* lane) override {
    const InFlight finished = std::move(in_flight_.front());
    in_flight_.pop_front();
    MF_RETURN_IF_ERROR(inner_->Finish(finished.collective, lane));
    const auto size = static_cast<int64_t>(DataTypeSize(collective.dtype));
    if (finished.out != nullptr) {
      std::memcpy(collective.out, finished.out.get(), OutputElements(collective, rank()) * size);
    }
    return absl::OkStatus();
  }
  absl::Status status() const override { return inner_->status(); }
  void Abort(absl::Status why) override { inner_->Abort(std::move(why)); }

 private:
  struct InFlight {
    Collective collective;
    std::shared_ptr<std::byte> out;
  };
  const std::unique_ptr<Communicator> inner_;
  const std::shared_ptr<HostMemory> memory_;
  std::deque<InFlight> in_flight_;
};

struct Hosts {
  std::vector<std::unique_ptr<Communicator>> ranks;
  std::vector<std::shared_ptr<HostMemory>> memory;  // by worker; null if the worker shares none
};

// Connects a world where each domain is a host.
absl::StatusOr<Hosts> ConnectHosts(const Topology& topology, Network network,
                                   absl::Duration timeout) {
  const int num_workers = topology.num_workers();
  const auto groups = CreateMemoryWorkerGroups(num_workers);
  Hosts hosts;
  hosts.ranks.resize(topology.world_size());
  hosts.memory.resize(num_workers);
  std::vector<absl::Status> results(num_workers);
  const auto connect = [&](int worker) -> absl::Status {
    const MonotonicTime deadline = MonotonicTime::Now() + kConnectTimeout;
    const std::vector<int> local_ranks = topology.RanksOfWorker(worker);
    std::vector<int> neighbours;  // all workers of the host
    for (const int rank : topology.RanksOfDomain(topology.replicas[local_ranks[0]].domain)) {
      const int other = topology.replicas[rank].worker;
      if (neighbours.empty() || neighbours.back() != other) neighbours.push_back(other);
    }
    if (neighbours.size() > 1) {
      MF_ASSIGN_OR_RETURN(hosts.memory[worker],
                          HostMemory::Connect(neighbours, *groups[worker], deadline));
    }
    const ConnectOptions options = {
        .timeout = timeout,
        .over_ucx = network == Network::kUcx,
        .device = "lo",
        .data = {.address = "127.0.0.1", .cluster = {.secret = "0123456789abcdef", .job = "test"}},
        .host_memory = hosts.memory[worker]};
    MF_ASSIGN_OR_RETURN(auto connected, ConnectWorkers(topology, local_ranks, groups[worker].get(),
                                                       /*incarnation=*/1, deadline, options));
    for (size_t i = 0; i < local_ranks.size(); ++i) {
      hosts.ranks[local_ranks[i]] = std::move(connected[i]);
    }
    return absl::OkStatus();
  };
  std::vector<std::thread> threads;
  for (int worker = 0; worker < num_workers; ++worker) {
    threads.emplace_back([&, worker] { results[worker] = connect(worker); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : results) MF_RETURN_IF_ERROR(status);
  return hosts;
}

// Returns the topology with one worker per domain.
Topology WorkerEach(Topology topology) {
  for (Topology::ReplicaLocation& replica : topology.replicas) replica.worker = replica.domain;
  return topology;
}

std::vector<ConformanceCase> AllCases() {
  const std::pair<const char*, Topology> topologies[] = {
      {"TwoAndTwo", WorkerEach(DomainsOfRanks("0011"))},
      {"ThreeAndOne", WorkerEach(DomainsOfRanks("0001"))},
      {"OneAndFour", WorkerEach(DomainsOfRanks("01111"))},
      {"TwoTwoAndThree", WorkerEach(DomainsOfRanks("0011222"))},
      {"TwoAndThreeWorkers", DomainsOfRanks("00111")},
      {"WorkersOfHostsInTurns", DomainsOfRanks("01012")},
  };
  std::vector<ConformanceCase> cases;
  for (const Network network : {Network::kTcp, Network::kUcx}) {
    for (const auto& hosts : topologies) {
      const Topology& topology = hosts.second;
      const auto connect = [=](int, absl::Duration timeout) -> absl::StatusOr<Communicators> {
        MF_ASSIGN_OR_RETURN(Hosts connected, ConnectHosts(topology, network, timeout));
        for (auto& rank : connected.ranks) {
          const auto memory = connected.memory[topology.replicas[rank->rank()].worker];
          if (memory != nullptr) rank = std::make_unique<InHostMemory>(std::move(rank), memory);
        }
        return std::move(connected.ranks);
      };
      cases.push_back(
          {.backend = absl::StrCat(network == Network::kTcp ? "Tcp" : "Ucx", hosts.first),
           .connect = connect,
           .world_size = topology.world_size(),
           .sums_in_rank_order = false});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(, CommunicatorConformance, testing::ValuesIn(AllCases()),
                         ConformanceCaseName);
// These suites do not apply, because only a session forwards a failure on one host to the others.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorFailures);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorAborts);

// Adds aᵀ · b to a variable, where b has one column.
class OuterProduct final : public ProductUpdateRule {
 public:
  explicit OuterProduct(float* variable) : variable_(variable) {}
  void Apply(absl::Span<const ProductRows> parts, int64_t first, int64_t last) override {
    for (const ProductRows& part : parts) {
      for (int64_t k = 0; k < part.count; ++k) {
        const float* const a = static_cast<const float*>(part.a) + k * kRows;
        for (int64_t i = first; i < last; ++i) {
          variable_[i] += a[i] * static_cast<const float*>(part.b)[k];
        }
      }
    }
  }
  static constexpr int64_t kRows = 40;

 private:
  float* const variable_;
};

TEST(HostsProductUpdateTest, WorkersOnHostShareRowsFromOtherHosts) {
  const Topology topology = DomainsOfRanks("0111010");
  auto hosts = ConnectHosts(topology, Network::kTcp, absl::Seconds(50));
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  const int world_size = topology.world_size();
  constexpr int64_t kRows = OuterProduct::kRows;
  float want = 0;
  std::vector<int64_t> counts;
  for (int rank = 0; rank < world_size; ++rank) {
    counts.push_back(rank % 3);
    want += static_cast<float>(counts[rank] * (1 + rank));
  }
  std::vector<std::shared_ptr<std::byte>> memory;
  for (int rank = 0; rank < world_size; ++rank) {
    auto allocated = hosts->memory[rank]->Allocate(kRows * sizeof(float));
    ASSERT_TRUE(allocated.ok()) << allocated.status();
    memory.push_back(*std::move(allocated));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      float* const variable = reinterpret_cast<float*>(memory[rank].get());
      std::byte* const variables[] = {memory[rank].get()};
      OuterProduct rule(variable);
      for (int round = 1; round <= 20; ++round) {
        const std::vector<float> left(counts[rank] * kRows, static_cast<float>(round));
        const std::vector<float> right(counts[rank], static_cast<float>(1 + rank));
        std::fill_n(variable, kRows, 0.0f);
        const Collective barrier = {.operation = Barrier{}, .name = "filled"};
        EXPECT_EQ(hosts->ranks[rank]->Run(barrier), absl::OkStatus());
        EXPECT_EQ(hosts->ranks[rank]->Run({.operation = ProductUpdate{.right = right.data(),
                                                                      .counts = counts,
                                                                      .rows = kRows,
                                                                      .row_bytes = sizeof(float),
                                                                      .variables = variables,
                                                                      .rule = &rule},
                                           .in = left.data(),
                                           .name = "u"}),
                  absl::OkStatus());
        EXPECT_EQ(std::vector<float>(variable, variable + kRows),
                  std::vector<float>(kRows, static_cast<float>(round) * want))
            << "round " << round << " on rank " << rank;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace mirrorflow
