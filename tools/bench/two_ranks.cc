// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/two_ranks.h"

#include <thread>
#include <utility>
#include <vector>

#include "distribute/collective/team_communicator.h"
#include "framework/core/status.h"
#include "tools/bench/machine.h"

namespace mirrorflow {
namespace {

class TwoRanks {
 public:
  TwoRanks(std::vector<std::unique_ptr<Communicator>> communicators,
           const std::function<RankWork()>& make_work)
      : communicators_(std::move(communicators)), work_(make_work()), follower_([this, make_work] {
          const PinnedTo core(1);
          const RankWork work = make_work();
          while (work(*communicators_[1]).ok()) {
          }
        }) {}
  ~TwoRanks() {
    communicators_[0]->Abort(absl::CancelledError("the benchmark is over"));
    follower_.join();
  }
  absl::Status Run() { return work_(*communicators_[0]); }

 private:
  const std::vector<std::unique_ptr<Communicator>> communicators_;
  const RankWork work_;
  std::thread follower_;
};

}  // namespace

absl::StatusOr<Side> MakeTwoRankSide(const std::function<RankWork()>& make_work) {
  MF_ASSIGN_OR_RETURN(auto communicators, CreateTeamCommunicators(2));
  const auto ranks = std::make_shared<TwoRanks>(std::move(communicators), make_work);
  return [work = MakeSide([ranks] { return ranks->Run(); })](double round_ms) {
    const PinnedTo core(0);
    return work(round_ms);
  };
}

}  // namespace mirrorflow
