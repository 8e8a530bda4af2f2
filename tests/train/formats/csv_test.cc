// SPDX-License-Identifier: Apache-2.0
#include "train/formats/csv.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "train/formats/npz.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::StatusCode kDamaged = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<CsvTable> Read(absl::string_view contents, const CsvOptions& options = {}) {
  return ReadCsv(WriteTemporary("table.csv", contents), options);
}

absl::Status ErrorOf(absl::string_view contents, const CsvOptions& options = {}) {
  absl::Status status = Read(contents, options).status();
  EXPECT_THAT(std::string(status.message()),
              StartsWith(absl::StrCat(TemporaryPath("table.csv"), ": ")));
  return status;
}

template <typename T>
std::vector<T> Column(const absl::StatusOr<CsvTable>& table, size_t i = 0) {
  EXPECT_TRUE(table.ok()) << table.status();
  if (!table.ok() || i >= table->columns.size()) return {};
  EXPECT_EQ(table->columns[i].shape(), Shape({table->num_rows}));
  const auto values = table->columns[i].As<T>();
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? std::vector<T>(values->begin(), values->end()) : std::vector<T>();
}

TEST(CsvTest, InfersIntegersAndFloats) {
  const std::string text = "a,b,c\n1,2.5,3\n-4,5,6e2\n";
  for (const std::string& contents : {text, Gzip(text), "\xef\xbb\xbf" + text}) {
    const auto table = Read(contents);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_THAT(table->names, ElementsAre("a", "b", "c"));
    EXPECT_EQ(table->num_rows, 2);
    EXPECT_THAT(Column<int64_t>(table, 0), ElementsAre(1, -4));
    EXPECT_THAT(Column<float>(table, 1), ElementsAre(2.5f, 5.0f));
    EXPECT_THAT(Column<float>(table, 2), ElementsAre(3.0f, 600.0f));
  }
}

TEST(CsvTest, EveryLineEndingGivesTheSameRows) {
  for (const char* text : {"a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n", "a,b\n1,2\n3,4",
                           "\n\na,b\n\n1,2\r\n\r\n3,4\r", "\"a\",\"b\"\n\"1\",2\n3,\"4\"\n"}) {
    const auto table = Read(text);
    EXPECT_THAT(Column<int64_t>(table, 0), ElementsAre(1, 3)) << text;
    EXPECT_THAT(Column<int64_t>(table, 1), ElementsAre(2, 4)) << text;
  }
}

// Encodes `text` as UTF-16 with a byte order mark.
std::string Utf16(absl::string_view text, bool big_endian) {
  std::string out = big_endian ? "\xfe\xff" : "\xff\xfe";
  for (const char c : text) out += big_endian ? std::string({'\0', c}) : std::string({c, '\0'});
  return out;
}

TEST(CsvTest, TextWithOtherLineEndingsAndEncodingsIsRead) {
  const std::string text = "a,b\n1,2\n3,4\n";
  const std::string windows = absl::StrReplaceAll(text, {{"\n", "\r\n"}});
  const std::string mac = absl::StrReplaceAll(text, {{"\n", "\r"}});
  const std::vector<std::string> same = {windows,
                                         mac,
                                         mac.substr(0, mac.size() - 1),
                                         "a,b\r\n1,2\r3,4\n",
                                         "\xef\xbb\xbf" + mac,
                                         text + "\x1a",
                                         windows + "\x1a\x1a\x1a",
                                         windows + "\x1a\r\n",
                                         text + "\x1a\n\x1a\r",
                                         text.substr(0, text.size() - 1) + "\x1a",
                                         text + "\n  \n\t\r\n\r\r",
                                         "\"a\",\"b\"\r\"1\",2\r3,\"4\"\r",
                                         Utf16(text, false),
                                         Utf16(text, true),
                                         Utf16(windows, false),
                                         Utf16(mac.substr(0, mac.size() - 1), true),
                                         Gzip(Utf16(windows, false)),
                                         Gzip(mac)};
  for (const std::string& contents : same) {
    for (const int threads : {1, 3}) {
      const auto table = Read(contents, {.num_threads = threads});
      EXPECT_THAT(Column<int64_t>(table, 0), ElementsAre(1, 3)) << contents;
      EXPECT_THAT(Column<int64_t>(table, 1), ElementsAre(2, 4)) << contents;
    }
  }
}

