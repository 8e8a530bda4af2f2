// SPDX-License-Identifier: Apache-2.0
//
// TeamUpdate: one rank's part of an optimizer update (Update or ProductUpdate, communicator.h) in
// memory that its local team shares.
//
// An update by a gradient has three stages. Each rank reduces its shard of the gradient over its
// domain; the shard is reduced over the domains; each rank updates its shard of the variables, for
// all ranks of its domain, piece by piece, while each piece is in the cache. If one domain has all
// ranks, the second stage is empty. Otherwise the pieces are updated as they arrive, possibly
// before Finish is called.
//
// An update by a product divides the rows of the variables among the ranks of a domain. With
// several domains, each domain gets the other domains' rows of a and b and computes the whole
// product. Each rank receives the rows of the ranks whose partner it is (DomainPartners), in memory
// that all ranks of its domain read.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TEAM_UPDATE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TEAM_UPDATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "distribute/collective/domain_partners.h"
#include "distribute/collective/domain_work.h"
#include "distribute/collective/local_team.h"
#include "framework/runtime/communicator.h"

namespace mirrorflow {

// A collective that a rank has started but not finished, as its team and the other domains see it.
class CollectiveInFlight : public TeamWork, public DomainWork {
 public:
  const Collective& collective() const { return collective_; }
  const TeamOffer& offer() const final { return offer_; }
  std::string ToString() const final;

 protected:
  // Offers `collective`, with `out` as the memory that other ranks may write.
  void Offer(const Collective& collective, absl::Span<std::byte* const> out);

  Collective collective_;
  TeamOffer offer_;
};

// A rank's position in its team and in the world.
struct TeamPosition {
  int rank = 0;                   // in the world
  int index = 0;                  // in the team
  absl::Span<const int> members;  // world ranks of the team's members
  int world_size = 1;
  const DomainPartners* partners = nullptr;  // null if all ranks are in the team

  bool team_is_world() const { return static_cast<int>(members.size()) == world_size; }
};

class TeamUpdate : public CollectiveInFlight {
 public:
  // Prepares the update of `collective`, whose memory must stay valid until the update is finished.
  virtual absl::Status Hold(const Collective& collective) = 0;
  // Returns whether the update needs gradients or rows from other domains.
  virtual bool needs_domains() const = 0;
  // Returns whether Take applies data from other domains as it arrives. Otherwise RunShard applies
  // it, once all ranks of the domain have received their part.
  virtual bool updates_arrivals() const = 0;
  // Updates this rank's shard. REQUIRES: all data that it needs is in the team's memory.
  virtual void RunShard(absl::Span<const TeamMemory> ranks) = 0;
};

// The updates that a rank has in flight. Finished updates are reused for variables of the same
// size, because their buffers can be as large as the variables.
class TeamUpdates {
 public:
  // `team` allocates memory for the updates and must outlive them.
  TeamUpdates(const TeamPosition& position, LocalTeam* team) : position_(position), team_(*team) {}

  // REQUIRES: `collective` is an update.
  absl::StatusOr<TeamUpdate*> Start(const Collective& collective);
  // Returns the update that Start returned for `collective`; null if it is not in flight.
  TeamUpdate* Find(const Collective& collective) const;
  void Finish(TeamUpdate* update);

 private:
  using Idle = std::vector<std::unique_ptr<TeamUpdate>>;
  struct Started {
    std::unique_ptr<TeamUpdate> update;
    Idle* home;  // the list that Finish returns it to
  };

  const TeamPosition position_;
  LocalTeam& team_;
  // Keyed by whether the update is by product, and by the variable's size in bytes.
  std::map<std::pair<bool, int64_t>, Idle> idle_;
  std::vector<Started> in_flight_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TEAM_UPDATE_H_
