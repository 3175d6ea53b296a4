// The pacer against a model of a service with limits: buckets that fill all the time, charged when
// a call is admitted, on a clock of the test's own.
#include "worker/core/pacer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "worker/core/rate_limit.h"
#include "worker/core/request_size.h"

namespace nightshift {
namespace {

using testing::HasSubstr;

struct Service {
  double tokens_per_minute = 0;  // 0: no limit, here and below
  double requests_per_minute = 0;
  bool headers = true;
  bool refunds = false;
  double unset_answer = 16384;
  double bytes_per_token = 4;
  double overhead_bytes = 60;
  double seconds_per_answer = 0.05;  // and a little for each token
  // Now and then a call is late on its way there, by up to so much, and others overtake it.
  double late = 0;
  absl::Duration late_max = absl::ZeroDuration();
};

// What one run came to.
struct Figures {
  double seconds = 0;      // to the last answer
  double lower_bound = 0;  // seconds
  int refusals = 0;
  int most_of_one = 0;  // refusals of one request
};

class Model {
 public:
  // `workers` share the account equally, each with a pacer of its own.
  Model(Service service, const PacerOptions& options, uint64_t seed, int workers = 1)
      : service_(service), random_(seed) {
    for (int i = 0; i < workers; ++i) {
      pacers_.emplace_back(options).SetShare(1.0 / workers, now_);
    }
  }

  // `count` requests with prompts of about `prompt` tokens; `answer_max` -1: they set no maximum.
  Figures Finish(int count, double prompt, int64_t answer_max, int in_flight_max) {
    Figures run;
    double work = 0;
    std::vector<Request> waiting;
    for (int i = 0; i < count; ++i) {
      Request request;
      request.prompt = std::max(4.0, std::round(random_.LogNormal(prompt, 0.5)));
      request.answer = std::ceil(20 + 180 * random_.Unit());
      request.answer_max = answer_max;
      work += Charge(request) - (service_.refunds ? Unused(request) : 0);
      waiting.push_back(request);
    }
    std::reverse(waiting.begin(), waiting.end());
    run.lower_bound = std::max(
        service_.tokens_per_minute > 0 ? 60 * work / service_.tokens_per_minute - 60 : 0,
        service_.requests_per_minute > 0 ? 60 * count / service_.requests_per_minute - 60 : 0);
    tokens_ = service_.tokens_per_minute;
    requests_ = service_.requests_per_minute;
    std::vector<int> in_flight(pacers_.size(), 0);
    while (!waiting.empty() || !events_.empty()) {
      MonotonicTime ready = MonotonicTime::Infinite();
      for (size_t worker = 0; worker < pacers_.size(); ++worker) {
        while (!waiting.empty() && in_flight[worker] < in_flight_max) {
          const MonotonicTime at = Start(worker, &waiting);
          ready = std::min(ready, at > now_ ? at : ready);
          if (at > now_) break;
          ++in_flight[worker];
        }
      }
      const bool wake = events_.empty() || ready < events_.begin()->first;
      if (wake) {
        EXPECT_FALSE(ready.infinite()) << "nothing is in flight and nothing may start";
        if (ready.infinite()) return run;
        now_ = ready;
        continue;
      }
      now_ = events_.begin()->first;
      Event event = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      switch (event.kind) {
        case Event::kArrival:
          Arrive(std::move(event.request));
          break;
        case Event::kRefund:
          Refill(now_);
          tokens_ = std::min(service_.tokens_per_minute, tokens_ + Unused(event.request));
          break;
        case Event::kEnd:
          --in_flight[event.request.worker];
          End(event.request, &waiting, &run);
          break;
      }
    }
    run.seconds = absl::ToDoubleSeconds(now_ - MonotonicTime());
    return run;
  }

 private:
  struct Request {
    double prompt = 0;
    double answer = 0;
    int64_t answer_max = -1;
    int refusals = 0;
    size_t worker = 0;
    bool refused = false;
    std::vector<RateLimit> told;
    Pacer::Reservation reservation;
  };
  struct Event {
    enum Kind { kArrival, kRefund, kEnd } kind;
    Request request;
  };

  static constexpr absl::Duration kOneWay = absl::Milliseconds(10);

