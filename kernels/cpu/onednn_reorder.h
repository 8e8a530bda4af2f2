// SPDX-License-Identifier: Apache-2.0
//
// Reorder: copies a matrix or filter to the layout that a primitive reads, or back.
#ifndef MIRRORFLOW_KERNELS_CPU_ONEDNN_REORDER_H_
#define MIRRORFLOW_KERNELS_CPU_ONEDNN_REORDER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dnnl.hpp"
#include "framework/runtime/device.h"
#include "framework/runtime/kernel.h"
#include "kernels/cpu/onednn_filter.h"
#include "kernels/cpu/onednn_primitive.h"

namespace mirrorflow::onednn {

class Reorder {
 public:
  // Return a null `Ptr` if the layouts are equal. `key` identifies the layouts.
  using Ptr = std::shared_ptr<const Reorder>;
  static absl::StatusOr<Ptr> Create(const std::string& key, const dnnl::memory::desc& from,
                                    const dnnl::memory::desc& to);
  // `from` is the filter's layout in the graph, possibly restricted to some output channels.
  static absl::StatusOr<Ptr> OfFilter(const std::string& key, const dnnl::memory::desc& from,
                                      const dnnl::memory::desc& to);

  const dnnl::memory::desc& from() const { return from_; }
  const dnnl::memory::desc& to() const { return to_; }
  const dnnl::memory::desc& scratchpad() const { return scratchpad_; }
  absl::Status Run(Lane& lane, const void* from, void* to, void* scratchpad) const;

 private:
  Reorder(PrimitivePtr primitive, const std::optional<BlockedFilter>& blocks,
          const dnnl::memory::desc& from, const dnnl::memory::desc& to,
          const dnnl::memory::desc& scratchpad)
      : primitive_(std::move(primitive)),
        blocks_(blocks),
        from_(from),
        to_(to),
        scratchpad_(scratchpad) {}

  const PrimitivePtr primitive_;  // null if `blocks_` copies
  const std::optional<BlockedFilter> blocks_;
  const dnnl::memory::desc from_, to_, scratchpad_;
};

// Returns the form of input `input` that `reorder` makes. `key` identifies the reorder, and
// `transposed` means that the operand is stored as the transpose of what oneDNN describes.
OperandForm FormOf(int input, const std::string& key, const Reorder::Ptr& reorder, bool transposed);

}  // namespace mirrorflow::onednn

#endif  // MIRRORFLOW_KERNELS_CPU_ONEDNN_REORDER_H_
