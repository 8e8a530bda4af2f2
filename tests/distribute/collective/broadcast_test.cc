// SPDX-License-Identifier: Apache-2.0
//
// Tests broadcasts between memory domains: for any number of domains and ranks, the root's domain
// sends each byte once, and every other domain receives it once.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/connect_domains.h"
#include "tests/fakes/cluster/memory_transport.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

// The message bytes that each rank has sent and expected.
struct Traffic {
  explicit Traffic(int world_size) : sent(world_size), received(world_size) {}
  std::vector<std::atomic<int64_t>> sent, received;
};

class CountingTransport final : public Transport {
 public:
  CountingTransport(std::unique_ptr<Transport> inner, int rank, std::shared_ptr<Traffic> traffic)
      : inner_(std::move(inner)), rank_(rank), traffic_(std::move(traffic)) {}
  absl::Status StartSend(const Transfer& transfer, absl::Span<const std::byte> bytes) override {
    traffic_->sent[rank_] += static_cast<int64_t>(bytes.size());
    return inner_->StartSend(transfer, bytes);
  }
  absl::Status StartReceive(const Transfer& transfer, absl::Span<std::byte> bytes) override {
    traffic_->received[rank_] += static_cast<int64_t>(bytes.size());
    return inner_->StartReceive(transfer, bytes);
  }
  absl::StatusOr<bool> Progress() override { return inner_->Progress(); }
  bool PrepareToWait(std::vector<pollfd>* events) override { return inner_->PrepareToWait(events); }
  std::optional<Pending> pending() const override { return inner_->pending(); }
  void Abort(const absl::Status& why) override { inner_->Abort(why); }

 private:
  const std::unique_ptr<Transport> inner_;
  const int rank_;
  const std::shared_ptr<Traffic> traffic_;
};

// The ranks of several domains, connected in memory. If the world size is not a multiple of the
// number of domains, domains have different sizes.
struct Domains {
  Domains(int world_size, int num_domains, absl::Duration timeout)
      : num_domains(num_domains), traffic(std::make_shared<Traffic>(world_size)) {
    const auto create = [&](const Topology& topology) -> absl::StatusOr<Transports> {
      const auto network = MemoryNetwork::Create(topology);
      Transports transports;
      for (int rank = 0; rank < world_size; ++rank) {
        transports.push_back(
            std::make_unique<CountingTransport>(network->TransportOf(rank), rank, traffic));
      }
      return transports;
    };
    ranks = ConnectDomains(DomainsOfEqualSize(world_size, num_domains), timeout, create).value();
  }

