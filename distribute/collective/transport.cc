// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/transport.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

std::string Describe(const MessageTag& tag, size_t bytes) {
  const bool only_reads = tag.step >> 63 != 0;  // StreamOfRun
  return absl::StrCat(bytes, " bytes of collective ", tag.sequence,
                      only_reads ? " in reading step " : " in step ",
                      tag.step & ~(uint64_t{1} << 63));
}

}  // namespace

absl::Status UnexpectedMessage(int rank, const MessageTag& expected, size_t expected_bytes,
                               const MessageTag& got, size_t got_bytes) {
  if (expected.sequence == 0) {
    return WithFailure(absl::InvalidArgumentError(absl::StrCat(
                           "rank ", rank, " sends more than expected: ", Describe(got, got_bytes))),
                       {.rank = rank});
  }
  const bool same_position = expected.step == got.step && expected.sequence == got.sequence;
  const bool same_work = expected.fingerprint == got.fingerprint;
  return WithFailure(
      absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank, " runs another collective; expected ", Describe(expected, expected_bytes),
          " from it, got ", Describe(got, got_bytes),
          same_position && !same_work ? ", which differs in its name, kind, dtype or counts" : "")),
      {.rank = rank});
}

}  // namespace mirrorflow
