// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_MACHINE_H_
#define MIRRORFLOW_TOOLS_MACHINE_H_

#include <string>

namespace mirrorflow {

// `AMD EPYC (family 26, model 2), 24 GB, Linux 6.18.5, 2 cores`: where something was measured.
std::string DescribeMachine();

// `2.6.3`, of the oneDNN in this process; `none` without one.
std::string OneDnnVersion();

// Pins the calling thread to one core while it lives.
class PinnedTo {
 public:
  explicit PinnedTo(int core);
  ~PinnedTo();
  PinnedTo(const PinnedTo&) = delete;
  PinnedTo& operator=(const PinnedTo&) = delete;

 private:
  unsigned char before_[128];  // a cpu_set_t
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_MACHINE_H_
