// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/failure.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace mirrorflow {
namespace {

constexpr char kPayloadType[] = "mirrorflow/failure";
constexpr char kCollectivesType[] = "mirrorflow/collectives_by_worker";
constexpr char kNumericErrorType[] = "mirrorflow/numeric";
constexpr char kFinalErrorType[] = "mirrorflow/final";

// The numbers precede the name, because the name can contain any character.
std::string Encode(const Failure& f) {
  return absl::StrCat(f.rank, " ", f.worker, " ", f.step, " ", f.sequence, " ", f.name);
}

// Ignores malformed payloads, which can come from another process.
std::optional<Failure> Decode(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 4));
  Failure f;
  if (parts.size() != 5 || !absl::SimpleAtoi(parts[0], &f.rank) ||
      !absl::SimpleAtoi(parts[1], &f.worker) || !absl::SimpleAtoi(parts[2], &f.step) ||
      !absl::SimpleAtoi(parts[3], &f.sequence)) {
    return std::nullopt;
  }
  f.name = parts[4];
  return f;
}

}  // namespace

std::string Failure::ToString() const {
  std::vector<std::string> parts;
  if (rank >= 0) parts.push_back(absl::StrCat("rank ", rank));
  if (worker >= 0) parts.push_back(absl::StrCat("worker ", worker));
  if (step >= 0) parts.push_back(absl::StrCat("step ", step));
  if (sequence >= 0) parts.push_back(absl::StrCat("collective ", sequence));
  if (!name.empty()) parts.push_back(absl::StrCat("'", name, "'"));
  return absl::StrJoin(parts, ", ");
}

absl::Status WithFailure(absl::Status status, const Failure& failure) {
  if (status.ok()) return status;
  Failure merged = FailureOf(status).value_or(Failure());
  if (merged.rank < 0) merged.rank = failure.rank;
  if (merged.worker < 0) merged.worker = failure.worker;
  if (merged.step < 0) merged.step = failure.step;
  if (merged.sequence < 0) merged.sequence = failure.sequence;
  if (merged.name.empty()) merged.name = failure.name;
  status.SetPayload(kPayloadType, absl::Cord(Encode(merged)));
  return status;
}

std::optional<Failure> FailureOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadType);
  return payload.has_value() ? Decode(std::string(*payload)) : std::nullopt;
}

bool IsLostWorker(const absl::Status& status) {
  constexpr absl::StatusCode kCodes[] = {absl::StatusCode::kUnavailable,
                                         absl::StatusCode::kDeadlineExceeded,
                                         absl::StatusCode::kAborted, absl::StatusCode::kCancelled};
  return absl::c_linear_search(kCodes, status.code()) && !IsNumericError(status) &&
         !status.GetPayload(kFinalErrorType).has_value() &&
         FailureOf(status).value_or(Failure()).worker >= 0;
}

absl::Status WithCollectives(absl::Status status, const CollectivesByWorker& collectives) {
  if (status.ok()) return status;
  status.SetPayload(kCollectivesType,
                    absl::Cord(absl::StrJoin(collectives, " ", absl::PairFormatter(":"))));
  return status;
}

CollectivesByWorker CollectivesOf(const absl::Status& status) {
  CollectivesByWorker collectives;
  const auto payload = status.GetPayload(kCollectivesType);
  if (!payload.has_value()) return collectives;
  const std::string text(*payload);
  for (const absl::string_view pair : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(pair, absl::MaxSplits(':', 1));
    int worker;
    uint64_t count;
    if (absl::SimpleAtoi(parts.first, &worker) && absl::SimpleAtoi(parts.second, &count)) {
      collectives[worker] = count;
    }
  }
  return collectives;
}

absl::Status NumericError(absl::Status status) {
  if (!status.ok()) status.SetPayload(kNumericErrorType, absl::Cord("1"));
  return status;
}

bool IsNumericError(const absl::Status& status) {
  return status.GetPayload(kNumericErrorType).has_value();
}

absl::Status FinalError(absl::Status status) {
  if (!status.ok()) status.SetPayload(kFinalErrorType, absl::Cord("1"));
  return status;
}

}  // namespace mirrorflow
