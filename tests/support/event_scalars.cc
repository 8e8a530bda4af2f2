// SPDX-License-Identifier: Apache-2.0
#include "tests/support/event_scalars.h"

#include <cstdint>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/status.h"
#include "train/formats/tf_record.h"
#include "train/summary/event.pb.h"

namespace mirrorflow {

std::vector<std::string> EventScalars(const std::string& folder) {
  std::set<std::string> files;  // in order of time, because names begin with the time
  for (const auto& file : std::filesystem::directory_iterator(folder)) files.insert(file.path());
  std::vector<std::pair<int64_t, std::string>> scalars;
  for (const std::string& path : files) {
    const auto reader = TfRecordReader::Open(path);
    MF_CHECK(reader.ok());
    proto::Event event;
    // A killed process can leave a partial record at the end.
    for (std::string record; (*reader)->Next(&record).value_or(false);) {
      MF_CHECK(event.ParseFromString(record));
      if (event.session_log().status() == proto::SessionLog::START) {
        std::erase_if(scalars, [&](const auto& scalar) { return scalar.first >= event.step(); });
      }
      for (const auto& value : event.summary().value()) {
        scalars.emplace_back(event.step(),
                             absl::StrCat(event.step(), " ", value.tag(), " ",
                                          absl::StrFormat("%.9g", value.simple_value()),
                                          absl::CEscape(value.tensor().tensor_content())));
      }
    }
  }
  std::vector<std::string> texts;
  for (const auto& [step, text] : scalars) texts.push_back(text);
  return texts;
}

}  // namespace mirrorflow