TEST(CsvTest, LargeTextWithOtherLineEndingsOrEncodingLosesNoRow) {
  std::string text = "a,b\n";
  for (int i = 0; i < 1'500'000; ++i) absl::StrAppend(&text, i, ",", i % 7, "\n");
  const std::string mac = absl::StrReplaceAll(text, {{"\n", "\r"}});
  for (const std::string& contents : {mac, Utf16(text, false)}) {
    const auto table = Read(contents, {.num_threads = 2});
    const std::vector<int64_t> numbers = Column<int64_t>(table, 0);
    ASSERT_EQ(numbers.size(), 1'500'000u);
    for (int64_t i = 0; i < 1'500'000; ++i) ASSERT_EQ(numbers[i], i);
  }
}

TEST(CsvTest, ErrorsCountLinesWithOtherLineEndings) {
  EXPECT_THAT(ErrorOf("a\r1\r\rx\r"), IsError(kDamaged, "line 4, column 'a'"));
  EXPECT_THAT(ErrorOf("a,b\r\"1\",2\r\"\r\",3\rx,4\r",
                      {.columns = {{.name = "b"}, {.name = "a", .dtype = DT_INT64}}}),
              IsError(kDamaged, "line 3"));
  const auto table = Read("a\r1\r\"x\"y\r2\r", {.skip_bad_records = 1});
  EXPECT_THAT(Column<int64_t>(table), ElementsAre(1, 2));
}

TEST(CsvTest, Utf16WordsBecomeUtf8) {
  const std::string text(
      "\xff\xfe"
      "k\0\n\0\xe9\0\n\0\x3d\xd8\x00\xde\n\0",
      16);
  const auto table =
      Read(text, {.columns = {{.name = "k", .vocabulary = {"\xf0\x9f\x98\x80", "\xc3\xa9"}}}});
  EXPECT_THAT(Column<int32_t>(table), ElementsAre(1, 0));
  EXPECT_THAT(ErrorOf(absl::string_view("\xff\xfe"
                                        "1\0\n\0\x3d\xd8\n\0",
                                        10)),
              IsError(kDamaged, "byte 6"));
  EXPECT_THAT(ErrorOf(absl::string_view("\xff\xfe"
                                        "1\0\n",
                                        5)),
              IsError(kDamaged, "cut short"));
}

TEST(CsvTest, BinaryDataIsRejected) {
  EXPECT_THAT(ErrorOf(absl::string_view("a,b\n1,2\n\0\0\0\0", 12)), IsError(kDamaged, "byte 8: "));
  EXPECT_THAT(ErrorOf(std::string(100, '\0')), IsError(kDamaged, "byte 0: "));
  const std::string no_mark = Utf16("a,b\n1,2\n", false).substr(2);
  EXPECT_THAT(ErrorOf(no_mark), IsError(kDamaged, "UTF-16", "byte order mark"));
  EXPECT_THAT(ErrorOf("\x01\x02\x03\x04"), IsError(kDamaged, "line 1: not text"));
}

TEST(CsvTest, UnknownLineEndingsAreRejected) {
  const std::string text = "a,b\n1,2\n3,4\n";
  const std::pair<std::string, std::string> ends[] = {
      {"\f", "a form feed"},      {"\v", "a vertical tab"},   {"\xc2\x85", "NEL (U+0085)"},
      {"\xe2\x80\xa8", "U+2028"}, {"\xe2\x80\xa9", "U+2029"}, {"\x1e", "not text"},
      {"\x85", "NEL (0x85)"}};
  for (const auto& [end, what] : ends) {
    const std::string lines = absl::StrReplaceAll(text, {{"\n", end}});
    const std::string last_without_end = lines.substr(0, lines.size() - end.size());
    for (const std::string& contents : {lines, last_without_end, lines + "\n", lines + "\x1a"}) {
      EXPECT_THAT(ErrorOf(contents), IsError(kDamaged, "line 1: ")) << contents;
      EXPECT_THAT(ErrorOf(contents), IsError(kDamaged, what)) << contents;
    }
  }
  EXPECT_THAT(ErrorOf(Utf16(absl::StrReplaceAll(text, {{"\n", "\f"}}), false)),
              IsError(kDamaged, "a form feed"));
  EXPECT_THAT(ErrorOf("\n\na,\"\n\"\f1,2"), IsError(kDamaged, "line 3: "));
  EXPECT_THAT(ErrorOf("a,b\f1,2\f"),
              IsError(kDamaged, "line 1:", "form feed", R"('a,b\x0c\x31,2\x0c')"));
}