  RequestSize SizeOf(const Request& request) const {
    RequestSize size;
    size.bytes =
        static_cast<int64_t>(request.prompt * service_.bytes_per_token + service_.overhead_bytes);
    size.answer_max = request.answer_max;
    return size;
  }
  double Charge(const Request& request) const {
    return request.prompt + (request.answer_max >= 0 ? static_cast<double>(request.answer_max)
                                                     : service_.unset_answer);
  }
  double Unused(const Request& request) const {
    return Charge(request) - request.prompt - request.answer;
  }

  // Starts the next request, if its time has come; returns when that is.
  MonotonicTime Start(size_t worker, std::vector<Request>* waiting) {
    Pacer& pacer = pacers_[worker];
    Request& next = waiting->back();
    const Pacer::Size size = pacer.SizeOf(SizeOf(next));
    const MonotonicTime ready = pacer.active() ? pacer.ReadyAt(size, now_) : now_;
    if (ready > now_) return ready;
    next.worker = worker;
    // Also those before anything is known, as the runner does it afterwards.
    next.reservation = pacer.Reserve(size, now_);
    const bool late = service_.late > 0 && random_.Unit() < service_.late;
    const absl::Duration way =
        kOneWay + (late ? random_.Unit() * service_.late_max : absl::ZeroDuration());
    events_.emplace(now_ + way, Event{Event::kArrival, next});
    waiting->pop_back();
    return ready;
  }

  void Refill(MonotonicTime now) {
    const double minutes = absl::ToDoubleSeconds(now - filled_at_) / 60;
    filled_at_ = now;
    tokens_ = std::min(service_.tokens_per_minute, tokens_ + minutes * service_.tokens_per_minute);
    requests_ =
        std::min(service_.requests_per_minute, requests_ + minutes * service_.requests_per_minute);
  }

  void Arrive(Request request) {
    Refill(now_);
    const double charge = Charge(request);
    request.refused = (service_.tokens_per_minute > 0 && tokens_ < charge) ||
                      (service_.requests_per_minute > 0 && requests_ < 1);
    if (!request.refused) {
      tokens_ -= charge;
      requests_ -= 1;
    }
    if (service_.headers) {
      if (service_.tokens_per_minute > 0) {
        request.told.push_back({RateUnit::kTokens, absl::Minutes(1), service_.tokens_per_minute,
                                std::floor(tokens_), absl::ZeroDuration()});
      }
      if (service_.requests_per_minute > 0) {
        request.told.push_back({RateUnit::kRequests, absl::Minutes(1), service_.requests_per_minute,
                                std::floor(requests_), absl::ZeroDuration()});
      }
    }
    const absl::Duration work =
        absl::Seconds(request.refused ? 0 : service_.seconds_per_answer + request.answer / 1500);
    if (!request.refused && service_.refunds) {
      events_.emplace(now_ + work, Event{Event::kRefund, request});
    }
    events_.emplace(now_ + work + kOneWay, Event{Event::kEnd, std::move(request)});
  }

  void End(Request& request, std::vector<Request>* waiting, Figures* run) {
    const Pacer::Reservation call = request.reservation;
    Pacer& pacer = pacers_[request.worker];
    if (!request.told.empty()) pacer.Told(call, request.told, !request.refused, now_);
    if (request.refused) {
      ++run->refusals;
      run->most_of_one = std::max(run->most_of_one, ++request.refusals);
      EXPECT_TRUE(pacer.OnRefused(call, absl::ZeroDuration(), now_, random_));
      request.told.clear();
      request.reservation = Pacer::Reservation();
      waiting->push_back(request);
      return;
    }
    v1::Usage usage;
    usage.set_known(true);
    usage.set_prompt_tokens(static_cast<int64_t>(request.prompt));
    usage.set_completion_tokens(static_cast<int64_t>(request.answer));
    pacer.OnAdmitted(call, usage, now_);
  }

