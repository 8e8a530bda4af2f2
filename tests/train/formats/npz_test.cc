// SPDX-License-Identifier: Apache-2.0
#include "train/formats/npz.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "train/formats/npy.h"
#include "train/formats/zip.h"

namespace mirrorflow {
namespace {

using Arrays = std::map<std::string, Tensor>;

absl::StatusOr<Arrays> Read(absl::string_view contents) {
  return ReadNpz(WriteTemporary("arrays.npz", contents));
}

absl::Status Error(absl::string_view contents) {
  absl::Status error = Read(contents).status();
  EXPECT_THAT(std::string(error.message()), testing::StartsWith(TemporaryPath("arrays.npz: ")));
  return error;
}

bool Identical(const Arrays& a, const Arrays& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](auto& x, auto& y) {
           return x.first == y.first && Tensor::Identical(x.second, y.second);
         });
}

// Returns what numpy.savez_compressed of NumPy 2.4.6 writes for ArraysByNumPy().
std::string FileByNumPy() {
  return absl::HexStringToBytes(
      "504b03042d0000000800000021004fe9002affffffffffffffff05001400772e6e7079010010009800000000"
      "00000055000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f5452"
      "9498179f5f94920a12774bcc294e058a17672416a402f91a463a0ac69a3a0ab50a64032e063068b007120e40"
      "04c40d40bcc00100504b03042d000000080000002100bc91558effffffffffffffff07001400612f622e6e70"
      "790100100098000000000000004d000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e93"
      "69a1aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91ac63a9a3a0ab50a14002e"
      "4606086082d2cc501a00504b01022d032d0000000800000021004fe9002a5500000098000000050000000000"
      "000000000000800100000000772e6e7079504b01022d032d000000080000002100bc91558e4d000000980000"
      "0007000000000000000000000080018c000000612f622e6e7079504b0506000000000200020068000000120100"
      "000000");
}

Arrays ArraysByNumPy() {
  return {{"w", Tensor::Of<float>({2, 3}, {0, 1, 2, 3, 4, 5})},
          {"a/b", Tensor::Vector<int64_t>({1, 2, 3})}};
}

std::string FileByUs(const Arrays& arrays) {
  const std::string path = TemporaryPath("ours.npz");
  EXPECT_TRUE(WriteNpz(path, arrays).ok());
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Overwrites `file` with `bytes`, `offset` bytes after the start of occurrence `n` of `signature`.
std::string Patched(std::string file, absl::string_view signature, size_t offset,
                    absl::string_view bytes, int n = 0) {
  const std::string wanted(signature);
  size_t at = file.find(wanted);
  while (n-- > 0) at = file.find(wanted, at + 1);
  EXPECT_LE(at + offset + bytes.size(), file.size());
  return file.replace(at + offset, bytes.size(), std::string(bytes));
}

constexpr absl::string_view kLocal = "PK\x03\x04", kCentral = "PK\x01\x02", kEnd = "PK\x05\x06";
constexpr absl::string_view kEnd64 = "PK\x06\x06", kLocator = "PK\x06\x07";
constexpr absl::string_view kZero("\0\0\0\0\0\0\0\0", 8), kHuge("\xf0\xff\xff\xff", 4);

TEST(NpzTest, ReadsFileWrittenByNumPy) {
  const absl::StatusOr<Arrays> arrays = Read(FileByNumPy());
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  EXPECT_TRUE(Identical(*arrays, ArraysByNumPy()));
}

TEST(NpzTest, RoundTripsArrays) {
  Arrays arrays = {{"scalar", Tensor::Scalar<double>(2.5)},
                   {"layer/\xc3\xa9", Tensor::Vector<bool>({true, false})},
                   {"nothing", *Tensor::Allocate(DT_HALF, {0, 3})},
                   {"many", *Tensor::Allocate(DT_INT32, {300, 1000})}};
  int32_t i = 0;
  for (int32_t& x : arrays["many"].flat<int32_t>()) x = i++;
  for (const Arrays& each : {arrays, Arrays()}) {
    const absl::StatusOr<Arrays> read = Read(FileByUs(each));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(Identical(*read, each));
  }
}

TEST(NpzTest, AlignedUncompressedArraysAreMapped) {
  // The local header takes 50 bytes plus the name, so the name's length determines the array's
  // alignment.
  const Tensor floats = Tensor::Of<float>({2, 3}, {0, 1, 2, 3, 4, 5});
  for (const std::string name : {"aligned123", "a", "ab", "abc"}) {
    const std::string file = FileByUs({{name, floats}});
    const auto mapped = MapNpz(WriteTemporary("mapped.npz", file), {name});
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    EXPECT_TRUE(Tensor::Identical(mapped->front(), floats)) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(mapped->front().raw()) % alignof(float), 0u);
    // A change to the file shows whether an array is mapped. A mapped array has the new value; an
    // array that is read into memory fails its checksum.
    std::string changed = file;
    changed.replace(file.find("\xa0\x40") + 1, 1, "\x41");
    const auto again = MapNpz(WriteTemporary("mapped.npz", changed), {name});
    EXPECT_EQ(again.ok(), (50 + name.size() + 4) % 4 == 0) << name << again.status();
    if (again.ok()) {
      EXPECT_EQ(again->front().flat<float>()[5], 20.0f);
    }
  }
  const auto deflated = MapNpz(WriteTemporary("mapped.npz", FileByNumPy()), {"w", "a/b", "w"});
  ASSERT_TRUE(deflated.ok()) << deflated.status();
  EXPECT_TRUE(Tensor::Identical(deflated->at(0), ArraysByNumPy().at("w")));
  EXPECT_TRUE(Tensor::Identical(deflated->at(1), ArraysByNumPy().at("a/b")));
  EXPECT_TRUE(Tensor::Identical(deflated->at(2), ArraysByNumPy().at("w")));
  EXPECT_THAT(MapNpz(WriteTemporary("mapped.npz", "PK"), {}).status(),
              IsError(absl::StatusCode::kDataLoss, "mapped.npz: "));
}

