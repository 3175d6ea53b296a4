#include "coordinator/http/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using Parts = std::vector<std::pair<std::string, std::string>>;

// Feeds `body` in pieces of `piece` bytes; what was taken is in `parts`.
absl::Status Parse(const std::string& body, size_t piece, Parts* parts,
                   absl::string_view boundary = "B") {
  bool open = false;
  MultipartParser parser(boundary, {[&](const PartHead& head) {
                                      EXPECT_FALSE(open);
                                      open = true;
                                      parts->emplace_back(head.name, "");
                                      return absl::OkStatus();
                                    },
                                    [&](absl::string_view bytes) {
                                      EXPECT_TRUE(open);
                                      EXPECT_FALSE(bytes.empty());
                                      parts->back().second.append(bytes.data(), bytes.size());
                                      return absl::OkStatus();
                                    },
                                    [&] {
                                      open = false;
                                      return absl::OkStatus();
                                    }});
  for (size_t at = 0; at < body.size(); at += piece) {
    if (absl::Status status = parser.Feed(absl::string_view(body).substr(at, piece));
        !status.ok()) {
      return status;
    }
  }
  return parser.Finish();
}

std::string Part(absl::string_view name, absl::string_view data) {
  return absl::StrCat("--B\r\nContent-Disposition: form-data; name=\"", name, "\"\r\n\r\n", data,
                      "\r\n");
}

PartHead Head(const std::string& disposition) {
  PartHead found;
  MultipartParser parser(
      "B", {[&](const PartHead& head) {
              found = head;
              return absl::OkStatus();
            },
            [](absl::string_view) { return absl::OkStatus(); }, [] { return absl::OkStatus(); }});
  const absl::Status status = parser.Feed(
      absl::StrCat("--B\r\nX: y\r\ncontent-disposition: ", disposition, "\r\n\r\nx\r\n--B--\r\n"));
  EXPECT_TRUE(status.ok()) << status;
  return found;
}

// Data that nearly is a boundary, in pieces of every size: nothing is lost, added or taken for one.
TEST(MultipartTest, PiecesOfAnySizeGiveTheSameParts) {
  const std::string data = "a\r\n--\r\n-\r\n--A\r\r\n\n--B\r--B";
  const std::string body = absl::StrCat("before\r\n", Part("one", data), Part("two", ""),
                                        Part("three", "\r\n"), "--B--\r\nafter\r\n--B\r\nmore");
  for (size_t piece = 1; piece <= body.size(); ++piece) {
    Parts parts;
    ASSERT_TRUE(Parse(body, piece, &parts).ok()) << piece;
    EXPECT_THAT(parts, ElementsAre(Pair("one", data), Pair("two", ""), Pair("three", "\r\n")))
        << piece;
  }
}

TEST(MultipartTest, RandomDataComesThroughUnchanged) {
  Random random(20261201);
  for (int round = 0; round < 200; ++round) {
    std::string data;
    const uint64_t size = random.Below(300);
    // Few different bytes, so that halves of boundaries come often.
    for (uint64_t i = 0; i < size; ++i) data.push_back("\r\n-BBx"[random.Below(6)]);
    if (absl::StrCat("\r\n", data).find("\r\n--B") != std::string::npos) continue;
    Parts parts;
    const absl::Status status =
        Parse(absl::StrCat(Part("p", data), "--B--"), 1 + random.Below(20), &parts);
    ASSERT_TRUE(status.ok()) << status << " in round " << round;
    EXPECT_THAT(parts, ElementsAre(Pair("p", data)));
  }
}

TEST(MultipartTest, ABodyThatWasCutOffIsNotWhole) {
  const std::string body = absl::StrCat(Part("one", "data"), "--B--");
  for (size_t size = 0; size < body.size(); ++size) {
    Parts parts;
    EXPECT_FALSE(Parse(body.substr(0, size), 7, &parts).ok()) << size;
  }
}

TEST(MultipartTest, MalformedBodiesAreRefused) {
  for (const char* body : {"--B\r\n\r\nx\r\n--B--", "--B\r\nno colon\r\n\r\nx\r\n--B--",
                           "--B\r\nContent-Disposition: form-data\r\n\r\nx\r\n--B--",
                           "--B\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\nx\r\n--B--",
                           "--B\r\nContent-Disposition: form-data; name=\"a\r\n\r\nx\r\n--B--",
                           "--Bx\r\n", "nothing of the kind"}) {
    Parts parts;
    EXPECT_TRUE(absl::IsInvalidArgument(Parse(body, 3, &parts))) << body;
  }
}

TEST(MultipartTest, PartsAndHeadsHaveLimits) {
  std::string many;
  for (int i = 0; i <= kPartsMax; ++i) many += Part("p", "x");
  Parts parts;
  EXPECT_THAT(std::string(Parse(many, 1000, &parts).message()), HasSubstr("parts"));
  EXPECT_THAT(std::string(Parse(absl::StrCat("--B\r\nX: ", std::string(2 * kPartHeadBytesMax, 'x')),
                                1000, &parts)
                              .message()),
              HasSubstr("headers"));
}

TEST(MultipartTest, NamesAreReadAsTheirWritersMeantThem) {
  EXPECT_EQ(Head("form-data; name=\"file\"; filename=\"a b.jsonl\"").filename, "a b.jsonl");
  EXPECT_EQ(Head("form-data; name=file; filename=a.jsonl").filename, "a.jsonl");
  EXPECT_EQ(Head("form-data; name=\"x\"; filename=\"a\\\"b\\\\c;d\"").filename, "a\"b\\c;d");
  EXPECT_EQ(Head("form-data; name=\"x\"; filename=\"a%22b%0D%0Ac%41\"").filename, "a\"b\r\nc%41");
  EXPECT_EQ(Head("form-data; name=\"x\"; filename=\"plain\"; filename*=UTF-8''n%C3%A4me").filename,
            "n\xC3\xA4me");
  EXPECT_EQ(Head("Form-Data;name=\"expires_after[seconds]\"").name, "expires_after[seconds]");
  EXPECT_FALSE(Head("form-data; name=\"x\"").has_filename);
}

TEST(MultipartTest, BoundariesOfContentTypes) {
  EXPECT_EQ(*MultipartBoundary("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(*MultipartBoundary("Multipart/Form-Data ; charset=x; BOUNDARY=\"a b\""), "a b");
  for (const char* type : {"", "multipart/form-data", "multipart/form-data; boundary=",
                           "multipart/mixed; boundary=a", "application/json"}) {
    EXPECT_FALSE(MultipartBoundary(type).ok()) << type;
  }
  EXPECT_FALSE(
      MultipartBoundary(absl::StrCat("multipart/form-data; boundary=", std::string(71, 'x'))).ok());
}

}  // namespace
}  // namespace nightshift
