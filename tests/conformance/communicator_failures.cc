// SPDX-License-Identifier: Apache-2.0
//
// The second suite of communicator_conformance.h: whatever goes wrong on one rank, every rank
// returns the same first error, soon.
#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "tests/conformance/communicator_conformance.h"

namespace mirrorflow {
namespace {

using Clock = std::chrono::steady_clock;

// Far above what passing an error on takes, far below what a patient communicator waits.
constexpr auto kPrompt = std::chrono::seconds(10);

// That all ranks returned one error.
void ExpectSameFailure(const std::vector<absl::Status>& results, absl::StatusCode code,
                       const std::vector<std::string>& words) {
  EXPECT_EQ(results[0].code(), code) << results[0];
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(results[0].message(), word)) << word << " in " << results[0];
  }
  for (size_t rank = 1; rank < results.size(); ++rank) {
    EXPECT_EQ(results[rank], results[0]) << "on rank " << rank;
  }
}

// Memory for each rank's part in a failing collective, and collectives of 10 floats in it.
struct Part {
  explicit Part(int ranks) : counts(ranks, 10), in(10 * ranks), out(10 * ranks) {}

  Collective Of(CollectiveKind kind, absl::string_view name) {
    Collective collective;
    collective.kind = kind;
    collective.dtype = DT_FLOAT;
    collective.in = in.data();
    collective.out = out.data();
    collective.count = 10;
    collective.counts = counts;
    collective.name = name;
    return collective;
  }
  Collective AllReduce(absl::string_view name) { return Of(CollectiveKind::kAllReduce, name); }

  std::vector<int64_t> counts;
  Memory<double> in;  // wide enough for whatever dtype is asked for by mistake
  Memory<double> out;
};

class Stopwatch {
 public:
  ~Stopwatch() { EXPECT_LT(Clock::now() - start_, kPrompt); }

 private:
  const Clock::time_point start_ = Clock::now();
};

}  // namespace

TEST_P(CommunicatorAborts, AbortBeforeItsStartReachesAllRanks) {
  const Stopwatch stopwatch;
  std::latch others_started(world_size() - 1);
  const int culprit = world_size() - 1;
  const auto results = OnEachRank([&](Communicator& communicator) -> absl::Status {
    Part part(world_size());
    const Collective collective = part.AllReduce("a");
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
    const Collective collective = part.AllReduce("a");
    MF_RETURN_IF_ERROR(communicator.Start(collective, nullptr));
    if (communicator.rank() == 0) {
      communicator.Abort(absl::DataLossError("disk on fire"));
      aborted.count_down();
    } else if (communicator.rank() == 1) {
      aborted.wait();  // the others may be anywhere
    }
    return communicator.Finish(collective, nullptr);
  });
  ExpectSameFailure(results, absl::StatusCode::kDataLoss, {"disk on fire"});
}

TEST_P(CommunicatorAborts, AbortFromAnotherThreadEndsWhatAllRanksAreDoing) {
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
      status = communicator.Run(part.AllReduce("a"));
      if (i < 10) busy.count_down();
    }
    return status;
  });
  bystander.join();
  ExpectSameFailure(results, absl::StatusCode::kCancelled, {"no more"});
}

TEST_P(CommunicatorAborts, FirstOfManyAbortsCounts) {
  std::latch all(world_size());
  const auto results = OnEachRank([&](Communicator& communicator) {
    all.arrive_and_wait();
    communicator.Abort(absl::InternalError(absl::StrCat("from rank ", communicator.rank())));
    return communicator.Run({.kind = CollectiveKind::kBarrier, .name = "b"});
  });
  ExpectSameFailure(results, absl::StatusCode::kInternal, {"from rank "});
}