TEST(CsvTest, EbcdicIsRejected) {
  // `a,b`, `1,2` and `3,4` in code page 37, with the line endings that Python and a mainframe
  // write.
  EXPECT_THAT(ErrorOf("\x81k\x82%\xf1k\xf2%\xf3k\xf4%"),
              IsError(kDamaged, "line 1:", "no record", "iconv -f IBM037"));
  EXPECT_THAT(ErrorOf("\x81k\x82\x15\xf1k\xf2\x15\xf3k\xf4\x15"),
              IsError(kDamaged, "line 1: not text"));
}

TEST(CsvTest, HeaderMayContainQuotedControlsAndLatin1Characters) {
  for (const char* text : {"\"a\f\",\"b\xe2\x80\xa8\"\n1,2\n",
                           "gr\xf6\xdf"
                           "e,b\n1,2\n",
                           "a\x85,b\n1,2", "\xc3\x85,b\n1,2\n"}) {
    EXPECT_THAT(Column<int64_t>(Read(text), 1), ElementsAre(2)) << text;
  }
  for (const char* text : {"gr\xf6\xdf"
                           "e,b\n",
                           "\xc3\x85,b", "a,b"}) {
    const auto table = Read(text);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->num_rows, 0);
  }
}

TEST(CsvTest, CtrlZEndsTheFileAtAnyPositionInABlock) {
  constexpr size_t kBlock = size_t{4} << 20;
  const std::string line = "123456,7\n";
  for (size_t missing = 0; missing < 6; ++missing) {
    std::string text = "a,b\n";
    while (text.size() + line.size() <= kBlock - missing) text += line;
    text.insert(text.size() - 1, kBlock - missing - text.size(), ' ');
    const int64_t rows = static_cast<int64_t>((text.size() - 4) / line.size());
    const auto table = Read(text + "\x1a\r\n\r\n");
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->num_rows, rows);
    // A Ctrl-Z does not end the file if a record follows it.
    EXPECT_EQ(Read(text + "\x1a\r\n\r\n1,2\n").status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(Read(text + "\x1a\r\n\r\n1,2\n", {.skip_bad_records = 1})->num_rows, rows + 1);
  }
}

TEST(CsvTest, ControlCharacterMayBeTheDelimiter) {
  EXPECT_THAT(Column<int64_t>(Read("a\001b\n1\0012\n", {.delimiter = '\1'}), 1), ElementsAre(2));
}

TEST(CsvTest, ErrorsNameOtherDelimiterAndDecimalComma) {
  EXPECT_THAT(ErrorOf("a;b\n1;2\n"), IsError(kDamaged, "';' (CsvOptions::delimiter)"));
  EXPECT_THAT(ErrorOf("a;b\n1,5;2,5\n"), IsError(kDamaged, "';' (CsvOptions::delimiter)"));
  EXPECT_THAT(ErrorOf("a\tb\n1\t2\n", {.columns = {{.name = "b"}}}),
              IsError(kInvalid, "'\\t' (CsvOptions::delimiter)"));
  EXPECT_THAT(ErrorOf("a;b\n1;1,5\n", {.delimiter = ';'}), IsError(kDamaged, "decimal comma"));
  EXPECT_THAT(ErrorOf("a;b\n1;1,5\n", {.delimiter = ';', .columns = {{.name = "b"}}}),
              IsError(kDamaged, "decimal comma"));
  // In a file with a single column, text may contain another delimiter.
  const auto words = Read("k\nx;y\nz\n", {.columns = {{.name = "k", .vocabulary = {"x;y", "z"}}}});
  EXPECT_THAT(Column<int32_t>(words), ElementsAre(0, 1));
  const absl::Status error = ErrorOf("k\nx;y\nz\n");
  EXPECT_EQ(error.code(), kDamaged);
  EXPECT_THAT(std::string(error.message()), testing::Not(HasSubstr("delimiter")));
}