TEST(NpzTest, AcceptsArchiveWithComment) {
  const std::string file =
      Patched(FileByNumPy(), kEnd, 20, absl::string_view("\x05\0", 2)) + "PK\x05\x06!";
  const absl::StatusOr<Arrays> arrays = Read(file);
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  EXPECT_TRUE(Identical(*arrays, ArraysByNumPy()));
}

TEST(NpzTest, TruncatedOrExtendedFileIsRejected) {
  for (const std::string& good : {FileByNumPy(), FileByUs(ArraysByNumPy())}) {
    for (size_t size = 0; size < good.size(); ++size)
      EXPECT_EQ(Error(good.substr(0, size)).code(), absl::StatusCode::kDataLoss) << size;
    EXPECT_THAT(Error(good + "x"), IsError(absl::StatusCode::kDataLoss, "end record"));
    EXPECT_THAT(Error("x" + good), IsError(absl::StatusCode::kDataLoss, "zip:"));
  }
}

TEST(NpzTest, FlippedBitIsDetectedOrHarmless) {
  const Arrays want = ArraysByNumPy();
  for (const std::string& good : {FileByNumPy(), FileByUs(want)}) {
    int errors = 0;
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
      const absl::StatusOr<Arrays> read = Read(bad);
      errors += !read.ok();
      EXPECT_TRUE(!read.ok() || Identical(*read, want)) << "byte " << i;
    }
    // Changes to versions, dates, attributes and fields that the central directory repeats are not
    // detected.
    EXPECT_GT(errors, static_cast<int>(good.size() / 2));
  }
}

