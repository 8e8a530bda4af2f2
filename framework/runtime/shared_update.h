// SPDX-License-Identifier: Apache-2.0
//
// SharedUpdate and SharedProductUpdate: optimizer updates that all ranks divide among themselves,
// in three stages. Each rank reduces its share of the gradient over its domain; the share is
// reduced over the domains; each rank updates its share of the variables, for all ranks of its
// domain, piece by piece, while each piece is in the cache. If one domain has all ranks, the second
// stage is empty; else the pieces are updated as they arrive, perhaps before Finish is called.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_SHARED_UPDATE_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_SHARED_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/dtype.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/local_team.h"
#include "framework/runtime/product_rows.h"
#include "framework/runtime/share.h"

namespace mirrorflow {

// One rank's part of an update by a gradient that every rank has.
class SharedUpdate final : public TeamWork, Communicator::DomainWork {
 public:
  struct Description {
    std::string name = {};
    int sequence = -1;  // index among the collectives of a step
    // Unset: each rank already has the whole gradient.
    std::optional<Reduction> reduction = Reduction::kSum;
    DataType dtype = DT_FLOAT;
    int64_t count = 0;
    size_t num_variables = 1;
    int urgency = 0;  // as in DomainShare
  };
  // Updates elements [first, first + count) of the variables; `gradient` has only these elements.
  // It may be called in any call of the rank on its communicator, from Start to Finish.
  using Apply = std::function<void(int64_t first, const void* gradient, int64_t count)>;
  SharedUpdate(Description description, Apply apply);
  SharedUpdate(const SharedUpdate&) = delete;  // other ranks hold its address
  SharedUpdate& operator=(const SharedUpdate&) = delete;

  // `gradient` and each of the variables have [count] elements. The variables are equal on all
  // ranks before and after; all ranks of a domain may share their memory. A null communicator is a
  // world of one rank.
  absl::Status Start(Communicator* communicator, const void* gradient,
                     absl::Span<std::byte* const> variables);
  absl::Status Finish(Communicator* communicator);

  std::string ToString() const override;

 private:
  bool GoesOverDomains(const Communicator& communicator) const {
    return what_.reduction.has_value() && communicator.num_domains() > 1;
  }
  // Updates this rank's share by the gradients of one domain that has all ranks.
  void RunShare(absl::Span<const TeamMemory> ranks);
  // Updates a part of the share, and copies it to the variables of other ranks.
  void Update(int64_t first, const void* gradient, int64_t count);
  void FindOthers(absl::Span<const TeamMemory> ranks);

  const TeamOffer& offer() const override { return offer_; }
  std::variant<Communicator::DomainShare, Communicator::DomainPart> Prepare(
      absl::Span<const TeamMemory> ranks) override;
  void Take(int64_t first, const void* values, int64_t count) override;

  const Description what_;
  const Apply apply_;
  const int64_t element_bytes_;
  TeamOffer offer_;
  Share own_;                       // of the elements
  std::vector<const void*> ins_;    // the gradient of each rank
  std::vector<std::byte*> others_;  // where else each variable is, by rank and variable
  std::vector<std::byte> share_;    // of the gradient, while it is reduced over the domains
};

// One rank's part of an update by the product aᵀ · b, whose rows are distributed over the ranks.
// With several domains, each gets the rows of the others and computes the whole product.
class SharedProductUpdate final : public TeamWork, Communicator::DomainWork {
 public:
  struct Description {
    std::string name = {};
    int sequence = -1;  // index among the collectives of a step
    DataType dtype = DT_FLOAT;
    int64_t rows = 0;                  // of a variable: columns of a
    int64_t row_bytes = 0;             // of a row of a variable
    std::vector<int64_t> counts = {};  // by rank: its number of rows of a and b
    size_t num_variables = 1;
    int urgency = 0;  // as in DomainPart
  };
  // Updates rows [first, last) of the variables. `parts` has the rows of a and b of all ranks.
  // Called in Finish.
  using Apply =
      std::function<void(absl::Span<const ProductRows> parts, int64_t first, int64_t last)>;
  SharedProductUpdate(Description description, Apply apply);
  SharedProductUpdate(const SharedProductUpdate&) = delete;  // other ranks hold its address
  SharedProductUpdate& operator=(const SharedProductUpdate&) = delete;

  // With several domains, the rows may be overwritten after Start.
  absl::Status Start(Communicator* communicator, const void* a, const void* b,
                     absl::Span<std::byte* const> variables);
  absl::Status Finish(Communicator* communicator);

  std::string ToString() const override;

 private:
  // Updates this rank's share of the rows of the variables.
  void RunShare(absl::Span<const TeamMemory> ranks);
  int64_t RowBytesOfA() const {
    return what_.rows * static_cast<int64_t>(DataTypeSize(what_.dtype));
  }
  void CopyOwnRows();

  const TeamOffer& offer() const override { return offer_; }
  std::variant<Communicator::DomainShare, Communicator::DomainPart> Prepare(
      absl::Span<const TeamMemory> ranks) override;
  void Complete(absl::Span<const TeamMemory> ranks) override { RunShare(ranks); }

  const Description what_;
  const Apply apply_;
  TeamOffer offer_;
  Communicator* communicator_ = nullptr;  // since Start
  std::vector<ProductRows> parts_;        // by rank, while Finish runs
  // With several domains: the rows of a, then those of b, of each rank whose memory is elsewhere,
  // and of this one.
  std::vector<std::vector<std::byte>> rows_;
  std::vector<absl::Span<std::byte>> others_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_SHARED_UPDATE_H_