TEST(CsvTest, SelectsColumnsByNameAndIndexInRequestedOrder) {
  const auto table = Read("a,b,c,d\n1,x,1,0.1\n2,y,true,0.2\n3,z,FALSE,0.3\n",
                          {.columns = {{.name = "d", .dtype = DT_DOUBLE},
                                       {.index = 2, .dtype = DT_BOOL},
                                       {.name = "a", .dtype = DT_INT32}}});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->names, ElementsAre("d", "c", "a"));
  EXPECT_THAT(Column<double>(table, 0), ElementsAre(0.1, 0.2, 0.3));
  EXPECT_THAT(Column<bool>(table, 1), ElementsAre(true, true, false));
  EXPECT_THAT(Column<int32_t>(table, 2), ElementsAre(1, 2, 3));
}

TEST(CsvTest, ReadsFileWithoutHeaderAndWithOtherDelimiter) {
  const auto table = Read("1;2\n3;4\n", {.header = false, .delimiter = ';'});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->names, ElementsAre("0", "1"));
  EXPECT_THAT(Column<int64_t>(table, 1), ElementsAre(2, 4));
  EXPECT_THAT(Column<float>(Read("1\t2.5\n", {.header = false, .delimiter = '\t'}), 1),
              ElementsAre(2.5f));
}

