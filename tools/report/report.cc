// SPDX-License-Identifier: Apache-2.0
#include "tools/report/report.h"

#include <filesystem>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "tools/report/page.h"
#include "tools/report/read_run.h"

ABSL_FLAG(std::string, html, "", "report: the page; default: report.html in the directory");

namespace mirrorflow {

absl::Status WriteReport(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  if (args.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("report: expected the directory of one run, got ", args.size(), " arguments"));
  }
  MF_RETURN_IF_ERROR(CheckOutputFlag("html", absl::GetFlag(FLAGS_html)));
  *code = kExitBadInput;
  MF_ASSIGN_OR_RETURN(const RunData run, ReadRun(args[0]));
  const std::filesystem::path directory = std::filesystem::path(args[0]).lexically_normal();
  std::string path = absl::GetFlag(FLAGS_html);
  if (path.empty()) path = (directory / "report.html").string();
  std::error_code ignored;
  std::filesystem::path whole = std::filesystem::absolute(directory, ignored);
  if (!whole.has_filename()) whole = whole.parent_path();  // `runs/a/` is `runs/a`
  MF_RETURN_IF_ERROR(WriteFileAtomically(path, {ReportPage(whole.filename().string(), run)}));
  PrintLine(path);
  return absl::OkStatus();
}

}  // namespace mirrorflow
