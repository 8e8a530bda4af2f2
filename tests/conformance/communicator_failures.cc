// SPDX-License-Identifier: Apache-2.0
//
// The failure suites of communicator_conformance.h. Whatever goes wrong on one rank, every rank
// promptly returns the same first error.
#include <array>
#include <atomic>
#include <chrono>
#include <iterator>
#include <latch>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using Clock = std::chrono::steady_clock;

// Far longer than propagating an error takes, far shorter than kPatient.
constexpr auto kPrompt = std::chrono::seconds(10);
// Longer than a busy machine stalls a thread, so only the intended rank is missing.
constexpr absl::Duration kTimeout = absl::Milliseconds(500);

// Expects all ranks to have returned the same error.
void ExpectSameFailure(const std::vector<absl::Status>& results, absl::StatusCode code,
                       const std::vector<std::string>& words) {
  for (const std::string& word : words) EXPECT_THAT(results[0], IsError(code, word));
  for (size_t rank = 1; rank < results.size(); ++rank) {
    EXPECT_EQ(results[rank], results[0]) << "on rank " << rank;
  }
}

// One rank's memory for a failing collective, and collectives of 10 floats that use it.
struct Part {
  explicit Part(int ranks) : counts(ranks, 10), in(10 * ranks), out(10 * ranks) {}

  template <typename Operation>
  Collective Of(const Operation& operation, absl::string_view name) {
    return {.operation = operation, .in = in.data(), .out = out.data(), .name = name};
  }
  Collective SumOfTen(absl::string_view name) { return Of(AllReduce{Reduction::kSum, 10}, name); }

  std::vector<int64_t> counts;
  Memory<double> in;  // wide enough for any intentionally wrong dtype
  Memory<double> out;
};

class Stopwatch {
 public:
  ~Stopwatch() { EXPECT_LT(Clock::now() - start_, kPrompt); }

 private:
  const Clock::time_point start_ = Clock::now();
};

}  // namespace

TEST_P(CommunicatorAborts, AbortBeforeStartReachesAllRanks) {
  const Stopwatch stopwatch;
  std::latch others_started(world_size() - 1);
  const int culprit = world_size() - 1;
  const auto results = OnEachRank([&](Communicator& communicator) -> absl::Status {
    Part part(world_size());
    const Collective collective = part.SumOfTen("a");
    if (communicator.rank() == culprit) {
      others_started.wait();
      communicator.Abort(absl::DataLossError("disk on fire"));
      return communicator.Run(collective);
    }
    MF_RETURN_IF_ERROR(communicator.Start(collective, nullptr));
    others_started.count_down();
    return communicator.Finish(collective, nullptr);
  });
  ExpectSameFailure(results, absl::StatusCode::kDataLoss, {"disk on fire"});
}

TEST_P(CommunicatorAborts, AbortBetweenStartAndFinishReachesAllRanks) {
  const Stopwatch stopwatch;
  std::latch aborted(1);
  const auto results = OnEachRank([&](Communicator& communicator) -> absl::Status {
    Part part(world_size());
    const Collective collective = part.SumOfTen("a");
    // Without rank 1, the collective cannot end before the abort. The other ranks can be at any
    // point when the abort interrupts them.
    if (communicator.rank() == 1) aborted.wait();
    MF_RETURN_IF_ERROR(communicator.Start(collective, nullptr));
    if (communicator.rank() == 0) {
      communicator.Abort(absl::DataLossError("disk on fire"));
      aborted.count_down();
    }
    return communicator.Finish(collective, nullptr);
  });
  ExpectSameFailure(results, absl::StatusCode::kDataLoss, {"disk on fire"});
}

TEST_P(CommunicatorAborts, AbortFromAnotherThreadEndsCollectivesOfAllRanks) {
  const Stopwatch stopwatch;
  std::latch busy(10 * world_size());
  std::thread bystander([&] {
    busy.wait();
    communicator(0).Abort(absl::CancelledError("no more"));
  });
  const auto results = OnEachRank([&](Communicator& communicator) {
    Part part(world_size());
    absl::Status status;
    for (int i = 0; status.ok(); ++i) {
      status = communicator.Run(part.SumOfTen("a"));
      if (i < 10) busy.count_down();
    }
    return status;
  });
  bystander.join();
  ExpectSameFailure(results, absl::StatusCode::kCancelled, {"no more"});
}

TEST_P(CommunicatorAborts, FirstOfSeveralAbortsWins) {
  std::latch all(world_size());
  const auto results = OnEachRank([&](Communicator& communicator) {
    all.arrive_and_wait();
    communicator.Abort(absl::InternalError(absl::StrCat("from rank ", communicator.rank())));
    return communicator.Run({.operation = Barrier{}, .name = "b"});
  });
  ExpectSameFailure(results, absl::StatusCode::kInternal, {"from rank "});
}

