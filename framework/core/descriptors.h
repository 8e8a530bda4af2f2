// SPDX-License-Identifier: Apache-2.0
//
// Raises the limit on open files. Shells set it to about 1,000, which is too low for a large
// cluster. Only this file changes the limit.
//
//   MF_RETURN_IF_ERROR(EnsureDescriptors("connections for data", peers * connections));
#ifndef MIRRORFLOW_FRAMEWORK_CORE_DESCRIPTORS_H_
#define MIRRORFLOW_FRAMEWORK_CORE_DESCRIPTORS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// How many descriptors EnsureDescriptors leaves for files that the process opens later.
inline constexpr int64_t kSpareDescriptors = 256;

// Ensures that `needed` more files can be opened, raising the process's soft limit if necessary. If
// the hard limit allows, leaves room for `spare` further files. Never lowers the limit. Returns
// ResourceExhausted if the hard limit is too low for `needed`; the message begins with `what` and
// names the limit that suffices.
//
// Call it before using libraries that abort or hang without descriptors, and before work that would
// otherwise fail halfway. It reserves nothing: two threads can count the same free descriptors.
absl::Status EnsureDescriptors(absl::string_view what, int64_t needed,
                               int64_t spare = kSpareDescriptors);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_DESCRIPTORS_H_
