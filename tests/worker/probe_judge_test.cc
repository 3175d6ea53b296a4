#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/probe_loop.h"

namespace nightshift {
namespace {

BackendProbe Answer() {
  BackendProbe probe;
  probe.reachable = true;
  probe.models = {"m1", "m2"};
  return probe;
}

BackendProbe Silence() {
  BackendProbe probe;
  probe.detail = "connection refused";
  return probe;
}

class ProbeJudgeTest : public ::testing::Test {
 protected:
  static BackendSpec Spec() {
    BackendSpec spec;
    spec.name = "b";
    spec.kind = "vllm";
    spec.base_url = "http://h:1";
    return spec;
  }

  ProbeJudge judge_{Spec()};
};

TEST_F(ProbeJudgeTest, BackendIsStartingUntilItAnswers) {
  EXPECT_EQ(InfoOf(Spec()).state(), "starting");
  EXPECT_EQ(judge_.Take(Silence()).state(), "broken");
  EXPECT_EQ(judge_.Take(Silence()).detail(), "connection refused");
  EXPECT_EQ(judge_.NextIn(), absl::Seconds(2));
  BackendProbe loading = Answer();
  loading.loading = true;
  EXPECT_EQ(judge_.Take(loading).state(), "starting");
  EXPECT_EQ(judge_.NextIn(), absl::Seconds(2));
  const v1::BackendInfo& info = judge_.Take(Answer());
  EXPECT_EQ(info.state(), "ready");
  EXPECT_EQ(info.models_size(), 2);
  EXPECT_EQ(info.name(), "b");
  EXPECT_EQ(judge_.NextIn(), absl::Seconds(30));
}

// What tells whether two workers call the same server.
TEST_F(ProbeJudgeTest, AServerHasOneNameOnEveryMachine) {
  BackendSpec spec = Spec();
  EXPECT_EQ(InfoOf(spec).server(), "h:1");
  spec.base_url = "https://gpu7/v1";
  spec.kind = "openai";
  EXPECT_EQ(InfoOf(spec).server(), "gpu7:443");
  spec.base_url = "http://127.0.0.1:8000";
  EXPECT_THAT(InfoOf(spec).server(), testing::MatchesRegex(".+/127\\.0\\.0\\.1:8000"))
      << "of which machine?";
  spec.kind = "cerebras";
  EXPECT_EQ(InfoOf(spec).server(), "");
}

// A server that is busy with our own calls may not find the time to say so.
TEST_F(ProbeJudgeTest, ReadyBackendIsBrokenOnlyAfterSeveralSilencesInARow) {
  judge_.Take(Answer());
  EXPECT_EQ(judge_.Take(Silence()).state(), "ready");
  EXPECT_EQ(judge_.NextIn(), absl::Seconds(2));
  EXPECT_EQ(judge_.Take(Silence()).state(), "ready");
  judge_.Take(Answer());
  EXPECT_EQ(judge_.Take(Silence()).state(), "ready");
  EXPECT_EQ(judge_.Take(Silence()).state(), "ready");
  EXPECT_EQ(judge_.Take(Silence()).state(), "broken");
  EXPECT_EQ(judge_.Take(Answer()).state(), "ready");
}

TEST_F(ProbeJudgeTest, RefusedKeyIsToldAtOnce) {
  judge_.Take(Answer());
  BackendProbe refused = Answer();
  refused.key_refused = true;
  EXPECT_EQ(judge_.Take(refused).state(), "refused");
}

}  // namespace
}  // namespace nightshift
