// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/first_failure.h"

#include <algorithm>

#include "framework/core/mutex.h"
#include "framework/runtime/status_proto.h"

namespace mirrorflow {
namespace {

// The longest message, in bytes. Leaves room for the payloads in Text.
constexpr size_t kMaxMessage = 12 << 10;

void Write(const absl::Status& status, FirstFailure::Text* text) {
  proto::Status proto = StatusToProto(status);
  if (proto.message().size() > kMaxMessage) proto.mutable_message()->resize(kMaxMessage);
  if (proto.ByteSizeLong() > sizeof(text->bytes)) proto.clear_payloads();
  text->size = static_cast<uint32_t>(proto.ByteSizeLong());
  proto.SerializeToArray(text->bytes, sizeof(text->bytes));
}

absl::Status Read(const FirstFailure::Text& text) {
  proto::Status proto;
  const size_t size = std::min<size_t>(text.size, sizeof(text.bytes));
  if (proto.ParseFromArray(text.bytes, static_cast<int>(size)) && proto.code() != 0) {
    return StatusFromProto(proto);
  }
  return absl::InternalError("another process failed but left no readable reason");
}

}  // namespace

void FirstFailure::Set(const absl::Status& why) {
  MutexLock lock(&mu_);
  if (shared_.setter.load(std::memory_order_acquire) != 0) return;
  const absl::Status failure = why.ok() ? absl::AbortedError("aborted without a reason") : why;
  Write(failure, &texts_[process_]);
  int none = 0;
  if (shared_.setter.compare_exchange_strong(none, process_ + 1)) known_ = failure;
}

absl::Status FirstFailure::Get() const {
  const int setter = shared_.setter.load(std::memory_order_acquire);
  if (setter == 0) return absl::OkStatus();
  MutexLock lock(&mu_);
  if (known_.ok()) known_ = Read(texts_[setter - 1]);
  return known_;
}

}  // namespace mirrorflow
