// SPDX-License-Identifier: Apache-2.0
//
// SharedUpdate and SharedProductUpdate: optimizer updates that all ranks divide among themselves,
// in three stages. Each rank reduces its share of the gradient over its domain; the share is
// reduced over the domains; each rank updates its share of the variables, for all ranks of its
// domain. If one domain has all ranks, the second stage is empty, and the others run piece by
// piece, while each piece is in the cache.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_SHARED_UPDATE_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_SHARED_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/dtype.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/local_team.h"
#include "framework/runtime/product_rows.h"

namespace mirrorflow {

// One rank's part of an update by a gradient that every rank has.
class SharedUpdate final : public TeamWork {
 public:
  struct Description {
    std::string name = {};
    int sequence = -1;  // index among the collectives of a step
    // Unset: each rank already has the whole gradient.
    std::optional<Reduction> reduction = Reduction::kSum;
    DataType dtype = DT_FLOAT;
    int64_t count = 0;
    size_t num_variables = 1;
  };
  explicit SharedUpdate(Description description);
  SharedUpdate(const SharedUpdate&) = delete;  // other ranks hold its address
  SharedUpdate& operator=(const SharedUpdate&) = delete;

  // Updates elements [first, first + count) of the variables; `gradient` has only these elements.
  using Apply = absl::FunctionRef<void(int64_t first, const void* gradient, int64_t count)>;

  // `gradient` and each of the variables have [count] elements. The variables are equal on all
  // ranks before and after; all ranks of a domain may share their memory. A null communicator is a
  // world of one rank.
  absl::Status Start(Communicator* communicator, const void* gradient,
                     absl::Span<std::byte* const> variables);
  absl::Status Finish(Communicator* communicator, Apply apply);

  std::string ToString() const override;

 private:
  absl::Status RunShare(Communicator& communicator, absl::Span<const TeamMemory> ranks,
                        Apply apply);

  const Description what_;
  const int64_t element_bytes_;
  TeamOffer offer_;
  std::vector<const void*> ins_;  // the memory of each rank, while Finish runs
  std::vector<std::byte> share_;  // of the gradient, while it is reduced over the domains
};

// One rank's part of an update by the product aᵀ · b, whose rows are distributed over the ranks.
// Start returns FailedPrecondition unless one domain has all ranks.
class SharedProductUpdate final : public TeamWork {
 public:
  struct Description {
    std::string name = {};
    int sequence = -1;  // index among the collectives of a step
    DataType dtype = DT_FLOAT;
    int64_t rows = 0;                  // of a variable: columns of a
    int64_t row_bytes = 0;             // of a row of a variable
    std::vector<int64_t> counts = {};  // by rank: its number of rows of a and b
    size_t num_variables = 1;
  };
  explicit SharedProductUpdate(Description description);
  SharedProductUpdate(const SharedProductUpdate&) = delete;  // other ranks hold its address
  SharedProductUpdate& operator=(const SharedProductUpdate&) = delete;

  // Updates rows [first, last) of the variables. `parts` has the rows of a and b of all ranks.
  using Apply =
      absl::FunctionRef<void(absl::Span<const ProductRows> parts, int64_t first, int64_t last)>;

  absl::Status Start(Communicator* communicator, const void* a, const void* b,
                     absl::Span<std::byte* const> variables);
  absl::Status Finish(Communicator* communicator, Apply apply);

  std::string ToString() const override;

 private:
  const Description what_;
  TeamOffer offer_;
  std::vector<ProductRows> parts_;  // the rows of each rank, while Finish runs
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_SHARED_UPDATE_H_
