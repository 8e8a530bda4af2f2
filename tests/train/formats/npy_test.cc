// SPDX-License-Identifier: Apache-2.0
#include "train/formats/npy.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Returns a version 1 file with this header and these elements.
std::string Npy(absl::string_view header, absl::string_view elements) {
  const auto length = static_cast<uint16_t>(header.size());
  char bytes[2];
  std::memcpy(bytes, &length, 2);
  return absl::StrCat(absl::string_view("\x93NUMPY\x01\x00", 8), absl::string_view(bytes, 2),
                      header, elements);
}

absl::StatusOr<Tensor> Read(absl::string_view contents) {
  return ReadNpy(WriteTemporary("array.npy", contents));
}

absl::Status Error(absl::string_view contents) {
  absl::Status error = Read(contents).status();
  EXPECT_THAT(std::string(error.message()), testing::StartsWith(TemporaryPath("array.npy: ")));
  return error;
}

constexpr absl::string_view kFloats(
    "\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40",
    24);  // the floats 0 to 5

// Returns what numpy.save of NumPy 2 writes for arange(6, dtype='<f4').reshape(2, 3).
std::string MatrixByNumPy() {
  return Npy(absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                          std::string(58, ' '), "\n"),
             kFloats);
}

TEST(NpyTest, WritesSameBytesAsNumPy) {
  const std::string path = TemporaryPath("out.npy");
  ASSERT_TRUE(WriteNpy(path, Tensor::Of<float>({2, 3}, {0, 1, 2, 3, 4, 5})).ok());
  EXPECT_EQ(Contents(path), MatrixByNumPy());
  ASSERT_TRUE(WriteNpy(path, Tensor::Scalar<double>(2.5)).ok());
  EXPECT_EQ(Contents(path),
            Npy(absl::StrCat("{'descr': '<f8', 'fortran_order': False, 'shape': (), }",
                             std::string(62, ' '), "\n"),
                absl::string_view("\0\0\0\0\0\0\x04\x40", 8)));
  ASSERT_TRUE(WriteNpy(path, Tensor::Vector<bool>({true, false})).ok());
  EXPECT_EQ(Contents(path),
            Npy(absl::StrCat("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }",
                             std::string(60, ' '), "\n"),
                absl::string_view("\x01\0", 2)));
}

TEST(NpyTest, RoundTripsEveryDtype) {
  const std::string path = TemporaryPath("round.npy");
  for (DataType dtype :
       {DT_BOOL, DT_INT8, DT_UINT8, DT_INT16, DT_UINT16, DT_INT32, DT_UINT32, DT_INT64, DT_UINT64,
        DT_HALF, DT_FLOAT, DT_DOUBLE, DT_COMPLEX64, DT_COMPLEX128}) {
    for (const Shape& shape : {Shape(), Shape({3}), Shape({0, 4}), Shape({2, 1, 3})}) {
      Tensor tensor = *Tensor::Allocate(dtype, shape);
      for (size_t i = 0; i < tensor.bytes(); ++i) {
        tensor.raw()[i] = static_cast<std::byte>(dtype == DT_BOOL ? i % 2 : 17 * i + 3);
      }
      ASSERT_TRUE(WriteNpy(path, tensor).ok());
      const absl::StatusOr<Tensor> read = ReadNpy(path);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_TRUE(Tensor::Identical(tensor, *read)) << DataTypeName(dtype) << shape.ToString();
    }
  }
}

TEST(NpyTest, ConvertsByteOrderAndColumnMajorArrays) {
  const auto swapped = Read(Npy("{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }\n",
                                absl::string_view("\0\0\0\x01\0\0\x01\0", 8)));
  ASSERT_TRUE(swapped.ok()) << swapped.status();
  EXPECT_TRUE(Tensor::Identical(*swapped, Tensor::Vector<int32_t>({1, 256})));
  const auto complex = Read(Npy("{'descr': '>c8', 'fortran_order': False, 'shape': (), }\n",
                                absl::string_view("\x3f\x80\0\0\x40\0\0\0", 8)));
  ASSERT_TRUE(complex.ok()) << complex.status();
  EXPECT_EQ(std::memcmp(complex->raw(), "\0\0\x80\x3f\0\0\0\x40", 8), 0);
  const auto columns =
      Read(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", kFloats));
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_TRUE(Tensor::Identical(*columns, Tensor::Of<float>({2, 3}, {0, 2, 4, 1, 3, 5})));
  const auto cube =
      Read(Npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 1, 3)}", "\1\2\3\4\5\6"));
  ASSERT_TRUE(cube.ok()) << cube.status();
  EXPECT_TRUE(Tensor::Identical(*cube, Tensor::Of<uint8_t>({2, 1, 3}, {1, 3, 5, 2, 4, 6})));
}

TEST(NpyTest, AcceptsEveryVersionAndSpellingOfHeader) {
  const absl::string_view header =
      "{ \"shape\":(6 , ) ,'fortran_order':False,\t'descr' :'<f4'}  \n";
  for (char version : {'\x02', '\x03'}) {
    const auto read = Read(absl::StrCat("\x93NUMPY", absl::string_view(&version, 1),
                                        absl::string_view("\0", 1), std::string(1, header.size()),
                                        absl::string_view("\0\0\0", 3), header, kFloats));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->shape(), Shape({6}));
  }
}

