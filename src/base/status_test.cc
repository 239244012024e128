#include "base/status.h"

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

Status Fail() { return Status::Error(Code::kBadData, "label 200 is not 0..9"); }

Status Propagate() {
  PACELINE_TRY(Fail().Wrap("data_batch_1.bin"));
  return {};
}

Result<int> Twice(Result<int> input) {
  PACELINE_ASSIGN(const int value, std::move(input));
  return value * 2;
}

TEST(Status, SuccessIsOkAndStaysOkWhenWrapped) {
  EXPECT_THAT(Status(), IsOk());
  EXPECT_THAT(Status().Wrap("context"), IsOk());
  EXPECT_EQ(Status().message(), "");
}

TEST(Status, WrapPutsContextInFrontAndKeepsTheCode) {
  EXPECT_THAT(Propagate(), StatusIs(Code::kBadData, "data_batch_1.bin: label 200 is not 0..9"));
}

TEST(Status, ToStringNamesTheSourceOfTheRootCause) {
  EXPECT_THAT(Propagate().ToString(), HasSubstr("status_test.cc:"));
  EXPECT_THAT(Propagate().ToString(), HasSubstr("bad_data"));
}

TEST(Result, AssignUnwrapsOrReturnsEarly) {
  EXPECT_EQ(Twice(21).value(), 42);
  EXPECT_THAT(Twice(Fail()), StatusIs(Code::kBadData, HasSubstr("label")));
}

TEST(Status, ExitCodesAreTheDocumentedOnes) {
  EXPECT_EQ(ExitCode(Code::kOk), 0);
  EXPECT_EQ(ExitCode(Code::kInvalidArgument), 2);
  EXPECT_EQ(ExitCode(Code::kMismatch), 10);
  EXPECT_EQ(ExitCode(Code::kUnauthenticated), 11);
  EXPECT_EQ(ExitCode(Code::kBadData), 12);
  EXPECT_EQ(ExitCode(Code::kBadCheckpoint), 13);
  EXPECT_EQ(ExitCode(Code::kBelowMinWorkers), 14);
  EXPECT_EQ(ExitCode(Code::kNotFinite), 15);
  EXPECT_EQ(ExitCode(Code::kDisk), 16);
  EXPECT_EQ(ExitCode(Code::kFenced), 17);
  EXPECT_EQ(ExitCode(Code::kAlreadyRunning), 18);
  EXPECT_EQ(ExitCode(Code::kInternal), 70);
  EXPECT_EQ(ExitCode(Code::kUnavailable), 75);
}

}  // namespace
}  // namespace paceline