TEST(CsvTest, VocabularyMapsTextToItsPosition) {
  const CsvOptions options{.columns = {{.name = "s", .vocabulary = {"red", "a,\n\"b\"", "NA"}}}};
  const auto table = Read("s,t\nred,1\n\"a,\n\"\"b\"\"\",2\nNA,3\n\"red\",4\n", options);
  EXPECT_THAT(Column<int32_t>(table), ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(ErrorOf("s\nred\nblue\n", options),
              IsError(kDamaged, "line 3, column 's':", "vocabulary", "got 'blue'"));
  const CsvOptions unknown{
      .columns = {
          {.name = "s", .dtype = DT_INT64, .missing = 9, .vocabulary = {"red"}, .unknown = 7}}};
  EXPECT_THAT(Column<int64_t>(Read("s,t\nred,1\nblue,2\n,3\n", unknown)), ElementsAre(0, 7, 9));
}

TEST(CsvTest, MissingFieldRequiresADefault) {
  const std::string text = "a,b\n1,2\nNA,3\n";
  EXPECT_THAT(ErrorOf(text), IsError(kDamaged, "line 3, column 'a':", "missing field", "got 'NA'"));
  EXPECT_THAT(Column<int64_t>(Read(text, {.missing = -1})), ElementsAre(1, -1));
  const auto nan = Column<float>(Read(text, {.missing = std::numeric_limits<double>::quiet_NaN()}));
  ASSERT_EQ(nan.size(), 2u);
  EXPECT_EQ(nan[0], 1.0f);
  EXPECT_TRUE(std::isnan(nan[1]));
  const auto column = [](DataType dtype, double missing) {
    return CsvOptions{.columns = {{.name = "a", .dtype = dtype, .missing = missing}}};
  };
  EXPECT_THAT(Column<int32_t>(Read("a,b\n,1\n\"\",1\n nan ,1\n", column(DT_INT32, 5))),
              ElementsAre(5, 5, 5));
  EXPECT_THAT(Column<double>(Read("a\nNULL\n", column(DT_DOUBLE, 0.5))), ElementsAre(0.5));
  EXPECT_THAT(Column<bool>(Read("a\nnull\n0\n", column(DT_BOOL, 1))), ElementsAre(true, false));
  EXPECT_THAT(ErrorOf("a\n1\n", column(DT_INT32, 0.5)),
              IsError(kInvalid, "column 'a':", "int32", "got 0.5"));
  EXPECT_THAT(Column<int64_t>(Read("a\n?\n", {.missing = 3, .na_values = {"?"}})), ElementsAre(3));
}

TEST(CsvTest, NumbersAreCorrectlyRounded) {
  const std::vector<std::string> numbers = {"0",
                                            "-0.0",
                                            "+1.5",
                                            "1e22",
                                            "1e23",
                                            "123456789012345678901234567890",
                                            "5e-324",
                                            "1e-400",
                                            "1.7976931348623157e308",
                                            "0.30000000000000004",
                                            "9007199254740993",
                                            "inf",
                                            "-inf",
                                            "1.00000017881393432617187499",
                                            "1.00000017881393432617187500",
                                            "1.00000017881393432617187501",
                                            "16777217",
                                            "1e-45",
                                            "7.0064923216240854e-46",
                                            "3.4028235e38",
                                            ".5",
                                            "5.",
                                            "  2.5 ",
                                            "1E+2",
                                            "0.1",
                                            "33554435.00000000000001",
                                            "1.17549435e-38"};
  std::string text = "f,d\n";
  for (const std::string& number : numbers) {
    const bool huge = number == "1.7976931348623157e308";
    absl::StrAppend(&text, huge ? "1" : number, ",", number, "\n");
  }
  const auto table = Read(
      text, {.columns = {{.name = "f", .dtype = DT_FLOAT}, {.name = "d", .dtype = DT_DOUBLE}}});
  const auto floats = Column<float>(table, 0);
  const auto doubles = Column<double>(table, 1);
  ASSERT_EQ(doubles.size(), numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(doubles[i], std::strtod(numbers[i].c_str(), nullptr)) << numbers[i];
    if (numbers[i] == "1.7976931348623157e308") continue;
    EXPECT_EQ(floats[i], std::strtof(numbers[i].c_str(), nullptr)) << numbers[i];
  }
  EXPECT_TRUE(std::signbit(doubles[1]));
}

TEST(CsvTest, IntegersKeepTheirFullRange) {
  EXPECT_THAT(
      Column<int64_t>(Read("a\n9223372036854775807\n-9223372036854775808\n"
                           "000000000000000000000000012\n+3\n")),
      ElementsAre(std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), 12, 3));
  EXPECT_THAT(Column<float>(Read("a\n9223372036854775808\n1\n")), ElementsAre(0x1p63f, 1.0f));
  const CsvOptions int32{.columns = {{.name = "a", .dtype = DT_INT32}}};
  EXPECT_THAT(
      Column<int32_t>(Read("a\n2147483647\n-2147483648\n", int32)),
      ElementsAre(std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()));
  for (const char* field : {"2147483648", "-2147483649", "1.0", "1e3", "0x10", "--1", "+-1", "1 2",
                            "99999999999999999999"}) {
    EXPECT_THAT(
        ErrorOf(absl::StrCat("a\n1\n", field, "\n"), int32),
        IsError(kDamaged, "line 3, column 'a':", "int32", absl::StrCat("got '", field, "'")));
  }
}

