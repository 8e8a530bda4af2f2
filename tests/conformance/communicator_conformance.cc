// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/communicator_conformance.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <latch>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "tests/support/sizes.h"

namespace mirrorflow {

void PrintTo(const ConformanceCase& test_case, std::ostream* os) {
  *os << test_case.backend << ", " << test_case.world_size << " ranks";
}

std::string ConformanceCaseName(const testing::TestParamInfo<ConformanceCase>& info) {
  return absl::StrCat(info.param.backend, "_", info.param.world_size);
}

std::vector<ConformanceCase> AtEveryWorldSizeAboveOne(ConformanceCase backend) {
  std::vector<ConformanceCase> cases;
  for (const int world_size : SizesUpTo("MIRRORFLOW_MAX_RANKS", {2, 3, 4, 7, 8})) {
    backend.world_size = world_size;
    cases.push_back(backend);
  }
  return cases;
}

std::vector<ConformanceCase> AtEveryWorldSize(ConformanceCase backend) {
  std::vector<ConformanceCase> cases = AtEveryWorldSizeAboveOne(backend);
  backend.world_size = 1;
  cases.insert(cases.begin(), backend);
  return cases;
}

void CommunicatorConformance::Connect(absl::Duration timeout) {
  absl::StatusOr<Communicators> connected = GetParam().connect(world_size(), timeout);
  ASSERT_TRUE(connected.ok()) << connected.status();
  communicators_ = *std::move(connected);
  ASSERT_EQ(static_cast<int>(communicators_.size()), world_size());
}

std::vector<absl::Status> CommunicatorConformance::OnEachRank(
    const std::function<absl::Status(Communicator&)>& body) {
  std::vector<absl::Status> results(world_size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size(); ++rank) {
    threads.emplace_back([&, rank] { results[rank] = body(communicator(rank)); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

void CommunicatorConformance::OnEachRankOk(const std::function<absl::Status(Communicator&)>& body) {
  const std::vector<absl::Status> results = OnEachRank(body);
  for (int rank = 0; rank < world_size(); ++rank) {
    EXPECT_TRUE(results[rank].ok()) << "rank " << rank << ": " << results[rank];
  }
}

namespace {

template <typename T>
std::vector<Reduction> ReductionsOf() {
  if (std::is_same_v<T, bool>) return {Reduction::kAll, Reduction::kAny};
  return {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin};
}

template <typename Fn>
void ForEachDtype(Fn fn) {
  fn(TypeTag<float>());
  fn(TypeTag<double>());
  fn(TypeTag<int32_t>());
  fn(TypeTag<int64_t>());
  fn(TypeTag<uint8_t>());
  fn(TypeTag<bool>());
}

// Returns the contribution of `rank` to element i, chosen so that the result reveals which ranks it
// includes.
template <typename T>
T Contribution(Reduction reduction, int ranks, int rank, int64_t i) {
  if constexpr (std::is_same_v<T, bool>) {
    const bool alone = i / 4 % ranks == rank;
    const bool values[] = {true, false, alone, !alone};
    return values[i % 4];
  } else if (reduction == Reduction::kSum || reduction == Reduction::kMean) {
    // Powers of three: other ranks cannot make up for a rank that is missing or counted twice.
    int64_t value = 1 + i % 5;
    for (int r = 0; r < rank; ++r) value *= 3;
    return static_cast<T>(value);
  } else {
    // Never 0, to reveal a reduction that starts from 0. Each rank holds the extreme of some
    // element.
    const int value = 1 + static_cast<int>((rank + i) % ranks);
    return static_cast<T>(std::is_signed_v<T> && i / ranks % 2 == 0 ? -value : value);
  }
}

template <typename T>
T Reduced(Reduction reduction, int ranks, int64_t i) {
  T total = Contribution<T>(reduction, ranks, 0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const T next = Contribution<T>(reduction, ranks, rank, i);
    if (reduction == Reduction::kSum || reduction == Reduction::kMean) total += next;
    if (reduction == Reduction::kMax) total = std::max(total, next);
    if (reduction == Reduction::kMin) total = std::min(total, next);
    if (reduction == Reduction::kAll) total = total && next;
    if (reduction == Reduction::kAny) total = total || next;
  }
  if (reduction != Reduction::kMean) return total;
  if constexpr (std::is_floating_point_v<T>) return total * (T{1} / static_cast<T>(ranks));
  return static_cast<T>(total / ranks);
}

template <typename T>
Memory<T> Contributions(Reduction reduction, const Communicator& communicator, int64_t count) {
  return Memory<T>(count, [&](int64_t i) {
    return Contribution<T>(reduction, communicator.world_size(), communicator.rank(), i);
  });
}

template <typename T>
Memory<T> AllReduced(Reduction reduction, int ranks, int64_t count) {
  return Memory<T>(count, [&](int64_t i) { return Reduced<T>(reduction, ranks, i); });
}

template <typename T, typename Operation>
Collective MakeCollective(const Operation& operation, const Memory<T>& in, Memory<T>& out,
                          absl::string_view name) {
  return {.operation = operation,
          .dtype = DataTypeOf<T>(),
          .in = in.data(),
          .out = out.data(),
          .name = name};
}

// Runs one all-reduce on one rank and checks its result.
template <typename T>
absl::Status AllReduceAndCheck(Communicator& communicator, Reduction reduction,
                               const Memory<T>& want, bool in_place) {
  const std::string name = absl::StrCat(ReductionName(reduction), " of ", want.size(), " ",
                                        DataTypeName(DataTypeOf<T>()), in_place ? " in place" : "");
  Memory<T> in = Contributions<T>(reduction, communicator, want.size());
  Memory<T> out = in_place ? in : Memory<T>(want.size());
  MF_RETURN_IF_ERROR(communicator.Run(
      MakeCollective(AllReduce{reduction, want.size()}, in_place ? out : in, out, name)));
  EXPECT_TRUE(SameBits(want, out)) << name << " on rank " << communicator.rank();
  if (!in_place) {
    EXPECT_TRUE(SameBits(Contributions<T>(reduction, communicator, want.size()), in))
        << name << " changed its input";
  }
  return absl::OkStatus();
}

}  // namespace

TEST_P(CommunicatorConformance, RanksAreNumberedInOrder) {
  for (int rank = 0; rank < world_size(); ++rank) {
    EXPECT_EQ(communicator(rank).rank(), rank);
    EXPECT_EQ(communicator(rank).world_size(), world_size());
  }
}

TEST_P(CommunicatorConformance, AllReduceReducesEveryDtypeAtEveryCount) {
  OnEachRankOk([&](Communicator& communicator) {
    absl::Status status;
    ForEachDtype([&](auto tag) {
      using T = typename decltype(tag)::type;
      for (const Reduction reduction : ReductionsOf<T>()) {
        for (const int64_t count : {0, 1, world_size() - 1, world_size(), 1000}) {
          const Memory<T> want = AllReduced<T>(reduction, world_size(), count);
          for (const bool in_place : {false, true}) {
            status.Update(AllReduceAndCheck<T>(communicator, reduction, want, in_place));
          }
        }
      }
    });
    return status;
  });
}

// With 2^20 elements, the shards exceed the caches. This depends on the element size but not on the
// reduction, so the test saves time by running one in-place reduction per size. Under TSan, where
// this would take a minute, shards of a few blocks reveal the same errors.
TEST_P(CommunicatorConformance, AllReduceReducesMillionElements) {
#ifdef __SANITIZE_THREAD__
  constexpr int64_t kCount = 1 << 17;
#else
  constexpr int64_t kCount = 1 << 20;
#endif
  const auto check = [&](auto tag, Reduction reduction) {
    using T = typename decltype(tag)::type;
    const Memory<T> want = AllReduced<T>(reduction, world_size(), kCount);
    OnEachRankOk([&](Communicator& communicator) {
      return AllReduceAndCheck<T>(communicator, reduction, want, true);
    });
  };
  check(TypeTag<float>(), Reduction::kSum);
  check(TypeTag<double>(), Reduction::kMean);
  check(TypeTag<uint8_t>(), Reduction::kMax);
}

// The magnitudes differ so much that each order of addition gives different bits.
TEST_P(CommunicatorConformance, FloatSumsHaveSameBitsOnAllRanks) {
  constexpr int64_t kCount = 5001;
  constexpr int kRounds = 20;
  std::mutex mu;
  std::map<int, Memory<float>> sums;  // by round: the sum on the rank that finished first
  OnEachRankOk([&](Communicator& communicator) {
    std::mt19937 delays(communicator.rank());
    for (int round = 0; round < kRounds; ++round) {
      std::vector<Memory<float>> contributions;
      for (int rank = 0; rank < world_size(); ++rank) {
        std::mt19937 random(round * world_size() + rank);
        contributions.emplace_back(kCount, [&](int64_t) {
          const float mantissa = static_cast<float>(random()) / 4e9f - 0.5f;
          return std::ldexp(mantissa, static_cast<int>(random() % 24));
        });
      }
      Memory<float> want = contributions[0];
      for (int rank = 1; rank < world_size(); ++rank) {
        for (int64_t i = 0; i < kCount; ++i) want.data()[i] += contributions[rank].data()[i];
      }
      for (unsigned i = delays() % 8; i > 0; --i) std::this_thread::yield();
      Memory<float> out(kCount);
      const std::string name = absl::StrCat("round ", round);
      MF_RETURN_IF_ERROR(communicator.Run(MakeCollective(
          AllReduce{Reduction::kSum, kCount}, contributions[communicator.rank()], out, name)));
      if (GetParam().sums_in_rank_order) {
        EXPECT_TRUE(SameBits(want, out)) << name << " on rank " << communicator.rank();
      }
      const std::lock_guard<std::mutex> lock(mu);
      const Memory<float>& first = sums.try_emplace(round, out).first->second;
      EXPECT_TRUE(SameBits(first, out)) << name << " on rank " << communicator.rank();
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorConformance, MaxAndMinPropagateNaNFromAnyRank) {
  OnEachRankOk([&](Communicator& communicator) {
    const int64_t count = 20 * world_size();
    // Element i is NaN on one rank in the first half and on none in the second.
    const Memory<double> in(count, [&](int64_t i) {
      const bool nan = i < count / 2 && i % world_size() == communicator.rank();
      return nan ? std::numeric_limits<double>::quiet_NaN() : 1.0 + communicator.rank();
    });
    for (const Reduction reduction : {Reduction::kMax, Reduction::kMin}) {
      Memory<double> out(count);
      MF_RETURN_IF_ERROR(
          communicator.Run(MakeCollective(AllReduce{reduction, count}, in, out, "nan")));
      const double extreme = reduction == Reduction::kMax ? world_size() : 1;
      for (int64_t i = 0; i < count; ++i) {
        const double got = out.data()[i];
        EXPECT_TRUE(i < count / 2 ? std::isnan(got) : got == extreme)
            << ReductionName(reduction) << " of element " << i << " is " << got;
      }
    }
    return absl::OkStatus();
  });
}

namespace {

// Returns several lists of counts by rank: equal counts, zeros, counts that increase from 0, and
// all elements on the first or the last rank.
std::vector<std::vector<int64_t>> ShardCounts(int ranks) {
  std::vector<std::vector<int64_t>> counts = {std::vector<int64_t>(ranks, 5),
                                              std::vector<int64_t>(ranks, 0),
                                              {},
                                              std::vector<int64_t>(ranks, 0),
                                              std::vector<int64_t>(ranks, 0)};
  for (int rank = 0; rank < ranks; ++rank) counts[2].push_back(rank * rank * 37);
  counts[3].front() = 1000;
  counts[4].back() = 10007;
  return counts;
}

int64_t Sum(absl::Span<const int64_t> counts) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
}

}  // namespace

TEST_P(CommunicatorConformance, ReduceScatterGivesEachRankItsShard) {
  const auto check = [&](Communicator& communicator, auto tag) -> absl::Status {
    using T = typename decltype(tag)::type;
    const int rank = communicator.rank();
    for (const std::vector<int64_t>& counts : ShardCounts(world_size())) {
      for (const Reduction reduction : ReductionsOf<T>()) {
        const std::string name =
            absl::StrCat(ReductionName(reduction), " of ", absl::StrJoin(counts, ","), " ",
                         DataTypeName(DataTypeOf<T>()));
        const int64_t first = Sum(absl::MakeSpan(counts).first(rank));
        const Memory<T> in = Contributions<T>(reduction, communicator, Sum(counts));
        const Memory<T> want(counts[rank], [&](int64_t i) {
          return Reduced<T>(reduction, world_size(), first + i);
        });
        Memory<T> out(counts[rank]);
        MF_RETURN_IF_ERROR(
            communicator.Run(MakeCollective(ReduceScatter{reduction, counts}, in, out, name)));
        EXPECT_TRUE(SameBits(want, out)) << name << " on rank " << rank;
      }
    }
    return absl::OkStatus();
  };
  OnEachRankOk([&](Communicator& communicator) {
    absl::Status status;
    ForEachDtype([&](auto tag) { status.Update(check(communicator, tag)); });
    return status;
  });
}

TEST_P(CommunicatorConformance, AllGatherConcatenatesShardsInRankOrder) {
  OnEachRankOk([&](Communicator& communicator) {
    const int rank = communicator.rank();
    for (const std::vector<int64_t>& counts : ShardCounts(world_size())) {
      const std::string name = absl::StrCat("shards of ", absl::StrJoin(counts, ","));
      const auto element = [](int of_rank, int64_t i) {
        return static_cast<int32_t>(of_rank * 1000000 + i);
      };
      const Memory<int32_t> in(counts[rank], [&](int64_t i) { return element(rank, i); });
      Memory<int32_t> want(Sum(counts));
      int32_t* next = want.data();
      for (int other = 0; other < world_size(); ++other) {
        for (int64_t i = 0; i < counts[other]; ++i) *next++ = element(other, i);
      }
      Memory<int32_t> out(want.size());
      MF_RETURN_IF_ERROR(communicator.Run(MakeCollective(AllGather{counts}, in, out, name)));
      EXPECT_TRUE(SameBits(want, out)) << name << " on rank " << rank;
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorConformance, BroadcastCopiesFromEveryRoot) {
  OnEachRankOk([&](Communicator& communicator) {
    for (int root = 0; root < world_size(); ++root) {
      for (const int64_t count : {0, 1, 1000, 10007}) {
        for (const bool in_place : {false, true}) {
          const std::string name = absl::StrCat(count, " from rank ", root);
          const Memory<int64_t> want(count, [&](int64_t i) { return root * 1000000 + i; });
          const bool is_root = communicator.rank() == root;
          Memory<int64_t> out = is_root && in_place ? want : Memory<int64_t>(count);
          Collective collective = MakeCollective(Broadcast{.count = count, .root = root},
                                                 in_place ? out : want, out, name);
          if (!is_root) collective.in = nullptr;
          MF_RETURN_IF_ERROR(communicator.Run(collective));
          EXPECT_TRUE(SameBits(want, out)) << name << " on rank " << communicator.rank();
        }
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorConformance, BarrierHoldsEachRankUntilAllHaveArrived) {
  std::atomic<int> arrivals{0};
  OnEachRankOk([&](Communicator& communicator) {
    const Collective barrier{.operation = Barrier{}, .name = "barrier"};
    for (int round = 1; round <= 200; ++round) {
      if (round % world_size() == communicator.rank()) std::this_thread::yield();
      arrivals.fetch_add(1);
      MF_RETURN_IF_ERROR(communicator.Run(barrier));
      EXPECT_EQ(arrivals.load(), round * world_size());
      MF_RETURN_IF_ERROR(communicator.Run(barrier));  // before the next round counts
    }
    return absl::OkStatus();
  });
}

// Ranks run ahead by different numbers of collectives, as if some ranks had less to compute.
TEST_P(CommunicatorConformance, CollectivesInFlightFinishInOrderOfStart) {
  constexpr int kCollectives = 3 * Communicator::kMaxInFlight + 5;
  OnEachRankOk([&](Communicator& communicator) {
    const int ahead =
        communicator.rank() == 0 ? Communicator::kMaxInFlight : 1 + 10 * (communicator.rank() - 1);
    std::vector<Memory<int32_t>> memory;
    std::vector<std::string> names;
    std::vector<Collective> collectives;
    for (int i = 0; i < kCollectives; ++i) {
      names.push_back(absl::StrCat("collective ", i));
      memory.emplace_back(1 + i % 50, [&](int64_t) { return i + communicator.rank(); });
    }
    for (int i = 0; i < kCollectives; ++i) {
      const int64_t count = memory[i].size();
      if (i % 3 == 0) {
        collectives.push_back(MakeCollective(Broadcast{.count = count, .root = i % world_size()},
                                             memory[i], memory[i], names[i]));
      } else {
        collectives.push_back(
            MakeCollective(AllReduce{Reduction::kSum, count}, memory[i], memory[i], names[i]));
      }
    }
    for (int i = 0; i < kCollectives + ahead; ++i) {
      if (i < kCollectives) MF_RETURN_IF_ERROR(communicator.Start(collectives[i], nullptr));
      const int done = i - ahead + 1;
      if (done < 0 || done >= kCollectives) continue;
      MF_RETURN_IF_ERROR(communicator.Finish(collectives[done], nullptr));
      const int ranks = world_size();
      const int want = done % 3 == 0 ? done + done % ranks : done * ranks + ranks * (ranks - 1) / 2;
      const Memory<int32_t> all_want(memory[done].size(), [&](int64_t) { return want; });
      EXPECT_TRUE(SameBits(all_want, memory[done])) << names[done];
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorConformance, LateRankCausesNoFailure) {
  std::latch others_starting(world_size() - 1);  // a Start can wait for the late rank
  OnEachRankOk([&](Communicator& communicator) -> absl::Status {
    const Memory<float> in(1000, [&](int64_t) { return 1.0f; });
    const Memory<float> want(1000, [&](int64_t) { return static_cast<float>(world_size()); });
    Memory<float> out(1000);
    const Collective collective =
        MakeCollective(AllReduce{Reduction::kSum, in.size()}, in, out, "late");
    const bool late = communicator.rank() == world_size() - 1;
    if (late) {
      others_starting.wait();
      // Give the other ranks time to stop spinning and yielding; no result depends on it.
      const auto late_enough = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
      while (std::chrono::steady_clock::now() < late_enough) std::this_thread::yield();
    }
    if (!late) others_starting.count_down();
    MF_RETURN_IF_ERROR(communicator.Start(collective, nullptr));
    MF_RETURN_IF_ERROR(communicator.Finish(collective, nullptr));
    EXPECT_TRUE(SameBits(want, out)) << "on rank " << communicator.rank();
    return absl::OkStatus();
  });
}

}  // namespace mirrorflow
