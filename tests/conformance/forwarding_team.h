// SPDX-License-Identifier: Apache-2.0
//
// A LocalTeam that forwards every call to another team. Tests override the calls that they watch or
// redirect.
#ifndef MIRRORFLOW_TESTS_CONFORMANCE_FORWARDING_TEAM_H_
#define MIRRORFLOW_TESTS_CONFORMANCE_FORWARDING_TEAM_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "distribute/collective/local_team.h"

namespace mirrorflow {

class ForwardingTeam : public LocalTeam {
 public:
  explicit ForwardingTeam(std::shared_ptr<LocalTeam> team) : team_(std::move(team)) {}
  int rank() const override { return team_->rank(); }
  int size() const override { return team_->size(); }
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) override {
    return team_->Allocate(bytes);
  }
  absl::Status Start(const TeamOffer& offer) override { return team_->Start(offer); }
  absl::StatusOr<bool> Begin(const TeamOffer& offer, bool waits, Work work) override {
    return team_->Begin(offer, waits, work);
  }
  absl::Status Access(absl::FunctionRef<absl::Status()> access) override {
    return team_->Access(access);
  }
  absl::Status Meet(const TeamOffer& offer, Work work) override { return team_->Meet(offer, work); }
  absl::Status Finish(const TeamOffer& offer, Work work) override {
    return team_->Finish(offer, work);
  }
  absl::Status status() const override { return team_->status(); }
  void Abort(absl::Status why) override { team_->Abort(std::move(why)); }

 private:
  const std::shared_ptr<LocalTeam> team_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_CONFORMANCE_FORWARDING_TEAM_H_