TEST(NpyTest, MappedArrayIsNotCopied) {
  const std::string path = TemporaryPath("mapped.npy");
  const Tensor floats = Tensor::Of<float>({2, 3}, {0, 1, 2, 3, 4, 5});
  ASSERT_TRUE(WriteNpy(path, floats).ok());
  const auto mapped = MapNpy(path);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_TRUE(Tensor::Identical(*mapped, floats));
  EXPECT_TRUE(Tensor::Identical(mapped->Rows(1, 2), Tensor::Of<float>({1, 3}, {3, 4, 5})));
  // A change to the file is visible through the tensor, so the contents were not copied.
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-4, std::ios::end).write("\0\0\x80\x3f", 4);
  file.close();
  EXPECT_EQ(mapped->flat<float>()[5], 1.0f);
  EXPECT_EQ(*mapped->data<float>(), 0.0f);
  // The mapping outlives the file's name.
  std::remove(path.c_str());
  EXPECT_EQ(mapped->flat<float>()[4], 4.0f);
}

TEST(NpyTest, ArrayThatCannotBeMappedIsRead) {
  const auto map = [](absl::string_view header, absl::string_view elements) {
    return MapNpy(WriteTemporary("array.npy", Npy(header, elements)));
  };
  const auto swapped = map("{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }\n",
                           absl::string_view("\0\0\0\x01\0\0\x01\0", 8));
  ASSERT_TRUE(swapped.ok()) << swapped.status();
  EXPECT_TRUE(Tensor::Identical(*swapped, Tensor::Vector<int32_t>({1, 256})));
  const auto columns = map("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", kFloats);
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_TRUE(Tensor::Identical(*columns, Tensor::Of<float>({2, 3}, {0, 2, 4, 1, 3, 5})));
  for (int padding = 0; padding < 4; ++padding) {  // three of the four leave the elements unaligned
    const auto any = map(absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}",
                                      std::string(padding, ' '), "\n"),
                         kFloats);
    ASSERT_TRUE(any.ok()) << any.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(any->raw()) % alignof(float), 0u);
    EXPECT_TRUE(Tensor::Identical(*any, Tensor::Vector<float>({0, 1, 2, 3, 4, 5})));
  }
  EXPECT_THAT(map("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\1\2").status(),
              IsError(absl::StatusCode::kDataLoss, "array.npy:", "element 1 "));
  EXPECT_THAT(map("{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}", kFloats).status(),
              IsError(absl::StatusCode::kDataLoss, "array.npy:", "float[7]"));
}

TEST(NpyTest, TruncatedOrExtendedFileIsRejected) {
  const std::string good = MatrixByNumPy();
  ASSERT_TRUE(Read(good).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(Error(good.substr(0, size)).code(), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_THAT(Error(good + "x"),
              IsError(absl::StatusCode::kDataLoss, "float[2,3]", "24 bytes", "got 25"));
}

TEST(NpyTest, FilesWithoutNumericArrayAreRejected) {
  const struct {
    absl::string_view header;
    const char* what;
    absl::StatusCode code = absl::StatusCode::kDataLoss;
  } kCases[] = {
      {"{'descr': '|O', 'fortran_order': False, 'shape': (), }", "descr: unsupported element type",
       absl::StatusCode::kUnimplemented},
      {"{'descr': '<U3', 'fortran_order': False, 'shape': (), }", "got '<U3'",
       absl::StatusCode::kUnimplemented},
      {"{'descr': '=f4', 'fortran_order': False, 'shape': (), }", "got '=f4'",
       absl::StatusCode::kUnimplemented},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "structured dtypes",
       absl::StatusCode::kUnimplemented},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (), }", "expected True or False"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "expected a dimension"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2.5,), }", "expected ')'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "a dimension"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "at most 8"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", "shape: "},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}",
       "expected 4000000000"},
      {"{'descr': '<f4', 'fortran_order': False}", "a key is missing"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", "repeated key"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}", "got 'x'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': ()} + 1", "nothing after the dict"},
      {"['descr']", "expected '{'"},
      {"{'descr", "the end of a string"},
      {"", "expected '{'"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(Error(Npy(c.header, "1234")), IsError(c.code, c.what));
  }
  EXPECT_THAT(Error("\x93NUMBER and more"), IsError(absl::StatusCode::kDataLoss, "npy"));
  EXPECT_THAT(Error(absl::string_view("\x93NUMPY\x09\0\1\0\0", 11)),
              IsError(absl::StatusCode::kUnimplemented, "1 to 3", "got 9"));
  EXPECT_THAT(Error(Npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\1\2")),
              IsError(absl::StatusCode::kDataLoss, "element 1 ", "got 2"));
}

TEST(NpyTest, OversizedHeaderIsRejected) {
  EXPECT_THAT(Error(absl::string_view("\x93NUMPY\x02\0\xff\xff\xff\xff", 12)),
              IsError(absl::StatusCode::kDataLoss, "the header", "65536 bytes", "got 4294967295"));
}

TEST(NpyTest, ReadAndWriteErrorsNamePath) {
  EXPECT_THAT(ReadNpy("no/such.npy").status(), IsError(absl::StatusCode::kNotFound, "no/such.npy"));
  EXPECT_THAT(WriteNpy(TemporaryPath("b.npy"), *Tensor::Allocate(DT_BFLOAT16, Shape({1}))),
              IsError(absl::StatusCode::kUnimplemented, "b.npy", "bfloat16"));
}

}  // namespace
}  // namespace mirrorflow
