// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/manifest.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "framework/core/crc32c.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

CheckpointManifest Example() {
  CheckpointManifest m;
  m.step = 400;
  m.epoch = 1;
  m.batch = 160;
  m.session_step = 401;
  m.seed = ~uint64_t{0};
  m.num_workers = 2;
  m.num_replicas = 4;
  m.time = "2026-11-25T01:02:03+00:00";
  m.settings = {{"global_batch_size", "250"}, {"quoted \"name\"", "ä\n"}};
  m.reading_step = 3;
  m.state = {{"fit/epoch_loss/sum", "inf"}, {"callbacks/quoted \"name\"/best", "ä\n"}};
  m.variables.name = "variables.safetensors";
  m.variables.bytes = 5359040;
  m.variables.header_bytes = 1384;
  m.variables.header_crc32c = 0x0123abcd;
  m.variables.tensors["dense/kernel"] = {DT_FLOAT, {784, 512}, 0xa2603f3d};
  m.variables.tensors["step"] = {DT_INT64, {}, 7};
  m.state_tensors.name = "state.safetensors";
  m.state_tensors.bytes = 90;
  m.state_tensors.header_bytes = 80;
  m.state_tensors.header_crc32c = 0x4567ef01;
  m.state_tensors.tensors["parts/1/sum"] = {DT_DOUBLE, {}, 9};
  return m;
}

// Returns a manifest with this body and its correct checksum.
std::string Framed(const std::string& body) {
  return absl::StrFormat("{\"crc32c\":\"%08x\",\"manifest\":%s}\n", Crc32c(body), body);
}

std::string BodyOf(const std::string& text) {
  const std::string begin = "\"manifest\":";
  const size_t at = text.find(begin) + begin.size();
  return text.substr(at, text.size() - at - 2);
}

TEST(ManifestTest, TextRoundTrips) {
  const std::string text = FormatManifest(Example());
  EXPECT_EQ(Framed(BodyOf(text)), text);
  const auto parsed = ParseManifest(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, Example());
}

TEST(ManifestTest, EveryTruncationAndEveryFlippedBitIsDetected) {
  const std::string text = FormatManifest(Example());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(ParseManifest(text.substr(0, size)).status().code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(ParseManifest(text + " ").status().code(), absl::StatusCode::kDataLoss);
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    const auto parsed = ParseManifest(flipped);
    // A flip that only changes the case of a hexadecimal digit is harmless.
    if (parsed.ok()) {
      EXPECT_EQ(*parsed, Example());
    }
  }
}

TEST(ManifestTest, WrongFieldIsNamed) {
  const std::string body = BodyOf(FormatManifest(Example()));
  const struct {
    const char *from, *to, *message;
  } cases[] = {
      {"\"step\":400", "\"step\":-1", "step: expected an integer from 0"},
      {"\"step\":400", "\"step\":1e30", "step: expected an integer"},
      {"\"step\":400", "\"step\":18446744073709551615", "step: expected an integer"},
      {"\"step\":400", "\"other\":400", "step: missing"},
      {"\"num_workers\":2", "\"num_workers\":4294967296", "num_workers: expected"},
      {"\"version\":2", "\"version\":3", "version 1 to 2, got 'mirrorflow checkpoint', version 3"},
      {"\"reading_step\":3", "\"x\":3", "reading_step: missing"},
      {"\"inf\"", "3", "state: expected only strings"},
      {"state.safetensors", "../x", "illegal file name"},
      {"state_tensors\":[", "x\":[", "state_tensors: missing"},
      {"\"double\"", "\"doubles\"", "state_tensors[0].dtype"},
      {"variables.safetensors", "../x", "illegal file name"},
      {"variables.safetensors", "/etc/passwd", "illegal file name"},
      {"variables.safetensors", ".hidden", "illegal file name"},
      {"variables.safetensors", "a\\u0000b", "illegal file name"},
      {"variables.safetensors", "a\\nb", "illegal file name"},
      {"variables.safetensors", "", "illegal file name"},
      {"0123abcd", "0123abcg", "data.header_crc32c: expected 8 hexadecimal digits"},
      {"\"settings\":{", "\"settings\":[", "expected JSON"},
      {"\"int64\"", "\"int65\"", "tensors[1].dtype"},
      {"[784,512]", "[784,-512]", "tensors[0].shape"},
      {"[784,512]", "{}", "tensors[0].shape: expected an array"},
      {"\"name\":\"step\"", "\"name\":\"dense/kernel\"", "a second tensor 'dense/kernel'"},
      {"\"time\":\"", "\"time\":7,\"x\":\"", "time: expected a string"},
  };
  for (const auto& c : cases) {
    const std::string changed = absl::StrReplaceAll(body, {{c.from, c.to}});
    ASSERT_NE(changed, body) << c.from;
    const auto parsed = ParseManifest(Framed(changed));
    EXPECT_THAT(parsed.status(), IsError(absl::StatusCode::kDataLoss, c.message)) << c.to;
  }
  EXPECT_THAT(ParseManifest(Framed(std::string(1'000'000, '['))).status(),
              IsError(absl::StatusCode::kDataLoss, "nested"));
  EXPECT_THAT(ParseManifest(Framed("null")).status(),
              IsError(absl::StatusCode::kDataLoss, "an object"));
}

}  // namespace
}  // namespace mirrorflow