TEST(CsvTest, ErrorsNameLineAndColumn) {
  EXPECT_THAT(ErrorOf("a,b\n1,2\n3,abc\n"),
              IsError(kDamaged, "line 3, column 'b':", "a number", "got 'abc'"));
  EXPECT_THAT(ErrorOf("a,b\n1,2\n3\n"), IsError(kDamaged, "line 3,", "expected 2", "got 1"));
  EXPECT_THAT(ErrorOf("a,b\n1,2,3,4\n"), IsError(kDamaged, "line 2,", "expected 2", "got 4"));
  EXPECT_THAT(ErrorOf("a,b\n1,2\n\"\n\nx\",4\n"),
              IsError(kDamaged, "line 3, column 'a':", "a number", R"(got '\n\nx')"));
  EXPECT_THAT(ErrorOf("a,b\n\"1\n\n\n\",x\n", {.missing = 0, .na_values = {"1"}}),
              IsError(kDamaged, "line 2, column 'b':", "a number", "got 'x'"));
  EXPECT_THAT(ErrorOf("a\n1e400\n", {.columns = {{.name = "a", .dtype = DT_DOUBLE}}}),
              IsError(kDamaged, "line 2, column 'a':", "double", "got '1e400'"));
  EXPECT_THAT(ErrorOf("a\n4e38\n", {.columns = {{.name = "a", .dtype = DT_FLOAT}}}),
              IsError(kDamaged, "line 2, column 'a':", "float", "got '4e38'"));
  EXPECT_THAT(ErrorOf("a,b\n1,2\n1,5\"\n"),
              IsError(kDamaged, "line 3, column 'b':", "RFC 4180", "got a quote"));
  EXPECT_THAT(ErrorOf("a,b\n\"1\"x,2\n"),
              IsError(kDamaged, "line 2, column 'a':", "RFC 4180", "got text after"));
  EXPECT_THAT(ErrorOf("a\n1\n\"2\n"), IsError(kDamaged, "line 3:", "no end"));
  EXPECT_THAT(ErrorOf(""), IsError(kDamaged, "empty", "header", "got no text"));
  EXPECT_THAT(ErrorOf("\n\r\n", {.header = false}),
              IsError(kDamaged, "empty", "record", "got no text"));
  EXPECT_THAT(ReadCsv(TemporaryPath("no such file")).status(),
              IsError(absl::StatusCode::kNotFound, TemporaryPath("no such file"), "No such file"));
}

TEST(CsvTest, InvalidOptionsAreRejected) {
  const auto error = [](const CsvOptions& options) {
    return ErrorOf("age,height,age\n1,2,3\n", options);
  };
  EXPECT_THAT(error({.columns = {{.name = "hight"}}}),
              IsError(kInvalid, "no such column", "got 'hight'", "height?"));
  EXPECT_THAT(error({.columns = {{.index = 3}}}),
              IsError(kInvalid, "no such column", "below 3", "got index 3"));
  EXPECT_THAT(error({.columns = {{.name = "age"}}}), IsError(kInvalid, "several columns", "name"));
  EXPECT_THAT(error({.columns = {{.index = 0}, {.index = 0}}}),
              IsError(kInvalid, "requested twice"));
  EXPECT_THAT(error({.columns = {{.index = 0, .dtype = DT_UINT8}}}),
              IsError(kInvalid, "got uint8"));
  EXPECT_THAT(error({.columns = {{.index = 0, .dtype = DT_FLOAT, .vocabulary = {"a"}}}}),
              IsError(kInvalid, "vocabulary", "got float"));
  EXPECT_THAT(error({.columns = {{.index = 0, .vocabulary = {"a", "a"}}}}),
              IsError(kInvalid, "'a' twice"));
  for (const char delimiter : {'"', '\n', '\0', '5', '-', 'e'}) {
    EXPECT_THAT(error({.delimiter = delimiter}), IsError(kInvalid, "invalid delimiter"));
  }
  EXPECT_THAT(error({.skip_bad_records = -1}), IsError(kInvalid, "skip_bad_records"));
  EXPECT_THAT(error({.num_threads = 0}), IsError(kInvalid, "invalid num_threads"));
}

TEST(CsvTest, SkipsBadRecordsUpToLimit) {
  const std::string text = "a,b\n1,2\nx,3\n4\n5,6,7\n\"8\"9,\"1\n10,11\n";
  const auto table = Read(text, {.skip_bad_records = 4});
  EXPECT_THAT(Column<int64_t>(table, 0), ElementsAre(1, 10));
  EXPECT_THAT(Column<int64_t>(table, 1), ElementsAre(2, 11));
  EXPECT_EQ(table->num_bad_records, 4);
  EXPECT_THAT(table->first_bad_record, HasSubstr("line 3, column 'a': "));
  EXPECT_THAT(ErrorOf(text, {.skip_bad_records = 3}),
              IsError(kDamaged, "line 6, column 'a':", "got text after", "more than 3"));
}