  // Calls work(rank) on one thread per rank.
  std::vector<absl::Status> OnEach(const std::function<absl::Status(int rank)>& work) const {
    std::vector<absl::Status> results(ranks.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      threads.emplace_back([&, rank] { results[rank] = work(static_cast<int>(rank)); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  int DomainOf(int rank) const { return rank * num_domains / static_cast<int>(ranks.size()); }
  // Returns the sum of `bytes` over a domain's ranks.
  int64_t Of(int domain, const std::vector<std::atomic<int64_t>>& bytes) const {
    int64_t sum = 0;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (DomainOf(static_cast<int>(rank)) == domain) sum += bytes[rank];
    }
    return sum;
  }

  const int num_domains;
  const std::shared_ptr<Traffic> traffic;
  std::vector<std::unique_ptr<Communicator>> ranks;
};

struct Mesh {
  int world_size;
  int num_domains;
};

std::vector<Mesh> Meshes() {
  std::vector<Mesh> meshes = {{5, 2}, {7, 3}, {11, 4}};
  for (const int domains : {2, 3, 4, 5, 8}) {
    for (const int ranks : {1, 2, 4, 8}) meshes.push_back({domains * ranks, domains});
  }
  return meshes;
}

class BroadcastTest : public testing::TestWithParam<Mesh> {};
INSTANTIATE_TEST_SUITE_P(, BroadcastTest, testing::ValuesIn(Meshes()), [](const auto& info) {
  return absl::StrCat(info.param.world_size, "RanksIn", info.param.num_domains, "Domains");
});

TEST_P(BroadcastTest, EachDomainReceivesEachByteOnceAndRootsDomainSendsItOnce) {
  const auto [world_size, num_domains] = GetParam();
  for (const int64_t count : {0, 1, 1000, 300'000}) {
    for (const int root : {0, world_size - 1}) {
      SCOPED_TRACE(absl::StrCat(count, " elements from rank ", root));
      const Domains domains(world_size, num_domains, absl::Minutes(1));
      std::vector<int32_t> want(count);
      for (int64_t i = 0; i < count; ++i) want[i] = static_cast<int32_t>(root + 7 * i);
      const auto results = domains.OnEach([&](int rank) {
        std::vector<int32_t> out(count);
        const absl::Status status =
            domains.ranks[rank]->Run({.operation = Broadcast{.count = count, .root = root},
                                      .dtype = DT_INT32,
                                      .in = rank == root ? want.data() : nullptr,
                                      .out = out.data(),
                                      .name = "variable"});
        EXPECT_EQ(out, want) << "on rank " << rank;
        return status;
      });
      EXPECT_THAT(results, testing::Each(absl::OkStatus()));
      const int64_t bytes = 4 * count;
      for (int d = 0; d < num_domains; ++d) {
        const bool is_source = d == domains.DomainOf(root);
        EXPECT_EQ(domains.Of(d, domains.traffic->received), is_source ? 0 : bytes);
        // Other domains forward parts of the value.
        const int64_t sent = domains.Of(d, domains.traffic->sent);
        if (is_source) {
          EXPECT_EQ(sent, bytes);
        } else if (count == 300'000) {
          EXPECT_LE(sent, bytes);
        }
      }
    }
  }
}

// The replicas of a domain can share the memory of a variable.
TEST_P(BroadcastTest, RanksOfDomainCanShareResult) {
  const auto [world_size, num_domains] = GetParam();
  constexpr int64_t kCount = 5000;
  const Domains domains(world_size, num_domains, absl::Minutes(1));
  std::vector<std::vector<int32_t>> variables(num_domains, std::vector<int32_t>(kCount));
  const std::vector<int32_t> want(kCount, 42);
  variables[0] = want;
  const auto results = domains.OnEach([&](int rank) {
    int32_t* const variable = variables[domains.DomainOf(rank)].data();
    return domains.ranks[rank]->Run({.operation = Broadcast{.count = kCount, .root = 0},
                                     .dtype = DT_INT32,
                                     .in = variable,
                                     .out = variable,
                                     .name = "variable"});
  });
  EXPECT_THAT(results, testing::Each(absl::OkStatus()));
  EXPECT_THAT(variables, testing::Each(want));
}

// Most ranks wait for bytes that other ranks forward. All of them still name the missing rank,
// whether it is the root or a rank that forwards. A value of one element takes a single path; a
// large value takes all paths.
TEST(BroadcastFailureTest, MissingRankIsNamedByAll) {
  constexpr int kRanks = 4;
  for (const int64_t count : {1, 100'000}) {
    for (const int missing : {0, kRanks - 1}) {
      SCOPED_TRACE(absl::StrCat(count, " elements, without rank ", missing));
      const Domains domains(kRanks, kRanks, absl::Milliseconds(500));
      const auto results = domains.OnEach([&](int rank) -> absl::Status {
        if (rank == missing) return absl::OkStatus();
        std::vector<float> value(count);
        return domains.ranks[rank]->Run({.operation = Broadcast{.count = count, .root = 0},
                                         .in = value.data(),
                                         .out = value.data(),
                                         .name = "kernel"});
      });
      for (int rank = 1; rank < kRanks - 1; ++rank) {  // the root need not wait for other ranks
        EXPECT_THAT(results[rank], IsError(absl::StatusCode::kDeadlineExceeded, "'kernel'",
                                           absl::StrCat("from rank ", missing)));
        EXPECT_EQ(FailureOf(results[rank])->rank, missing);
      }
    }
  }
}

// If the root and the rank that forwards its value are both missing, the other ranks wait for the
// forwarding rank, for longer than the timeout.
TEST(BroadcastFailureTest, ErrorReportsHowLongRankHasWaited) {
  constexpr int kRanks = 4;
  const Domains domains(kRanks, kRanks, absl::Milliseconds(50));
  const auto results = domains.OnEach([&](int rank) -> absl::Status {
    if (rank == 0 || rank == kRanks - 1) return absl::OkStatus();
    float value = 0;
    return domains.ranks[rank]->Run(
        {.operation = Broadcast{.count = 1, .root = 0}, .in = &value, .out = &value});
  });
  for (const int rank : {1, 2}) {
    EXPECT_THAT(results[rank],
                testing::AllOf(IsError(absl::StatusCode::kDeadlineExceeded, "from rank 3"),
                               testing::Not(IsError(absl::StatusCode::kDeadlineExceeded,
                                                    "timed out after 100ms"))));
  }
}

}  // namespace
}  // namespace mirrorflow
