// The graphs that people read are the tables that the program runs.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/request_state.h"
#include "coordinator/core/worker_state.h"

namespace nightshift {
namespace {

// The lines "a --> b" under the heading `title` of the README.
std::set<std::string> GraphInReadme(const std::string& title) {
  std::ifstream file(NIGHTSHIFT_CORE_README);
  EXPECT_TRUE(file.is_open()) << NIGHTSHIFT_CORE_README;
  std::set<std::string> edges;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind('#', 0) == 0) inside = line == "### " + title;
    if (inside && line.find(" --> ") != std::string::npos) edges.insert(line);
  }
  return edges;
}

std::string Edge(absl::string_view from, absl::string_view to) {
  return absl::StrCat(from, " --> ", to);
}

TEST(StateTables, JobGraphOfTheReadmeIsTheTable) {
  std::set<std::string> edges;
  for (const JobEdge& edge : JobEdges()) {
    edges.insert(Edge(JobStateInfo(edge.from).word, JobStateInfo(edge.to).word));
  }
  EXPECT_EQ(edges, GraphInReadme("Jobs"));
}

TEST(StateTables, RequestGraphOfTheReadmeIsTheTable) {
  std::set<std::string> edges;
  for (const RequestEdge& edge : RequestEdges()) {
    edges.insert(Edge(RequestStateWord(edge.from), RequestStateWord(edge.to)));
  }
  EXPECT_EQ(edges, GraphInReadme("Requests"));
}

TEST(StateTables, WorkerGraphOfTheReadmeIsTheTable) {
  std::set<std::string> edges;
  for (const WorkerEdge& edge : WorkerEdges()) {
    edges.insert(Edge(WorkerStateWord(edge.from), WorkerStateWord(edge.to)));
  }
  EXPECT_EQ(edges, GraphInReadme("Workers"));
}

TEST(StateTables, EveryJobStateHasARow) {
  for (int number = v1::JobState_MIN; number <= v1::JobState_MAX; ++number) {
    if (!v1::JobState_IsValid(number) || number == v1::JOB_STATE_UNSPECIFIED) continue;
    EXPECT_EQ(JobStateInfo(static_cast<v1::JobState>(number)).state, number);
  }
}

TEST(StateTables, TerminalStatesHaveNoWayOut) {
  for (const JobEdge& edge : JobEdges()) EXPECT_FALSE(JobStateInfo(edge.from).terminal);
}

TEST(StateTables, EveryStateThatIsNotTerminalCanEnd) {
  for (const JobStateRow& row : JobStates()) {
    if (row.terminal) continue;
    // Walks the graph from the state.
    std::set<int> reached = {row.state};
    bool ends = false;
    for (size_t before = 0; before != reached.size();) {
      before = reached.size();
      for (const JobEdge& edge : JobEdges()) {
        if (reached.count(edge.from) != 0) reached.insert(edge.to);
      }
    }
    for (const int state : reached) ends |= JobStateInfo(static_cast<v1::JobState>(state)).terminal;
    EXPECT_TRUE(ends) << row.word;
  }
}

TEST(StateTables, MatrixOfRequestStatesAgreesWithTheEdges) {
  std::set<std::pair<int, int>> edges;
  for (const RequestEdge& edge : RequestEdges()) {
    edges.insert({static_cast<int>(edge.from), static_cast<int>(edge.to)});
  }
  for (const RequestStateRow& from : RequestStates()) {
    for (const RequestStateRow& to : RequestStates()) {
      const bool there =
          edges.count({static_cast<int>(from.state), static_cast<int>(to.state)}) != 0;
      EXPECT_EQ(CanMoveRequest(from.state, to.state), there) << Edge(from.word, to.word);
    }
  }
}

TEST(StateTables, MovingClearsTheReasonAndEndingSetsTheTime) {
  v1::JobRecord record;
  record.set_state(v1::JOB_STATE_PAUSED);
  record.set_reason(v1::PAUSE_REASON_DISK);
  record.set_state_detail("full");
  const absl::Time wall = absl::FromUnixSeconds(1000);
  MoveJob(&record, v1::JOB_STATE_RUNNING, wall);
  EXPECT_EQ(record.reason(), v1::PAUSE_REASON_NONE);
  EXPECT_EQ(record.state_detail(), "");
  EXPECT_EQ(record.finished_at_ms(), 0);
  MoveJob(&record, v1::JOB_STATE_EXPIRED, wall);
  EXPECT_EQ(record.finished_at_ms(), 1000000);
}

TEST(StateTablesDeathTest, AMoveWithoutAnEdgeBreaksTheProgram) {
  v1::JobRecord record;
  record.set_state(v1::JOB_STATE_COMPLETED);
  EXPECT_DEATH(MoveJob(&record, v1::JOB_STATE_RUNNING, absl::UnixEpoch()), "COMPLETED");
}

TEST(StateTables, NextRunStartsWithoutTracesOfTheLast) {
  v1::JobRecord record;
  record.set_state(v1::JOB_STATE_EXPIRED);
  record.set_run(1);
  record.set_started_at_ms(5);
  record.set_finished_at_ms(6);
  record.set_deadline_at_ms(7);
  record.set_lease_frontier(8);
  record.set_expired(9);
  record.mutable_final_sums()->set_failed(3);
  record.mutable_options()->set_deadline_ms(500);
  BeginNextRun(&record, absl::FromUnixMillis(10000));
  EXPECT_EQ(record.state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(record.run(), 2);
  EXPECT_EQ(record.started_at_ms() + record.finished_at_ms() + record.lease_frontier(), 0);
  EXPECT_EQ(record.expired(), 0);
  EXPECT_FALSE(record.has_final_sums());
  // The old deadline would expire it at once.
  EXPECT_EQ(record.deadline_at_ms(), 10500);
}

}  // namespace
}  // namespace nightshift
