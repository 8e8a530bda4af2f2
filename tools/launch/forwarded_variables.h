// SPDX-License-Identifier: Apache-2.0
//
// The environment variables that `mirrorflow launch` sends to workers on other hosts.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_FORWARDED_VARIABLES_H_
#define MIRRORFLOW_TOOLS_LAUNCH_FORWARDED_VARIABLES_H_

#include <map>
#include <set>
#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Whether a variable is sent to other hosts and, if not, why not.
enum class Forwarding {
  kForwarded,
  kHostSpecific,  // describes this host or the user's session on it
  kSecret,        // its name looks like the name of a secret
};
// Decides by the variable's name. Variables that are neither host-specific nor secret are
// forwarded, because a program can need any of them: NCCL_*, OMP_* or variables that it defines
// itself.
Forwarding ForwardingOf(absl::string_view name);

// Returns the variables of `environment` that are forwarded by name or are in `added`.
// `environment` is a null-terminated array of NAME=VALUE strings.
std::map<std::string, std::string> ForwardedVariables(const char* const* environment,
                                                      const std::set<std::string>& added);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_FORWARDED_VARIABLES_H_
