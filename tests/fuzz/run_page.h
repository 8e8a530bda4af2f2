// SPDX-License-Identifier: Apache-2.0
//
// CheckPageOf checks what must hold for every run that `mirrorflow report` reads, whatever its
// files contain.
#ifndef MIRRORFLOW_TESTS_FUZZ_RUN_PAGE_H_
#define MIRRORFLOW_TESTS_FUZZ_RUN_PAGE_H_

#include "framework/core/status.h"
#include "tests/tools/report/well_formed.h"
#include "tools/report/report.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

inline void CheckPageOf(RunData run) {
  for (const auto& [name, points] : run.series) {
    for (size_t i = 1; i < points.size(); ++i) MF_CHECK(points[i - 1].step < points[i].step);
  }
  std::erase_if(run.series, [](const auto& series) { return series.second.empty(); });
  MF_CHECK(WellFormed(ReportPage("run", run)).empty());
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FUZZ_RUN_PAGE_H_
