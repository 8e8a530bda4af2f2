// SPDX-License-Identifier: Apache-2.0
//
// Reads event files without library code: decodes framing, checksums and wire format as the
// documentation of TensorFlow and protobuf describes them.
#ifndef MIRRORFLOW_TESTS_TRAIN_SUMMARY_EVENT_FILE_H_
#define MIRRORFLOW_TESTS_TRAIN_SUMMARY_EVENT_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// A protobuf message, decoded from its wire format.
class WireMessage {
 public:
  // Decodes `bytes`. Fails the test if they are malformed.
  explicit WireMessage(absl::string_view bytes);

  bool Has(int field) const { return fields_.count(field) != 0; }
  std::vector<std::string> All(int field) const;  // values of a repeated field
  std::string String(int field) const;            // the last value; "" if there is none
  WireMessage Message(int field) const { return WireMessage(String(field)); }
  int64_t Int(int field) const;  // 0 if there is no value
  float Float(int field) const;
  double Double(int field) const;
  std::vector<double> PackedDoubles(int field) const;

 private:
  std::map<int, std::vector<std::string>> fields_;  // numbers are stored as bytes
};

// Returns the records of a TFRecord file. Fails the test for a wrong checksum and, unless
// `is_growing` (another thread is writing the file), for an incomplete last record.
std::vector<WireMessage> ReadEvents(const std::string& path, bool is_growing = false);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TRAIN_SUMMARY_EVENT_FILE_H_