TEST_P(CommunicatorAborts, EveryCallFailsAfterAbort) {
  const Stopwatch stopwatch;
  const absl::Status why = absl::UnavailableError("the first reason");
  communicator(1).Abort(why);
  communicator(0).Abort(absl::InternalError("another reason"));
  OnEachRankOk([&](Communicator& communicator) {
    Part part(world_size());
    const Collective collective = part.SumOfTen("a");
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(communicator.Start(collective, nullptr), why);
      EXPECT_EQ(communicator.Finish(collective, nullptr), why);
      EXPECT_EQ(communicator.Run({.operation = Barrier{}, .name = "b"}), why);
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorFailures, RankThatNeverStartsIsNamedByAllRanksAfterTimeout) {
  for (const int culprit : {0, world_size() - 1}) {
    const Stopwatch stopwatch;
    Connect(kTimeout);
    std::latch others_failed(world_size() - 1);
    const auto results = OnEachRank([&](Communicator& communicator) {
      Part part(world_size());
      const bool missing = communicator.rank() == culprit;
      if (missing) others_failed.wait();
      const absl::Status status = communicator.Run(part.SumOfTen("gradients"));
      if (!missing) others_failed.count_down();
      return status;
    });
    ExpectSameFailure(results, absl::StatusCode::kDeadlineExceeded,
                      {"all-reduce 'gradients'", absl::StrCat("by rank ", culprit)});
  }
}

TEST_P(CommunicatorFailures, RankThatNeverFinishesIsNamedByAllRanksAfterTimeout) {
  const Stopwatch stopwatch;
  Connect(kTimeout);
  std::latch others_failed(world_size() - 1);
  const int culprit = 1;
  const auto results = OnEachRank([&](Communicator& communicator) {
    Part part(world_size());
    const Collective collective = part.SumOfTen("gradients");
    EXPECT_EQ(communicator.Start(collective, nullptr), absl::OkStatus());
    if (communicator.rank() == culprit) others_failed.wait();
    const absl::Status status = communicator.Finish(collective, nullptr);
    if (communicator.rank() != culprit) others_failed.count_down();
    return status;
  });
  ExpectSameFailure(results, absl::StatusCode::kDeadlineExceeded,
                    {"all-reduce 'gradients'", absl::StrCat("by rank ", culprit)});
}

TEST_P(CommunicatorFailures, DifferenceBetweenRanksIsReportedByAllRanks) {
  using Operation = decltype(Collective::operation);
  struct Difference {
    const char* what;
    Operation usual;  // what the other ranks run
    Operation odd;
    DataType odd_dtype = DT_FLOAT;
  };
  const std::vector<int64_t> counts(world_size(), 10);
  std::vector<int64_t> other_counts = counts;
  std::swap(other_counts[0], other_counts[1] = 9);
  const AllReduce sum{Reduction::kSum, 10};
  const Difference differences[] = {
      {"name", sum, sum},
      {"count", sum, AllReduce{Reduction::kSum, 9}},
      {"dtype", sum, sum, DT_INT32},
      {"reduction", sum, AllReduce{Reduction::kMean, 10}},
      {"kind", sum, Broadcast{.count = 10}},
      {"barrier", AllGather{counts}, Barrier{}},
      {"no barrier", Barrier{}, sum},
      {"root", Broadcast{.count = 10}, Broadcast{.count = 10, .root = 1}},
      {"count of a broadcast", Broadcast{.count = 10}, Broadcast{.count = 11}},
      {"counts", AllGather{counts}, AllGather{other_counts}},
      {"counts", ReduceScatter{Reduction::kSum, counts},
       ReduceScatter{Reduction::kSum, other_counts}},
      {"reduction", ReduceScatter{Reduction::kSum, counts}, ReduceScatter{Reduction::kMin, counts}},
  };
  // Alternates between the first and the last rank instead of testing both, because some
  // communicators take half a second to connect.
  for (size_t i = 0; i < std::size(differences); ++i) {
    const Difference& difference = differences[i];
    const int culprit = (i + world_size()) % 2 == 0 ? 0 : world_size() - 1;
    SCOPED_TRACE(absl::StrCat("difference in ", difference.what, " on rank ", culprit));
    const Stopwatch stopwatch;
    const bool same_name = absl::string_view(difference.what) != "name";
    Connect(kPatient);
    const auto results = OnEachRank([&](Communicator& communicator) -> absl::Status {
      Part part(world_size());
      // A matching collective comes first and must succeed.
      absl::Status status = communicator.Run(part.SumOfTen("start"));
      EXPECT_TRUE(status.ok()) << status;
      Collective collective = part.Of(difference.usual, "usual");
      if (communicator.rank() == culprit) {
        collective.operation = difference.odd;
        collective.dtype = difference.odd_dtype;
        if (!same_name) collective.name = "odd";
      }
      return communicator.Run(collective);
    });
    // The error names the first rank that differs from rank 0. If rank 0 is the culprit, that is
    // rank 1.
    const int named = culprit == 0 ? 1 : culprit;
    ExpectSameFailure(results, absl::StatusCode::kInvalidArgument,
                      {absl::StrCat("rank ", named, " runs "), "rank 0 ", "'usual'",
                       same_name ? "'usual'" : "'odd'"});
  }
}

TEST_P(CommunicatorFailures, DifferentOrderOnOneRankIsReportedByAllRanks) {
  const Stopwatch stopwatch;
  const auto results = OnEachRank([&](Communicator& communicator) -> absl::Status {
    Part part(world_size());
    const Collective a = part.SumOfTen("a");
    const Collective b = part.SumOfTen("b");
    const bool odd = communicator.rank() == 1;
    const Collective& first = odd ? b : a;
    const Collective& second = odd ? a : b;
    absl::Status status = communicator.Start(first, nullptr);
    status.Update(communicator.Start(second, nullptr));
    status.Update(communicator.Finish(first, nullptr));
    status.Update(communicator.Finish(second, nullptr));
    return status;
  });
  ExpectSameFailure(results, absl::StatusCode::kInvalidArgument, {"rank 1 runs", "'a'", "'b'"});
}

TEST_P(CommunicatorFailures, InvalidCollectiveOnOneRankIsReportedByAllRanks) {
  const std::vector<int64_t> counts(world_size(), 10);
  const std::vector<int64_t> short_counts(world_size() - 1, 10);
  const std::vector<int64_t> negative_counts(world_size(), -1);
  struct Impossible {
    const char* word;  // must appear in the error
    decltype(Collective::operation) operation;
    std::function<void(Collective*)> change = [](Collective*) {};
  };
  const AllReduce sum{Reduction::kSum, 10};
  const Impossible impossibles[] = {
      {"sum of bool", sum, [](Collective* c) { c->dtype = DT_BOOL; }},
      {"any of float", ReduceScatter{Reduction::kAny, counts}},
      {"string", Broadcast{.count = 10}, [](Collective* c) { c->dtype = DT_STRING; }},
      {"-1", AllReduce{Reduction::kSum, -1}},
      {"-1", AllGather{negative_counts}},
      {"count", AllGather{short_counts}},
      {"root", Broadcast{.count = 10, .root = world_size()}},
      {"root", Broadcast{.count = 10, .root = -1}},
      {"memory", sum, [](Collective* c) { c->in = nullptr; }},
      {"memory", Broadcast{.count = 10}, [](Collective* c) { c->out = nullptr; }},
  };
  for (const Impossible& impossible : impossibles) {
    SCOPED_TRACE(impossible.word);
    const Stopwatch stopwatch;
    Connect(kPatient);
    const auto results = OnEachRank([&](Communicator& communicator) {
      Part part(world_size());
      Collective collective = part.SumOfTen("odd");
      if (communicator.rank() == 1) {
        collective.operation = impossible.operation;
        impossible.change(&collective);
      }
      return communicator.Run(collective);
    });
    ExpectSameFailure(results, absl::StatusCode::kInvalidArgument, {"'odd'", impossible.word});
  }
}

TEST_P(CommunicatorFailures, MoreInFlightThanLimitIsErrorOnAllRanks) {
  const Stopwatch stopwatch;
  const auto results = OnEachRank([&](Communicator& communicator) {
    Part part(world_size());
    absl::Status status;
    for (int i = 0; i <= Communicator::kMaxInFlight; ++i) {
      status.Update(communicator.Start(part.SumOfTen("many"), nullptr));
    }
    status.Update(communicator.Finish(part.SumOfTen("many"), nullptr));
    return status;
  });
  ExpectSameFailure(results, absl::StatusCode::kResourceExhausted, {"'many'"});
}

// Once a rank has seen a failure, it can free its memory, even while other ranks that have not yet
// seen the failure are still summing. Here, the rank fills its memory, which must then stay
// unchanged.
TEST_P(CommunicatorFailures, MemoryOfRankIsUntouchedOnceItHasSeenFailure) {
  constexpr int64_t kCount = 1 << 16;
  const std::byte mark{0xab};
  // Communicators that are slow to connect run fewer rounds.
  const auto enough = Clock::now() + std::chrono::seconds(2);
  for (int round = 0; round < 5 || (round < 30 && Clock::now() < enough); ++round) {
    Connect(kPatient);
    std::vector<Memory<float>> memory(world_size(),
                                      Memory<float>(kCount, [](int64_t) { return 0.0f; }));
    std::atomic<int> finished{0};
    std::thread bystander([&] {
      // Aborts during a collective, not at its end, where nothing could go wrong.
      while (finished.load() < round % 5 * world_size() + 1) std::this_thread::yield();
      communicator(0).Abort(absl::CancelledError("no more"));
    });
    OnEachRankOk([&](Communicator& communicator) {
      Memory<float>& own = memory[communicator.rank()];
      const Collective collective{.operation = AllReduce{Reduction::kSum, kCount},
                                  .in = own.data(),
                                  .out = own.data(),
                                  .name = "a"};
      while (communicator.Run(collective).ok()) finished.fetch_add(1);
      own.Fill(mark);
      return absl::OkStatus();
    });
    bystander.join();
    Memory<float> marked(kCount);
    marked.Fill(mark);
    for (const Memory<float>& own : memory) ASSERT_TRUE(SameBits(marked, own));
  }
}

}  // namespace mirrorflow
