// Leases on their way from the plan to the stream, over a store in memory and streams of the test.
#include "coordinator/grant_loop.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "coordinator/lease_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/keys.h"
#include "storage/memory_store.h"
#include "storage/record.h"
#include "tests/coordinator/jobs/job_world.h"

namespace nightshift {
namespace {

using ::testing::HasSubstr;

// Keeps the leases that it is sent.
class LeaseStream final : public WorkerStream {
 public:
  explicit LeaseStream(const Store& store) : store_(store) {}

  Offer Send(v1::CoordinatorMessage&& message, size_t, bool unless_full) override {
    MutexLock lock(&mutex_);
    if (state_ != Offer::kQueued && (unless_full || state_ == Offer::kClosed)) {
      ++refused_;
      changed_.SignalAll();
      return state_;
    }
    if (message.has_lease()) {
      for (const v1::LeasedRequest& request : message.lease().requests()) {
        v1::JobRecord record;
        const std::string key = JobKey(request.key().job());
        const auto row = store_.Get(Family::kJobs, key);
        if (!row.ok() || !DecodeRecord(key, *row, &record).ok() ||
            record.lease_frontier() <= static_cast<int64_t>(request.key().index())) {
          ++beyond_frontier_;
        }
        ++requests_;
      }
      leases_.push_back(message.lease());
    }
    changed_.SignalAll();
    return Offer::kQueued;
  }
  Offer Room() const override {
    MutexLock lock(&mutex_);
    if (state_ != Offer::kQueued) ++refused_;
    changed_.SignalAll();
    return state_;
  }
  void Cancel(absl::string_view) override {}
  void FinishWhenWritten(absl::Status) override {}
  absl::Duration WritingFor(MonotonicTime) const override { return absl::ZeroDuration(); }

  void Set(Offer state) {
    MutexLock lock(&mutex_);
    state_ = state;
  }
  std::vector<v1::Lease> AwaitRequests(int count) {
    MutexLock lock(&mutex_);
    while (requests_ < count) changed_.Wait(&mutex_);
    return leases_;
  }
  void AwaitRefused(int times) {
    MutexLock lock(&mutex_);
    while (refused_ < times) changed_.Wait(&mutex_);
  }
  int requests() const {
    MutexLock lock(&mutex_);
    return requests_;
  }
  int beyond_frontier() const {
    MutexLock lock(&mutex_);
    return beyond_frontier_;
  }

 private:
  const Store& store_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  Offer state_ ABSL_GUARDED_BY(mutex_) = Offer::kQueued;
  std::vector<v1::Lease> leases_ ABSL_GUARDED_BY(mutex_);
  int requests_ ABSL_GUARDED_BY(mutex_) = 0;
  int beyond_frontier_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable int refused_ ABSL_GUARDED_BY(mutex_) = 0;
};

class GrantLoopTest : public ::testing::Test {
 protected:
  GrantLoopTest() {
    world_.dispatcher().SetWakeUp([this] { loop_.Wake(); });
  }
  ~GrantLoopTest() override {
    loop_.Stop();
    world_.committer().Shutdown();  // its last step wakes the loop
  }

  WorkerNumber Open(const std::string& name, std::shared_ptr<LeaseStream> stream) {
    v1::Hello hello;
    hello.set_protocol("nightshift.v1");
    hello.set_name(name);
    hello.set_session(name);
    v1::BackendInfo& backend = *hello.add_backends();
    backend.set_name("b");
    backend.set_state("ready");
    const auto worker = streams_.Open(hello, stream);
    NIGHTSHIFT_CHECK(worker.ok(), worker.status().ToString());
    return *worker;
  }
  void Report(WorkerNumber worker, LeaseStream* stream, int limit) {
    v1::Report report;
    v1::BackendReport& backend = *report.add_backends();
    backend.mutable_info()->set_name("b");
    backend.mutable_info()->set_state("ready");
    backend.set_limit(limit);
    streams_.Report(worker, stream, report);
  }
  int64_t Leased(const std::string& name) {
    for (const v1::WorkerStatus& worker : world_.dispatcher().ListWorkers(Clock::Real().Now())) {
      if (worker.session() == name) return worker.leased();
    }
    return -1;
  }
  v1::JobStatus AwaitState(JobNumber job, v1::JobState state) {
    for (;;) {
      const v1::JobStatus status = world_.Status(job);
      if (status.state() == state) return status;
      std::this_thread::yield();
    }
  }