TEST(CsvTest, HeaderAloneGivesEmptyColumns) {
  const auto table = Read("a,b\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->num_rows, 0);
  EXPECT_EQ(table->columns[1].shape(), Shape({0}));
}

TEST(CsvTest, ReadsFileWrittenByPandas) {
  const std::string folder = "tests/references/formats/";
  const auto arrays = ReadNpz(folder + "frame.npz");
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const CsvOptions options{
      .columns = {
          {.name = "id"},
          {.name = "single", .dtype = DT_FLOAT},
          {.name = "double", .dtype = DT_DOUBLE},
          {.name = "gaps", .dtype = DT_DOUBLE, .missing = kNan},
          {.name = "flag", .dtype = DT_BOOL},
          {.name = "species", .vocabulary = {"setosa", "say \"so\"", "a,b", "two\nlines"}}}};
  const auto table = ReadCsv(folder + "frame.csv", options);
  ASSERT_TRUE(table.ok()) << table.status();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(Tensor::Identical(table->columns[i], arrays->at(table->names[i])))
        << table->names[i];
  }
  for (int64_t i = 0; i < table->num_rows; ++i) {
    EXPECT_EQ(table->columns[5].flat<int32_t>()[i], i % 4);
  }
}

// Returns a file of several blocks that has quoted line breaks, bad records, and a column with
// integers in the first three quarters of the file and floats after that.
std::string LargeFile(int64_t rows) {
  std::string text = "i,f,t\n";
  for (int64_t i = 0; i < rows; ++i) {
    if (i % 1000 == 7) absl::StrAppend(&text, "x,1,a\n");
    const bool late = i > rows * 3 / 4;
    absl::StrAppend(&text, i, ",", i % 77, late ? ".25," : ",");
    absl::StrAppend(&text, i % 5 == 0 ? "\"a\n\"\"1,2,a\n3,4,b\n\"\"\"\n" : "b\n");
  }
  return text;
}

TEST(CsvTest, ThreadsDoNotChangeResult) {
  constexpr int64_t kRows = 700'000;
  const std::string path = WriteTemporary("large.csv", LargeFile(kRows));
  CsvOptions options{.columns = {{.name = "i"},
                                 {.name = "f"},
                                 {.name = "t", .vocabulary = {"a\n\"1,2,a\n3,4,b\n\"", "b"}}},
                     .skip_bad_records = kRows};
  const auto one = ReadCsv(path, options);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_EQ(one->num_rows, kRows);
  EXPECT_EQ(one->num_bad_records, 700);
  for (int64_t i = 0; i < kRows; ++i) {
    ASSERT_EQ(one->columns[0].flat<int64_t>()[i], i);
    ASSERT_EQ(one->columns[1].flat<float>()[i], i % 77 + (i > kRows * 3 / 4 ? 0.25f : 0.0f));
    ASSERT_EQ(one->columns[2].flat<int32_t>()[i], i % 5 == 0 ? 0 : 1);
  }
  for (const int threads : {2, 3, 8}) {
    options.num_threads = threads;
    const auto many = ReadCsv(path, options);
    ASSERT_TRUE(many.ok()) << many.status();
    EXPECT_EQ(many->num_bad_records, one->num_bad_records);
    EXPECT_EQ(many->first_bad_record, one->first_bad_record);
    for (int c = 0; c < 3; ++c) {
      EXPECT_TRUE(Tensor::Identical(many->columns[c], one->columns[c])) << threads;
    }
  }
  options.skip_bad_records = 500;
  for (const int threads : {1, 2, 3, 8}) {
    options.num_threads = threads;
    // The 501st bad record is the error. It follows the header, 500 bad records and 500,007 good
    // records, 100,002 of which take 3 extra lines each.
    EXPECT_THAT(
        ReadCsv(path, options).status(),
        IsError(kDamaged, absl::StrCat(": line ", 500007 + 100002 * 3 + 500 + 2, ", column 'i'")));
  }
}

}  // namespace
}  // namespace mirrorflow