TEST(NpzTest, RejectsInvalidArchives) {
  const std::string numpy = FileByNumPy(), ours = FileByUs(ArraysByNumPy());
  const absl::string_view one("\1\0\0\0", 4), two("\2\0", 2), three("\3\0", 2);
  const std::string twice =
      FileByUs({{"a", Tensor::Scalar<float>(1)}, {"b", Tensor::Scalar<float>(2)}});
  const struct {
    std::string file;
    const char* what;
    absl::StatusCode code = absl::StatusCode::kDataLoss;
  } kCases[] = {
      {"", "the file is empty"},
      {"\x93NUMBER and so on, but no array of arrays", "not a zip archive; expected an end record"},
      // End records.
      {Patched(numpy, kEnd, 4, one), "multi-disk archives", absl::StatusCode::kUnimplemented},
      {Patched(numpy, kEnd, 8, three), "multi-disk archives", absl::StatusCode::kUnimplemented},
      {Patched(numpy, kEnd, 10, two) + "x", "not a zip archive"},
      {Patched(numpy, kEnd, 12, kHuge),
       "the central directory ends at the wrong offset; expected 378"},
      {Patched(numpy, kEnd, 16, kZero.substr(0, 4)), "at the wrong offset"},
      {Patched(Patched(numpy, kEnd, 8, "\3"), kEnd, 10, "\3"), "the number of entries"},
      {Patched(Patched(numpy, kEnd, 8, "\1"), kEnd, 10, "\1"), "bytes after the last entry"},
      {Patched(ours, kLocator, 8, one), "the zip64 end locator"},
      {Patched(ours, kLocator, 16, kZero.substr(0, 4)), "the zip64 end locator"},
      {Patched(ours, kEnd64, 4, one), "the zip64 end record"},
      {Patched(ours, kEnd64, 24, "\1"), "the zip64 end record"},
      {Patched(ours, kEnd64, 40, "\xff\xff\xff\xff\xff\xff\xff\xff"), "at the wrong offset"},
      {numpy.substr(numpy.size() - 22), "at the wrong offset"},
      // Entries.
      {Patched(numpy, kCentral, 0, "PK\2\1"), "a wrong signature"},
      {Patched(numpy, kCentral, 8, "\1"), "the entry is encrypted",
       absl::StatusCode::kUnimplemented},
      {Patched(numpy, kCentral, 10, "\x0e"), "got 14", absl::StatusCode::kUnimplemented},
      {Patched(numpy, kCentral, 34, "\1"), "multi-disk archives", absl::StatusCode::kUnimplemented},
      {Patched(numpy, kCentral, 28, "\xff\xff"), "directory is cut short"},
      {Patched(numpy, kCentral, 42, one), "match the central directory"},
      {Patched(numpy, kCentral, 42, kHuge), "offset of the local header"},
      {Patched(numpy, kCentral, 16, one), "CRC-32; expected 1, got 2a00e94f"},
      {Patched(numpy, kCentral, 20, kHuge), "'w.npy': zip: the end"},
      {Patched(numpy, kCentral, 20, "\xff\xff\xff\xff"), "a zip64 field is missing"},
      {Patched(numpy, kCentral, 24, kHuge), "'w.npy': zip: the entry has"},
      {Patched(ours, kCentral, 10, "\x08", 1), "match the central directory"},
      {Patched(numpy, kLocal, 6, "\1"), "match the central directory"},
      {Patched(numpy, kLocal, 30, "v"), "match the central directory"},
      // Names. Both headers change, so they agree.
      {Patched(Patched(numpy, kLocal, 30, "../../"), kCentral, 46, "../.."), "got '../..'"},
      {Patched(Patched(numpy, kLocal, 30, "/"), kCentral, 46, "/"), "or a leading '/'"},
      {Patched(Patched(numpy, kLocal, 30, "\\"), kCentral, 46, "\\"), "backslash"},
      {Patched(Patched(numpy, kLocal, 30, "\xff"), kCentral, 46, "\xff"), "UTF-8 without NUL"},
      {Patched(Patched(numpy, kLocal, 30, kZero.substr(0, 1)), kCentral, 46, kZero.substr(0, 1)),
       "UTF-8 without NUL"},
      {Patched(Patched(twice, kLocal, 30, "a", 1), kCentral, 46, "a", 1),
       "'a.npy': zip: two entries"},
      {Patched(Patched(twice, kCentral, 46, "a", 1), kCentral, 46 + 5 + 20, kZero, 1),
       "two entries have"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(Error(c.file), IsError(c.code, c.what));
  }
}

TEST(NpzTest, RejectsOverlappingEntries) {
  // Makes the first entry longer, so that it covers the header of the second one. Both of its sizes
  // change, so they agree.
  const std::string file =
      FileByUs({{"a", Tensor::Scalar<float>(1)}, {"b", Tensor::Scalar<float>(2)}});
  std::string longer = Patched(file, kCentral, 46 + 5 + 4, "\x90");
  longer = Patched(longer, kCentral, 46 + 5 + 12, "\x90");
  EXPECT_THAT(Error(longer), IsError(absl::StatusCode::kDataLoss, "two entries overlap"));
}

TEST(NpzTest, RejectsEntriesWhoseSizesDoNotMatchTheirData) {
  const std::string numpy = FileByNumPy();
  // The size in the central directory is 0x98; one byte less and one byte more are both errors.
  EXPECT_THAT(Error(Patched(numpy, kCentral, 24, "\x97")),
              IsError(absl::StatusCode::kDataLoss, "24 bytes", "got 23"));
  EXPECT_THAT(Error(Patched(numpy, kCentral, 24, "\x99")),
              IsError(absl::StatusCode::kDataLoss, "24 bytes", "got 25"));
  EXPECT_THAT(Error(Patched(numpy, kCentral, 20, "\x54")),
              IsError(absl::StatusCode::kDataLoss, "zip:", "deflated data"));
  EXPECT_THAT(Error(Patched(numpy, kCentral, 20, "\x40")),
              IsError(absl::StatusCode::kDataLoss, "damaged"));
  // One extra byte follows the end of the last entry's stream.
  EXPECT_THAT(Error(Patched(numpy, kCentral, 20, "\x4c", 1)),
              IsError(absl::StatusCode::kDataLoss, "'a/b.npy': zip:", "deflated data"));
}

TEST(NpzTest, ErrorInArrayNamesArray) {
  // Changes the descr of the second array, which is stored without compression.
  std::string file = FileByUs({{"a", Tensor::Scalar<float>(1)}, {"b", Tensor::Scalar<float>(2)}});
  const size_t at = file.find("'<f4'", file.find("b.npy"));
  EXPECT_THAT(Error(file.replace(at, 5, "'|O' ")),
              IsError(absl::StatusCode::kUnimplemented, "'b.npy': descr:", "element type"));
}

// The archive has an entry of each unreadable kind, and a readable one.
TEST(NpzTest, UnreadableMemberIsReportedOnlyIfNamed) {
  const std::string file =
      FileByUs({{"good", Tensor::Vector<float>({1, 2})}, {"text", Tensor::Scalar<float>(3)}});
  const size_t descr = file.find("'<f4'", file.find("text.npy"));
  const std::string objects = std::string(file).replace(descr, 5, "'|O' ");
  const std::string strings = std::string(file).replace(descr, 5, "'<U1'");
  const std::string damaged = std::string(file).replace(descr - 8, 5, "!!!!!");
  const std::string encrypted = Patched(file, kCentral, 8, "\1", 1);
  const std::string zstd = Patched(file, kCentral, 10, "\x5d", 1);
  using Code = absl::StatusCode;
  for (const auto& [with, code] :
       std::vector<std::pair<std::string, Code>>{{objects, Code::kUnimplemented},
                                                 {strings, Code::kUnimplemented},
                                                 {damaged, Code::kDataLoss},
                                                 {encrypted, Code::kUnimplemented},
                                                 {zstd, Code::kUnimplemented}}) {
    const std::string path = WriteTemporary("mixed.npz", with);
    const auto good = MapNpz(path, {"good"});
    ASSERT_TRUE(good.ok()) << good.status();
    EXPECT_TRUE(Tensor::Identical(good->front(), Tensor::Vector<float>({1, 2})));
    EXPECT_THAT(*NpzNames(path), testing::ElementsAre("good", "text"));
    EXPECT_THAT(MapNpz(path, {"good", "text"}).status(), IsError(code, "mixed.npz: 'text.npy'"));
    const auto statuses = CheckNpz(path);
    ASSERT_TRUE(statuses.ok()) << statuses.status();
    EXPECT_THAT(*statuses,
                testing::ElementsAre(testing::Pair("good", absl::OkStatus()),
                                     testing::Pair("text", MapNpz(path, {"text"}).status())));
    EXPECT_THAT(ReadNpz(path).status(), IsError(code, "mixed.npz: 'text.npy'"));
  }
}

TEST(NpzTest, MembersWithoutArrayAreNotListed) {
  const std::string path = TemporaryPath("readme.npz");
  ASSERT_TRUE(WriteZip(path, {{"readme.txt", {"text"}}}).ok());
  EXPECT_THAT(NpzNames(path).status(),
              IsError(absl::StatusCode::kInvalidArgument, "a zip archive"));
  const Tensor one = Tensor::Scalar<float>(1);
  const std::string npy = TemporaryPath("one.npy");
  ASSERT_TRUE(WriteNpy(npy, one).ok());
  std::ifstream in(npy, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  ASSERT_TRUE(WriteZip(path, {{"readme.txt", {"text"}}, {"x.npy", {bytes}}}).ok());
  EXPECT_THAT(*NpzNames(path), testing::ElementsAre("x"));
  EXPECT_TRUE(Identical(*ReadNpz(path), {{"x", one}}));
}

TEST(NpzTest, DtypesThatNumPyLacksAreRejected) {
  const absl::Status status =
      WriteNpz(TemporaryPath("b.npz"), {{"x", *Tensor::Allocate(DT_BFLOAT16, Shape({1}))}});
  EXPECT_THAT(status, IsError(absl::StatusCode::kUnimplemented, "b.npz: 'x': ", "no bfloat16"));
  EXPECT_THAT(ReadNpz("no/such.npz").status(), IsError(absl::StatusCode::kNotFound, "no/such.npz"));
}

}  // namespace
}  // namespace mirrorflow
