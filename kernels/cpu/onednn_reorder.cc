// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/onednn_reorder.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow::onednn {

using dnnl::memory;

namespace {

constexpr int kOut = 0, kIn = 1, kHeight = 2, kWidth = 3;

// Returns the blocks of a filter, or nullopt for other layouts and for groups of channels.
std::optional<BlockedFilter> BlocksOf(const memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  const dnnl_blocking_desc_t& blocks = d.format_desc.blocking;
  if (d.format_kind != dnnl_blocked || d.extra.flags != dnnl_memory_extra_flag_none ||
      d.ndims != 4 || d.offset0 != 0 || blocks.inner_nblks < 1 || blocks.inner_nblks > 2) {
    return std::nullopt;
  }
  int64_t block[4] = {1, 1, 1, 1};
  for (int i = 0; i < blocks.inner_nblks; ++i) {
    if (block[blocks.inner_idxs[i]] != 1) return std::nullopt;
    block[blocks.inner_idxs[i]] = blocks.inner_blks[i];
  }
  for (int i = 0; i < d.ndims; ++i) {
    if (d.padded_dims[i] != (d.dims[i] + block[i] - 1) / block[i] * block[i]) return std::nullopt;
  }
  if (block[kHeight] != 1 || block[kWidth] != 1) return std::nullopt;
  return BlockedFilter{.height = d.dims[kHeight],
                       .width = d.dims[kWidth],
                       .in_channels = d.dims[kIn],
                       .out_channels = d.dims[kOut],
                       .in_block = block[kIn],
                       .out_block = block[kOut],
                       .in_is_innermost = blocks.inner_idxs[blocks.inner_nblks - 1] == kIn,
                       .height_stride = blocks.strides[kHeight],
                       .width_stride = blocks.strides[kWidth],
                       .in_stride = blocks.strides[kIn],
                       .out_stride = blocks.strides[kOut]};
}

// Identifies a layout, so that kernels for different batch sizes share a form. Returns `otherwise`
// for a layout that oneDNN does not describe by strides and blocks.
std::string LayoutKey(const memory::desc& desc, const std::string& otherwise) {
  const dnnl_memory_desc_t& d = desc.data;
  if (d.format_kind != dnnl_blocked || d.extra.flags != dnnl_memory_extra_flag_none) {
    return otherwise;
  }
  const dnnl_blocking_desc_t& blocks = d.format_desc.blocking;
  std::string key = "blocked";
  for (int i = 0; i < d.ndims; ++i) {
    absl::StrAppend(&key, " ", d.dims[i], "/", d.padded_dims[i], "*", blocks.strides[i]);
  }
  for (int i = 0; i < blocks.inner_nblks; ++i) {
    absl::StrAppend(&key, " ", blocks.inner_blks[i], "@", blocks.inner_idxs[i]);
  }
  return key;
}

}  // namespace

absl::StatusOr<Reorder::Ptr> Reorder::Create(const std::string& key, const memory::desc& from,
                                             const memory::desc& to) {
  if (from == to) return Ptr();
  MF_ASSIGN_OR_RETURN(
      PrimitivePtr primitive, Cached(key, [&] {
        const dnnl::reorder::primitive_desc pd(Engine(), from, Engine(), to, Attributes());
        return std::make_shared<const Primitive>(
            dnnl::reorder(pd),
            std::vector<Primitive::Arg>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, Scratchpad(pd)});
      }));
  const memory::desc scratchpad = primitive->desc(2);
  return Ptr(new Reorder(std::move(primitive), std::nullopt, from, to, scratchpad));
}

absl::StatusOr<Reorder::Ptr> Reorder::OfFilter(const std::string& key, const memory::desc& from,
                                               const memory::desc& to) {
  std::optional<BlockedFilter> blocks = BlocksOf(to);
  if (!blocks.has_value() || !blocks->CanCopy()) return Create(key, from, to);
  blocks->from_channels = from.data.format_desc.blocking.strides[kIn];
  blocks->from_channel = from.data.offset0;
  if (blocks->IsPlain()) return Ptr();
  return Ptr(new Reorder(nullptr, blocks, from, to, /*scratchpad=*/{}));
}

absl::Status Reorder::Run(Lane& lane, const void* from, void* to, void* scratchpad) const {
  if (primitive_ != nullptr) return primitive_->Run(lane, {from, to, scratchpad});
  blocks_->Copy(static_cast<const float*>(from), static_cast<float*>(to));
  return absl::OkStatus();
}

OperandForm FormOf(int input, const std::string& key, const Reorder::Ptr& reorder,
                   bool transposed) {
  Scratch scratch;
  scratch.Add(reorder->scratchpad());
  const int64_t bytes = scratch.bytes();
  const int64_t first = reorder->from().data.offset0;
  return {.input = input,
          .key = absl::StrCat(LayoutKey(reorder->to(), key), transposed ? " transposed" : "",
                              first > 0 ? absl::StrCat(" from ", first) : ""),
          .bytes = static_cast<int64_t>(reorder->to().get_size()),
          .scratch_bytes = bytes,
          .make = MakeKernel([reorder, bytes](const KernelArgs& args, Lane& lane) {
            return reorder->Run(lane, args.input<float>(0), args.output<float>(0),
                                Scratch::Start(args, bytes));
          })};
}

}  // namespace mirrorflow::onednn
