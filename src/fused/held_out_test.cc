#include "fused/held_out.h"

#include <gmock/gmock.h>

#include "data/synthetic_ctr.h"
#include "testing/status_matchers.h"

namespace paceline::fused {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(HeldOutSamples, AreATenthUnlessAskedFor) {
  EXPECT_EQ(*HeldOutSamples(100, 0), 10U);
  EXPECT_EQ(*HeldOutSamples(9, 0), 0U);
  EXPECT_EQ(*HeldOutSamples(100, 99), 99U);
  EXPECT_THAT(HeldOutSamples(100, 100),
              StatusIs(Code::kInvalidArgument, HasSubstr("leave none to train on")));
  EXPECT_FALSE(HeldOutSamples(0, 0).ok());
}

TEST(PartOf, ReadsItsSamplesAlone) {
  const auto all = std::make_shared<data::SyntheticCtr>(data::SyntheticCtrOptions{.size = 10});
  const auto part = PartOf(all, {.begin = 7, .count = 3});
  EXPECT_EQ(part->size(), 3U);
  EXPECT_NE(part->Fingerprint(), all->Fingerprint());
  data::CtrSample expected, sample;
  ASSERT_THAT(all->Read(8, expected), IsOk());
  ASSERT_THAT(part->Read(1, sample), IsOk());
  EXPECT_EQ(sample, expected);
  EXPECT_FALSE(part->Read(3, sample).ok());
}

}  // namespace
}  // namespace paceline::fused
