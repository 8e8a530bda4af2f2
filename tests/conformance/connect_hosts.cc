// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/connect_hosts.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/connect_workers.h"
#include "distribute/collective/check_collective.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "tests/conformance/connect_domains.h"
#include "tests/fakes/cluster/memory_worker_group.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(30);

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

// Returns the topology with one worker per domain.
Topology WorkerEach(Topology topology) {
  for (Topology::ReplicaLocation& replica : topology.replicas) replica.worker = replica.domain;
  return topology;
}

}  // namespace

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

std::vector<ConformanceCase> HostsCases(Network network) {
  const std::pair<const char*, Topology> topologies[] = {
      {"TwoAndTwo", WorkerEach(DomainsOfRanks("0011"))},
      {"ThreeAndOne", WorkerEach(DomainsOfRanks("0001"))},
      {"OneAndFour", WorkerEach(DomainsOfRanks("01111"))},
      {"TwoTwoAndThree", WorkerEach(DomainsOfRanks("0011222"))},
      {"TwoAndThreeWorkers", DomainsOfRanks("00111")},
      {"WorkersOfHostsInTurns", DomainsOfRanks("01012")},
  };
  std::vector<ConformanceCase> cases;
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
    cases.push_back({.backend = absl::StrCat(network == Network::kTcp ? "Tcp" : "Ucx", hosts.first),
                     .connect = connect,
                     .world_size = topology.world_size(),
                     .sums_in_rank_order = false});
  }
  return cases;
}

}  // namespace mirrorflow
