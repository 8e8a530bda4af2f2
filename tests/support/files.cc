// SPDX-License-Identifier: Apache-2.0
#include "tests/support/files.h"

#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"

namespace mirrorflow {

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (int value : values) bytes += static_cast<char>(value);
  return bytes;
}

std::string Gzip(absl::string_view contents) {
  z_stream stream = {};
  MF_CHECK(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, contents.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  stream.avail_in = contents.size();
  stream.next_out = reinterpret_cast<Bytef*>(&out[0]);
  stream.avail_out = out.size();
  MF_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string TemporaryPath(absl::string_view name) {
  return absl::StrCat(::testing::TempDir(), "/", name);
}

std::string WriteTemporary(absl::string_view name, absl::string_view contents) {
  const std::string path = TemporaryPath(name);
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(contents.data(), contents.size());
  return path;
}

}  // namespace mirrorflow