TEST_P(CommunicatorAborts, NothingWorksAfterAnAbort) {
  const Stopwatch stopwatch;
  const absl::Status why = absl::UnavailableError("the first reason");
  communicator(1).Abort(why);
  communicator(0).Abort(absl::InternalError("another reason"));
  OnEachRankOk([&](Communicator& communicator) {
    Part part(world_size());
    const Collective collective = part.AllReduce("a");
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(communicator.Start(collective, nullptr), why);
      EXPECT_EQ(communicator.Finish(collective, nullptr), why);
      EXPECT_EQ(communicator.Run({.kind = CollectiveKind::kBarrier, .name = "b"}), why);
      EXPECT_EQ(communicator.Split(0, 0).status(), why);
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorFailures, RankThatNeverStartsIsNamedByAllAfterTheTimeout) {
  for (const int culprit : {0, world_size() - 1}) {
    const Stopwatch stopwatch;
    Connect(absl::Milliseconds(100));
    std::latch others_failed(world_size() - 1);
    const auto results = OnEachRank([&](Communicator& communicator) {
      Part part(world_size());
      const bool missing = communicator.rank() == culprit;
      if (missing) others_failed.wait();
      const absl::Status status = communicator.Run(part.AllReduce("gradients"));
      if (!missing) others_failed.count_down();
      return status;
    });
    ExpectSameFailure(results, absl::StatusCode::kDeadlineExceeded,
                      {"all-reduce 'gradients'", absl::StrCat("by rank ", culprit)});
  }
}

TEST_P(CommunicatorFailures, RankThatNeverFinishesIsNamedByAllAfterTheTimeout) {
  const Stopwatch stopwatch;
  Connect(absl::Milliseconds(100));
  std::latch others_failed(world_size() - 1);
  const int culprit = 1;
  const auto results = OnEachRank([&](Communicator& communicator) {
    Part part(world_size());
    const Collective collective = part.AllReduce("gradients");
    EXPECT_EQ(communicator.Start(collective, nullptr), absl::OkStatus());
    if (communicator.rank() == culprit) others_failed.wait();
    const absl::Status status = communicator.Finish(collective, nullptr);
    if (communicator.rank() != culprit) others_failed.count_down();
    return status;
  });
  ExpectSameFailure(results, absl::StatusCode::kDeadlineExceeded,
                    {"all-reduce 'gradients'", absl::StrCat("by rank ", culprit)});
}

TEST_P(CommunicatorAborts, SplitFailsOnAllRanksWhenOneDoesNotCome) {
  const Stopwatch stopwatch;
  const auto results = OnEachRank([&](Communicator& communicator) {
    if (communicator.rank() == 1) communicator.Abort(absl::CancelledError("not splitting"));
    return communicator.Split(0, 0).status();
  });
  ExpectSameFailure(results, absl::StatusCode::kCancelled, {"not splitting"});
}

TEST_P(CommunicatorFailures, DifferenceBetweenRanksIsReportedByAll) {
  struct Difference {
    const char* what;
    CollectiveKind kind;  // of the others
    std::function<void(Collective*)> change;
  };
  std::vector<int64_t> other_counts(world_size(), 10);
  std::swap(other_counts[0], other_counts[1] = 9);
  const Difference differences[] = {
      {"name", CollectiveKind::kAllReduce, [](Collective*) {}},
      {"count", CollectiveKind::kAllReduce, [](Collective* c) { c->count = 9; }},
      {"dtype", CollectiveKind::kAllReduce, [](Collective* c) { c->dtype = DT_INT32; }},
      {"reduction", CollectiveKind::kAllReduce,
       [](Collective* c) { c->reduction = Reduction::kMean; }},
      {"kind", CollectiveKind::kAllReduce,
       [](Collective* c) { c->kind = CollectiveKind::kBroadcast; }},
      {"barrier", CollectiveKind::kAllGather,
       [](Collective* c) { c->kind = CollectiveKind::kBarrier; }},
      {"no barrier", CollectiveKind::kBarrier,
       [](Collective* c) { c->kind = CollectiveKind::kAllReduce; }},
      {"root", CollectiveKind::kBroadcast, [](Collective* c) { c->root = 1; }},
      {"count of a broadcast", CollectiveKind::kBroadcast, [](Collective* c) { c->count = 11; }},
      {"shares", CollectiveKind::kAllGather, [&](Collective* c) { c->counts = other_counts; }},
      {"shares", CollectiveKind::kReduceScatter, [&](Collective* c) { c->counts = other_counts; }},
      {"reduction", CollectiveKind::kReduceScatter,
       [](Collective* c) { c->reduction = Reduction::kMin; }},
  };
  for (const Difference& difference : differences) {
    for (const int culprit : {0, world_size() - 1}) {
      SCOPED_TRACE(absl::StrCat("another ", difference.what, " on rank ", culprit));
      const Stopwatch stopwatch;
      const bool same_name = absl::string_view(difference.what) != "name";
      Connect(kPatient);
      const auto results = OnEachRank([&](Communicator& communicator) -> absl::Status {
        Part part(world_size());
        // One that agrees comes first: it must go well.
        absl::Status status = communicator.Run(part.AllReduce("start"));
        EXPECT_TRUE(status.ok()) << status;
        Collective collective = part.Of(difference.kind, "usual");
        if (communicator.rank() == culprit) {
          difference.change(&collective);
          if (!same_name) collective.name = "odd";
        }
        return communicator.Run(collective);
      });
      // Rank 0 is the measure: if it is the odd one, the next differs from it.
      const int named = culprit == 0 ? 1 : culprit;
      ExpectSameFailure(results, absl::StatusCode::kInvalidArgument,
                        {absl::StrCat("rank ", named, " runs "), "rank 0 ", "'usual'",
                         same_name ? "'usual'" : "'odd'"});
    }
  }
}

TEST_P(CommunicatorFailures, OtherOrderOnOneRankIsReportedByAll) {
  const Stopwatch stopwatch;
  const auto results = OnEachRank([&](Communicator& communicator) -> absl::Status {
    Part part(world_size());
    const Collective a = part.AllReduce("a");
    const Collective b = part.AllReduce("b");
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

TEST_P(CommunicatorFailures, ImpossibleCollectiveOnOneRankIsReportedByAll) {
  const std::vector<int64_t> short_counts(world_size() - 1, 10);
  const std::vector<int64_t> negative_counts(world_size(), -1);
  struct Impossible {
    const char* word;  // that the error must have
    CollectiveKind kind;
    std::function<void(Collective*)> change;
  };
  const Impossible impossibles[] = {
      {"sum of bool", CollectiveKind::kAllReduce, [](Collective* c) { c->dtype = DT_BOOL; }},
      {"any of float", CollectiveKind::kReduceScatter,
       [](Collective* c) { c->reduction = Reduction::kAny; }},
      {"string", CollectiveKind::kBroadcast, [](Collective* c) { c->dtype = DT_STRING; }},
      {"-1", CollectiveKind::kAllReduce, [](Collective* c) { c->count = -1; }},
      {"-1", CollectiveKind::kAllGather, [&](Collective* c) { c->counts = negative_counts; }},
      {"count", CollectiveKind::kAllGather, [&](Collective* c) { c->counts = short_counts; }},
      {"root", CollectiveKind::kBroadcast, [&](Collective* c) { c->root = world_size(); }},
      {"root", CollectiveKind::kBroadcast, [](Collective* c) { c->root = -1; }},
      {"memory", CollectiveKind::kAllReduce, [](Collective* c) { c->in = nullptr; }},
      {"memory", CollectiveKind::kBroadcast, [](Collective* c) { c->out = nullptr; }},
  };
  for (const Impossible& impossible : impossibles) {
    SCOPED_TRACE(absl::StrCat(CollectiveKindName(impossible.kind), ": ", impossible.word));
    const Stopwatch stopwatch;
    Connect(kPatient);
    const auto results = OnEachRank([&](Communicator& communicator) {
      Part part(world_size());
      Collective collective = part.Of(impossible.kind, "odd");
      if (communicator.rank() == 1) impossible.change(&collective);
      return communicator.Run(collective);
    });
    ExpectSameFailure(results, absl::StatusCode::kInvalidArgument, {"'odd'", impossible.word});
  }
}

TEST_P(CommunicatorFailures, MoreInFlightThanPromisedIsAnErrorOnAllRanks) {
  const Stopwatch stopwatch;
  const auto results = OnEachRank([&](Communicator& communicator) {
    Part part(world_size());
    absl::Status status;
    for (int i = 0; i <= Communicator::kMaxInFlight; ++i) {
      status.Update(communicator.Start(part.AllReduce("many"), nullptr));
    }
    status.Update(communicator.Finish(part.AllReduce("many"), nullptr));
    return status;
  });
  ExpectSameFailure(results, absl::StatusCode::kResourceExhausted, {"'many'"});
}

// What a rank owns is its own again as soon as it knows of the failure: it may free it while the
// others, who do not know yet, are in the middle of a sum. Here it is filled, and must stay so.
TEST_P(CommunicatorFailures, MemoryOfARankIsLeftAloneOnceItHasSeenAFailure) {
  constexpr int64_t kCount = 1 << 16;
  const std::byte mark{0xab};
  for (int round = 0; round < 30; ++round) {
    Connect(kPatient);
    std::vector<Memory<float>> memory(world_size(),
                                      Memory<float>(kCount, [](int64_t) { return 0.0f; }));
    std::atomic<int> finished{0};
    std::thread bystander([&] {
      // Not at a collective's end, where nothing could go wrong, but somewhere in it.
      while (finished.load() < round % 5 * world_size() + 1) std::this_thread::yield();
      communicator(0).Abort(absl::CancelledError("no more"));
    });
    OnEachRankOk([&](Communicator& communicator) {
      Memory<float>& own = memory[communicator.rank()];
      Collective collective{.kind = CollectiveKind::kAllReduce, .dtype = DT_FLOAT, .name = "a"};
      collective.in = own.data();
      collective.out = own.data();
      collective.count = kCount;
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