  const std::unique_ptr<Store> store_ = NewMemoryStore();
  JobWorld world_{*store_};
  WorkerStreams streams_{world_.dispatcher(), Clock::Real(), [](WorkerNumber) {}};
  GrantLoop loop_{*store_, world_.dispatcher(), world_.committer(), streams_, Clock::Real()};
};

TEST_F(GrantLoopTest, RequestsGoOutInOrderWholeAndBehindADurableFrontier) {
  const JobNumber job = world_.SubmitJob(3000);
  auto stream = std::make_shared<LeaseStream>(*store_);
  Report(Open("w", stream), stream.get(), 1500);
  uint64_t next = 0;
  for (const v1::Lease& lease : stream->AwaitRequests(2000)) {
    EXPECT_EQ(lease.backend(), "b");
    EXPECT_NE(lease.id(), 0u);
    EXPECT_LE(lease.requests_size(), kLeaseRequestsMax);
    for (const v1::LeasedRequest& request : lease.requests()) {
      const v1::SubmittedRequest submitted = JobWorld::Request(static_cast<int64_t>(next));
      EXPECT_EQ(request.key().job(), job);
      EXPECT_EQ(request.key().index(), next);
      EXPECT_EQ(request.body(), submitted.body());
      EXPECT_EQ(request.custom_id(), submitted.custom_id());
      EXPECT_EQ(request.endpoint(), submitted.endpoint());
      ++next;
    }
  }
  EXPECT_EQ(stream->beyond_frontier(), 0);
}

// What came back or goes out with caution is not where the rest is.
TEST_F(GrantLoopTest, RequestsAreReadInAnyOrder) {
  const JobNumber job = world_.SubmitJob(40);
  LeaseReader reader(*store_, world_.dispatcher(), {100, kLeaseBytesMax});
  Grant grant;
  for (const uint64_t index : {30u, 31u, 33u, 2u, 3u, 4u, 5u, 25u, 1u}) {
    grant.items.push_back({{job, index}, 0, 1});
  }
  v1::Lease lease;
  size_t bytes = 0;
  std::vector<LeaseReader::Unreadable> unreadable;
  EXPECT_EQ(reader.Fill(grant, 0, &lease, &bytes, &unreadable), grant.items.size());
  EXPECT_TRUE(unreadable.empty());
  ASSERT_EQ(lease.requests_size(), 9);
  for (int i = 0; i < lease.requests_size(); ++i) {
    const uint64_t index = grant.items[static_cast<size_t>(i)].id.index;
    EXPECT_EQ(lease.requests(i).key().index(), index);
    EXPECT_EQ(lease.requests(i).custom_id(), absl::StrCat("r-", index));
  }
  reader.End();
}

TEST_F(GrantLoopTest, LargeRequestGoesAloneAndSmallOnesShareAMessage) {
  v1::SubmitRequests requests;
  for (int i = 0; i < 6; ++i) {
    v1::SubmittedRequest& request = *requests.add_requests();
    request = JobWorld::Request(i);
    const size_t size = i == 2 ? 3 * kLeaseBytesMax : kLeaseBytesMax / 3;
    request.set_body(absl::StrCat("{\"model\":\"m\",\"pad\":\"", std::string(size, 'x'), "\"}"));
  }
  ASSERT_TRUE(world_.Submit(std::move(requests), {}, "").ok());
  auto stream = std::make_shared<LeaseStream>(*store_);
  Report(Open("w", stream), stream.get(), 100);
  std::vector<int> sizes;
  for (const v1::Lease& lease : stream->AwaitRequests(6)) sizes.push_back(lease.requests_size());
  EXPECT_THAT(sizes, testing::ElementsAre(2, 1, 2, 1));
}

TEST_F(GrantLoopTest, FullStreamKeepsNothingAndGoesOnWhenItHasRoom) {
  world_.SubmitJob(100);
  auto stream = std::make_shared<LeaseStream>(*store_);
  stream->Set(WorkerStream::Offer::kFull);
  Report(Open("w", stream), stream.get(), 100);
  stream->AwaitRefused(3);  // asked again without anyone waking it
  EXPECT_EQ(stream->requests(), 0);
  stream->Set(WorkerStream::Offer::kQueued);
  stream->AwaitRequests(100);
}

TEST_F(GrantLoopTest, WhatAClosedStreamWasToGetGoesToAnother) {
  world_.SubmitJob(50);
  auto closed = std::make_shared<LeaseStream>(*store_);
  closed->Set(WorkerStream::Offer::kClosed);
  const WorkerNumber gone = Open("gone", closed);
  Report(gone, closed.get(), 100);
  closed->AwaitRefused(1);
  auto open = std::make_shared<LeaseStream>(*store_);
  Report(Open("open", open), open.get(), 100);
  streams_.Close(gone, closed.get());
  open->AwaitRequests(50);
  EXPECT_EQ(closed->requests(), 0);
}

// Neither lost nor answered with an invention: the job waits for a person, its other requests and
// other jobs go on.
TEST_F(GrantLoopTest, RowThatCannotBeReadPausesItsJob) {
  const JobNumber damaged = world_.SubmitJob(20);
  WriteSet damage;
  damage.Put(Family::kRequests, RequestRowKey(damaged, 7), "no frame, no checksum");
  damage.Delete(Family::kRequests, RequestRowKey(damaged, 11));
  ASSERT_TRUE(store_->Commit(std::move(damage)).ok());

  auto stream = std::make_shared<LeaseStream>(*store_);
  Report(Open("w", stream), stream.get(), 100);
  const v1::JobStatus status = AwaitState(damaged, v1::JOB_STATE_PAUSED);
  EXPECT_EQ(status.reason(), v1::PAUSE_REASON_ERRORS);
  EXPECT_THAT(status.state_detail(), HasSubstr("request 7"));
  EXPECT_EQ(status.counts().failed(), 0);
  EXPECT_EQ(status.counts().total(), 20);

  const JobNumber sound = world_.SubmitJob(20);
  for (const v1::Lease& lease : stream->AwaitRequests(18 + 20)) {
    for (const v1::LeasedRequest& request : lease.requests()) {
      if (request.key().job() == sound) continue;
      EXPECT_NE(request.key().index(), 7u);
      EXPECT_NE(request.key().index(), 11u);
    }
  }
  EXPECT_GE(Leased("w"), 20);
}

TEST_F(GrantLoopTest, BrokenStoreSendsNothing) {
  StoppingStore stopping(*store_, 0);
  world_.SubmitJob(10);
  JobWorld world(stopping);
  WorkerStreams streams(world.dispatcher(), Clock::Real(), [](WorkerNumber) {});
  GrantLoop loop(stopping, world.dispatcher(), world.committer(), streams, Clock::Real());
  auto stream = std::make_shared<LeaseStream>(stopping);
  v1::Hello hello;
  hello.set_protocol("nightshift.v1");
  hello.set_name("w");
  hello.set_session("w");
  hello.add_backends()->set_name("b");
  const auto worker = streams.Open(hello, stream);
  ASSERT_TRUE(worker.ok()) << worker.status();
  v1::Report report;
  report.add_backends()->mutable_info()->set_name("b");
  report.mutable_backends(0)->set_limit(10);
  streams.Report(*worker, stream.get(), report);
  loop.Wake();
  world.WaitUntilBroken();
  loop.Stop();
  EXPECT_EQ(stream->requests(), 0);
}

}  // namespace
}  // namespace nightshift
