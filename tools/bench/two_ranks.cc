// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/two_ranks.h"

#include <utility>

#include "distribute/collective/team_communicator.h"
#include "framework/core/status.h"
#include "tools/bench/machine.h"

namespace mirrorflow {

TwoRanks::TwoRanks(std::vector<std::unique_ptr<Communicator>> communicators,
                   std::function<Work()> make_work)
    : communicators_(std::move(communicators)), work_(make_work()), follower_([this, make_work] {
        const PinnedTo core(1);
        const Work work = make_work();
        while (work(*communicators_[1]).ok()) {
        }
      }) {}

absl::StatusOr<std::unique_ptr<TwoRanks>> TwoRanks::Create(std::function<Work()> make_work) {
  MF_ASSIGN_OR_RETURN(auto communicators, CreateTeamCommunicators(2));
  return std::unique_ptr<TwoRanks>(new TwoRanks(std::move(communicators), std::move(make_work)));
}

TwoRanks::~TwoRanks() {
  communicators_[0]->Abort(absl::CancelledError("the benchmark is over"));
  follower_.join();
}

}  // namespace mirrorflow