  const Service service_;
  std::vector<Pacer> pacers_;
  Random random_;
  MonotonicTime now_;
  MonotonicTime filled_at_;
  double tokens_ = 0;
  double requests_ = 0;
  std::multimap<MonotonicTime, Event> events_;
};

constexpr uint64_t kSeeds[] = {1, 2, 3};

TEST(PacerTest, TokensPerMinuteInHeadersCostThreePercentAndThreeRefusalsAtMost) {
  for (const uint64_t seed : kSeeds) {
    for (const bool refunds : {false, true}) {
      Service service;
      service.tokens_per_minute = 1'000'000;
      service.refunds = refunds;
      const Figures run = Model(service, {.tells_limits = true}, seed).Finish(5000, 400, 500, 256);
      EXPECT_LE(run.seconds, 1.03 * run.lower_bound) << "seed " << seed;
      EXPECT_LE(run.refusals, 3) << "seed " << seed << ", refunds " << refunds;
    }
  }
}

TEST(PacerTest, RequestsPerMinuteInHeadersCostThreePercentAndNoRefusal) {
  for (const uint64_t seed : kSeeds) {
    Service service;
    service.tokens_per_minute = 50'000'000;
    service.requests_per_minute = 1000;
    const Figures run = Model(service, {.tells_limits = true}, seed).Finish(5000, 400, 500, 256);
    EXPECT_LE(run.seconds, 1.03 * run.lower_bound) << "seed " << seed;
    EXPECT_EQ(run.refusals, 0) << "seed " << seed;
  }
}

// A busy machine: some calls are half a second and more on their way, and are admitted long after
// others that began later. What the headers then say is older or newer than it seems.
TEST(PacerTest, CallsThatAreLateOnTheirWayCostNoRefusal) {
  for (const uint64_t seed : kSeeds) {
    for (const bool tokens : {true, false}) {
      Service service;
      (tokens ? service.tokens_per_minute : service.requests_per_minute) = tokens ? 300'000 : 2500;
      service.late = 0.05;
      service.late_max = absl::Milliseconds(1500);
      const Figures run = Model(service, {.tells_limits = true}, seed).Finish(5000, 20, 100, 256);
      EXPECT_LE(run.seconds, 1.03 * run.lower_bound) << "seed " << seed << ", tokens " << tokens;
      EXPECT_LE(run.refusals, 3) << "seed " << seed << ", tokens " << tokens;
    }
  }
}

// Each counts for itself: what the headers tell is short of what the others have just started.
TEST(PacerTest, ThreeWorkersOnOneAccountAreHardlyRefused) {
  for (const uint64_t seed : kSeeds) {
    for (const double late : {0.0, 0.02}) {
      Service service;
      service.tokens_per_minute = 300'000;
      service.late = late;
      service.late_max = absl::Milliseconds(800);
      const Figures run =
          Model(service, {.tells_limits = true}, seed, 3).Finish(5000, 20, 100, 128);
      EXPECT_LE(run.seconds, 1.03 * run.lower_bound) << "seed " << seed << ", late " << late;
      EXPECT_LE(run.refusals, 3) << "seed " << seed << ", late " << late;
    }
  }
}

// Answers that take most of a minute: the news is old when it comes, and no less true.
TEST(PacerTest, LongCallsAreNotHeldBackByOldNews) {
  for (const uint64_t seed : kSeeds) {
    Service service;
    service.tokens_per_minute = 300'000;
    service.seconds_per_answer = 40;
    const Figures run = Model(service, {.tells_limits = true}, seed).Finish(5000, 100, 300, 4096);
    // Until the first answer only a few are tried, and the last one takes its time.
    EXPECT_LE(run.seconds, 1.03 * run.lower_bound + 2 * service.seconds_per_answer)
        << "seed " << seed;
    EXPECT_LE(run.refusals, 3) << "seed " << seed;
  }
}

// A backend of which nobody knew that it tells limits: its first answers do, with as many calls in
// flight as the limiter had begun with.
TEST(PacerTest, FirstHeadersOfAnUnknownBackendAreEnough) {
  for (const uint64_t seed : kSeeds) {
    Service service;
    service.tokens_per_minute = 300'000;
    const Figures run = Model(service, {}, seed).Finish(2000, 100, 100, 64);
    EXPECT_LE(run.seconds, 1.03 * run.lower_bound) << "seed " << seed;
    EXPECT_LE(run.refusals, 3) << "seed " << seed;
  }
}

// Requests that set no maximum are charged a large one, and how large is nowhere told.
TEST(PacerTest, TheChargeOfAnUnsetMaximumIsLearntFromTheHeaders) {
  for (const uint64_t seed : kSeeds) {
    Service service;
    service.tokens_per_minute = 1'000'000;
    const Figures run = Model(service, {.tells_limits = true}, seed).Finish(400, 400, -1, 256);
    EXPECT_LE(run.seconds, 1.03 * run.lower_bound) << "seed " << seed;
    EXPECT_LE(run.refusals, 3) << "seed " << seed;
  }
}

TEST(PacerTest, WithoutHeadersTheRateIsFoundWithinTenPercent) {
  for (const uint64_t seed : kSeeds) {
    for (const bool tokens : {true, false}) {
      Service service;
      service.headers = false;
      (tokens ? service.tokens_per_minute : service.requests_per_minute) =
          tokens ? 1'000'000 : 1000;
      const Figures run = Model(service, {}, seed).Finish(5000, 400, 500, 256);
      EXPECT_LE(run.seconds, 1.10 * run.lower_bound) << "seed " << seed << ", tokens " << tokens;
      EXPECT_LE(run.refusals, 500) << "seed " << seed << ", tokens " << tokens;
    }
  }
}

// Five requests a minute, and not a word about it.
TEST(PacerTest, AVerySmallLimitWithoutHeadersIsNotHammered) {
  Service service;
  service.headers = false;
  service.requests_per_minute = 5;
  const Figures run = Model(service, {}, 1).Finish(60, 400, 500, 32);
  EXPECT_LE(run.seconds, 1.5 * run.lower_bound);
  EXPECT_LE(run.refusals, 300);
}

// A person said so: no minute sees more than the limit and a second's worth ahead.
TEST(PacerTest, AConfiguredLimitIsKeptWithoutAnyWordOfTheBackend) {
  const RateLimit limit = ParseRateLimit("requests/minute=600").value();
  Pacer pacer({.configured = {limit}});
  const Pacer::Size size = pacer.SizeOf({});
  MonotonicTime now;
  int in_first_minute = 0;
  while (true) {
    const MonotonicTime ready = pacer.ReadyAt(size, now);
    now = std::max(now, ready);
    if (now - MonotonicTime() >= absl::Minutes(1)) break;
    pacer.Reserve(size, now);
    ++in_first_minute;
  }
  EXPECT_GE(in_first_minute, 605);
  EXPECT_LE(in_first_minute, 610);
  EXPECT_EQ(pacer.waits_for(), "requests per minute");
  EXPECT_EQ(pacer.Explain(now), "paced to 600 requests per minute as configured");
}

// What a call reserved and did not use is for the next one.
TEST(PacerTest, AConfiguredLimitInTokensIsSettledByUsage) {
  Pacer pacer({.configured = {ParseRateLimit("tokens/minute=60000").value()}});
  RequestSize asked;
  asked.answer_max = 1000;
  const Pacer::Size size = pacer.SizeOf(asked);
  MonotonicTime now{1};
  const Pacer::Reservation call = pacer.Reserve(size, now);
  EXPECT_EQ(pacer.ReadyAt(size, now) - now, absl::Seconds(1) + absl::Microseconds(1));
  v1::Usage usage;
  usage.set_known(true);
  usage.set_prompt_tokens(50);
  usage.set_completion_tokens(50);
  pacer.OnAdmitted(call, usage, now);
  EXPECT_NEAR(absl::ToDoubleSeconds(pacer.ReadyAt(size, now) - now), 0.1, 0.001);
}

// Others have the rest of the account: of what the headers say is left, and of what flows in.
TEST(PacerTest, AShareOfAnAccountIsAShareOfItsLimitsAndOfWhatIsLeft) {
  Pacer pacer({});
  const Pacer::Size size = pacer.SizeOf({});
  MonotonicTime now{1};
  const Pacer::Reservation call = pacer.Reserve(size, now);
  pacer.SetShare(0.25, now);
  pacer.Told(call, {{RateUnit::kRequests, absl::Minutes(1), 600, 40, absl::ZeroDuration()}}, true,
             now);
  int at_once = 0;
  while (pacer.ReadyAt(size, now) <= now) {
    pacer.Reserve(size, now);
    ++at_once;
  }
  EXPECT_EQ(at_once, 8) << "a quarter of forty, but for the two that may be on their way";
  int in_a_second = 0;
  const MonotonicTime end = now + absl::Seconds(1.001);
  while ((now = std::max(now, pacer.ReadyAt(size, now))) <= end) {
    pacer.Reserve(size, now);
    ++in_a_second;
  }
  EXPECT_NEAR(in_a_second, 2.5, 0.6);
  EXPECT_THAT(pacer.Explain(now), HasSubstr(", of which this worker has 25 %"));
}

RateLimit RequestsPerMinute(double limit, double remaining) {
  return {RateUnit::kRequests, absl::Minutes(1), limit, remaining, absl::ZeroDuration()};
}

// How many calls of that size may start now.
int RoomAt(Pacer pacer, const Pacer::Size& size, MonotonicTime now) {
  int calls = 0;
  for (; pacer.ReadyAt(size, now) <= now; ++calls) pacer.Reserve(size, now);
  return calls;
}

// Of calls that began together, one may be admitted before another: its news does not count the
// other, which takes its part all the same. News of a call that began when those had ended does.
TEST(PacerTest, CallsThatMayHaveBeenOvertakenAreCountedUntilNewsThatHasThem) {
  Pacer pacer({});
  const Pacer::Size size = pacer.SizeOf({});
  const MonotonicTime now{1};
  std::vector<Pacer::Reservation> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(pacer.Reserve(size, now));
  pacer.Told(calls[9], {RequestsPerMinute(1000, 31)}, true, now);
  pacer.OnAdmitted(calls[9], {}, now);
  EXPECT_EQ(RoomAt(pacer, size, now), 31 - 9 - 2);
  for (size_t i = 0; i < 4; ++i) pacer.OnAdmitted(calls[i], {}, now);
  for (size_t i = 4; i < 8; ++i) pacer.OnDropped(calls[i], now);
  const Pacer::Reservation next = pacer.Reserve(size, now);
  pacer.Told(next, {RequestsPerMinute(1000, 30)}, true, now);
  EXPECT_EQ(RoomAt(pacer, size, now), 30 - 1 - 2) << "one is still under way";
  pacer.OnAdmitted(next, {}, now);
  pacer.OnAdmitted(calls[8], {}, now);
  pacer.Told(pacer.Reserve(size, now), {RequestsPerMinute(1000, 29)}, true, now);
  EXPECT_EQ(RoomAt(pacer, size, now), 29 - 2);
}

// It may have been admitted only just before it ended: what flowed in meanwhile is in the news.
TEST(PacerTest, WhatFlowsInWhileACallIsOnItsWayIsNotCountedTwice) {
  Pacer pacer({});
  const Pacer::Size size = pacer.SizeOf({});
  const MonotonicTime start{1};
  const Pacer::Reservation call = pacer.Reserve(size, start);
  const MonotonicTime soon = start + absl::Seconds(1);
  pacer.Told(call, {RequestsPerMinute(6000, 50)}, true, soon);
  EXPECT_EQ(RoomAt(pacer, size, soon), 50 - 2);
  const MonotonicTime later = soon + absl::Seconds(1);
  EXPECT_EQ(RoomAt(pacer, size, later), 50 + 100 - 2);
}

// Somebody else uses the account: the headers are believed, not what the pacer has counted itself.
TEST(PacerTest, WhatOthersTakeOfTheAccountIsMissedAtTheNextNews) {
  Pacer pacer({});
  const Pacer::Size size = pacer.SizeOf({});
  const MonotonicTime now{1};
  pacer.Told(pacer.Reserve(size, now), {RequestsPerMinute(1000, 500)}, true, now);
  EXPECT_EQ(RoomAt(pacer, size, now), 500 - 2);
  pacer.Told(pacer.Reserve(size, now), {RequestsPerMinute(1000, 100)}, true, now);
  EXPECT_EQ(RoomAt(pacer, size, now), 100 - 2);
}

// A report goes out every second: it does not list what nobody can read.
TEST(PacerTest, TheLimitsOfManyModelsAreExplainedByTheScarcest) {
  Pacer pacer({});
  const MonotonicTime now{1};
  for (int i = 1; i <= 40; ++i) {
    RequestSize asked;
    asked.model = "model-" + std::to_string(i);
    pacer.Told(pacer.Reserve(pacer.SizeOf(asked), now), {RequestsPerMinute(100, i)}, true, now);
  }
  const std::string words = pacer.Explain(now);
  EXPECT_THAT(words, HasSubstr("100 requests per minute as it told for model-1, 1 left"));
  EXPECT_THAT(words, HasSubstr("for model-4, 4 left"));
  EXPECT_THAT(words, testing::Not(HasSubstr("model-5,")));
  EXPECT_THAT(words, HasSubstr("; limits of 36 more models, of which more is left"));
}

TEST(PacerTest, RetryAfterIsObeyedWithAJitterOnTop) {
  Random random(1);
  Pacer pacer({});
  MonotonicTime now{1};
  Pacer::Reservation call;
  call.started = now;
  EXPECT_FALSE(pacer.active());
  EXPECT_TRUE(pacer.OnRefused(call, absl::Seconds(12), now, random));
  const absl::Duration wait = pacer.ReadyAt(pacer.SizeOf({}), now) - now;
  EXPECT_GE(wait, absl::Seconds(12));
  EXPECT_LE(wait, absl::Seconds(12) + Pacer::kFreezeJitter);
}

// Until it has told its limits it is tried with a few calls; a backend that tells nothing after all
// is not kept at that.
TEST(PacerTest, AFewCallsFirstWhereLimitsWillBeTold) {
  Pacer pacer({.tells_limits = true});
  const Pacer::Size size = pacer.SizeOf({});
  MonotonicTime now{1};
  std::vector<Pacer::Reservation> calls;
  while (pacer.ReadyAt(size, now) <= now) calls.push_back(pacer.Reserve(size, now));
  EXPECT_EQ(calls.size(), static_cast<size_t>(Pacer::kUntoldMax));
  EXPECT_TRUE(pacer.ReadyAt(size, now).infinite());
  pacer.OnAdmitted(calls[0], {}, now);
  EXPECT_LE(pacer.ReadyAt(size, now), now);
}

// OpenAI's and Groq's names do not say the window; how long the used part takes to come back does.
TEST(PacerTest, AWindowThatIsNotNamedIsToldByItsReset) {
  Pacer pacer({});
  const Pacer::Size size = pacer.SizeOf({});
  MonotonicTime now{1};
  const Pacer::Reservation call = pacer.Reserve(size, now);
  pacer.Told(call,
             {{RateUnit::kRequests, absl::ZeroDuration(), 1000, 500, absl::Hours(12)},
              {RateUnit::kTokens, absl::ZeroDuration(), 6000, 5999, absl::Milliseconds(10)}},
             true, now);
  const std::string words = pacer.Explain(now);
  EXPECT_THAT(words, HasSubstr("1,000 requests per day as it told, 500 left"));
  EXPECT_THAT(words, HasSubstr("6,000 tokens per minute as it told, 5,999 left"));
}

TEST(RateLimitTest, IsWrittenAsUnitWindowAndNumber) {
  const RateLimit limit = ParseRateLimit("tokens/hour=1e6").value();
  EXPECT_EQ(limit.unit, RateUnit::kTokens);
  EXPECT_EQ(limit.window, absl::Hours(1));
  EXPECT_EQ(limit.limit, 1e6);
  for (const char* text : {"", "tokens", "tokens/minute", "tokens/minute=", "tokens/minute=0",
                           "tokens/week=5", "words/minute=5", "tokens/minute=nan"}) {
    EXPECT_FALSE(ParseRateLimit(text).ok()) << text;
  }
}

TEST(RequestSizeTest, ReadsModelAndLongestAnswer) {
  RequestSize size = ReadRequestSize(Endpoint::kChatCompletions,
                                     R"({"model":"m\u0031","max_tokens":50,"n":3,"messages":[]})");
  EXPECT_EQ(size.model, "m1");
  EXPECT_EQ(size.answer_max, 150);
  size = ReadRequestSize(Endpoint::kChatCompletions,
                         R"({"max_tokens":5,"max_completion_tokens":70,"n":"x"})");
  EXPECT_EQ(size.answer_max, 70) << "the newer name goes first, as with the servers";
  EXPECT_EQ(ReadRequestSize(Endpoint::kResponses, R"({"max_output_tokens":1e99})").answer_max,
            1'000'000'000);
  EXPECT_EQ(ReadRequestSize(Endpoint::kCompletions, "not json").answer_max, -1);
  EXPECT_EQ(ReadRequestSize(Endpoint::kCompletions, "not json").bytes, 8);
  EXPECT_EQ(ReadRequestSize(Endpoint::kEmbeddings, "{}").answer_max, 0);
}

}  // namespace
}  // namespace nightshift
