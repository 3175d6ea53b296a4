#include "worker/core/pacer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/units.h"

namespace nightshift {
namespace {

// Before any usage has told: few texts have more tokens than this, and JSON around them has less.
constexpr double kTokensPerByteFirst = 1 / 3.0;
constexpr double kAnswerFirst = 256;
constexpr int kRatiosPlain = 20;  // a plain mean of so many, then each new one counts a twentieth
// How far above the mean a prompt is reserved, in mean deviations.
constexpr double kDeviations = 2;
// And by so much of the mean divided by the number of answers it comes from: of the first few the
// deviation says little, and by them a whole minute's calls may be reserved.
constexpr double kFewRatios = 0.5;
// A configured limit may be used ahead by so much of it, so that no window sees much more than it.
constexpr absl::Duration kAheadMax = absl::Seconds(1);
// A bucket of a backend need not be fuller than this for a call that takes it all.
constexpr double kFullEnough = 0.95;
// Left in a bucket: so many calls like the next one, but at most this share of the limit.
constexpr double kMarginCalls = 2;
constexpr double kMarginShare = 0.02;
// Less of a limit used than this, and its window cannot be told from its reset time.
constexpr double kGuessShareMin = 0.02;
// Charges vary; a low one is forgotten slowly.
constexpr double kForgetCharge = 0.98;

// CUBIC's, with seconds and calls per second.
constexpr double kCut = 0.7;
constexpr double kCubic = 0.4;
// A timer that comes late by up to this loses nothing.
constexpr absl::Duration kCatchUp = absl::Milliseconds(50);

double Seconds(absl::Duration d) { return absl::ToDoubleSeconds(d); }

// The usual window that is nearest to `seconds`, as a factor.
absl::Duration NearestWindow(double seconds) {
  absl::Duration best = absl::Minutes(1);
  double distance = HUGE_VAL;
  for (const absl::Duration window :
       {absl::Seconds(1), absl::Minutes(1), absl::Hours(1), absl::Hours(24)}) {
    const double away = std::abs(std::log(seconds / Seconds(window)));
    if (away < distance) {
      distance = away;
      best = window;
    }
  }
  return best;
}

double Amount(RateUnit unit, double tokens) { return unit == RateUnit::kTokens ? tokens : 1.0; }

}  // namespace

double Pacer::Bucket::LevelAt(MonotonicTime now) const {
  return std::min(capacity, level + rate() * std::max(0.0, Seconds(now - at)));
}

Pacer::Pacer(PacerOptions options)
    : unset_answer_(options.unset_answer_tokens),
      tells_limits_(options.tells_limits),
      active_(options.tells_limits || !options.configured.empty()) {
  accounts_.push_back(NewAccount(""));
  for (const RateLimit& limit : options.configured) {
    const double ahead = limit.limit * std::min(1.0, absl::FDivDuration(kAheadMax, limit.window));
    const double capacity = std::max(1.0, ahead);
    accounts_[0].buckets.push_back({.unit = limit.unit,
                                    .window = limit.window,
                                    .window_guessed = false,
                                    .whole = limit.limit,
                                    .limit = limit.limit,
                                    .capacity = capacity,
                                    .level = capacity,
                                    .at = MonotonicTime()});
  }
}

Pacer::Account Pacer::NewAccount(std::string model) const {
  Account account;
  account.model = std::move(model);
  account.ratio = kTokensPerByteFirst;
  account.ratio_error = 0;
  account.unset_answer = unset_answer_ > 0 ? static_cast<double>(unset_answer_) : kAnswerFirst;
  return account;
}

Pacer::Size Pacer::SizeOf(const RequestSize& size) {
  Size made;
  made.bytes = size.bytes;
  made.answer_max = size.answer_max;
  const int next = static_cast<int>(accounts_.size());
  if (next > kModelsMax) {
    const auto known = account_by_model_.find(size.model);
    made.account = known != account_by_model_.end() ? known->second : kModelsMax;
    return made;
  }
  const auto [entry, is_new] = account_by_model_.try_emplace(size.model, next);
  if (is_new) accounts_.push_back(NewAccount(size.model));
  made.account = entry->second;
  return made;
}

double Pacer::Price(const Account& account, const Size& size) const {
  const double few =
      account.ratios > 0 ? kFewRatios * account.ratio / static_cast<double>(account.ratios) : 0;
  const double ratio = account.ratio + kDeviations * account.ratio_error + few;
  const double answer =
      size.answer_max >= 0 ? static_cast<double>(size.answer_max) : account.unset_answer;
  return std::ceil(static_cast<double>(size.bytes) * ratio + answer);
}

void Pacer::WaitForBucket(const Bucket& bucket, double tokens, MonotonicTime now,
                          MonotonicTime* ready) {
  const double full = bucket.capacity < bucket.limit ? bucket.capacity : kFullEnough * bucket.limit;
  const double amount = Amount(bucket.unit, tokens);
  // Calls overtake one another on their way, and the news of one that was first misses the other.
  const double margin = std::min(kMarginCalls * amount, kMarginShare * bucket.limit);
  const double missing = std::min(amount + margin, full) - bucket.LevelAt(now);
  if (missing <= 0) return;
  // Rounded up: else it would be asked again at a moment when a hair is missing.
  const MonotonicTime at = now + absl::Seconds(missing / bucket.rate()) + absl::Microseconds(1);
  if (at <= *ready) return;
  *ready = at;
  waits_for_ = RateLimitName(bucket.unit, bucket.window);
}

MonotonicTime Pacer::ReadyAt(const Size& size, MonotonicTime now) {
  waits_for_.clear();
  if (!active_) return now;
  if (tells_limits_ && !told_ && outstanding_ >= kUntoldMax) {
    waits_for_ = "the backend to tell its rate limits";
    return MonotonicTime::Infinite();
  }
  MonotonicTime ready = now;
  const Account& account = AccountOf(size.account);
  if (size.answer_max < 0 && account.charge_unknown && outstanding_ >= kUntoldMax) {
    waits_for_ = "the first answers to tell what is charged for one";
    return MonotonicTime::Infinite();
  }
  const double tokens = Price(account, size);
  for (const Bucket& bucket : account.buckets) WaitForBucket(bucket, tokens, now, &ready);
  for (const Bucket& bucket : accounts_[0].buckets) WaitForBucket(bucket, tokens, now, &ready);
  if (finding_ && next_start_ > ready) {
    ready = next_start_;
    waits_for_ = "a rate that the backend does not refuse";
  }
  if (frozen_until_ > ready) {
    ready = frozen_until_;
    waits_for_ = "its rate limits, after a refusal";
  }
  return ready;
}

Pacer::Reservation Pacer::Reserve(const Size& size, MonotonicTime now) {
  Account& account = AccountOf(size.account);
  Reservation call;
  call.made = true;
  call.account = size.account;
  call.bytes = size.bytes;
  call.answer_max = size.answer_max;
  call.tokens = Price(account, size);
  call.started = now;
  call.order = ++account.calls_sent;
  call.tokens_sent = account.tokens_sent += call.tokens;
  for (Account* one : {&accounts_[0], &account}) {
    for (Bucket& bucket : one->buckets) {
      const double amount = Amount(bucket.unit, call.tokens);
      bucket.level = bucket.LevelAt(now) - amount;
      bucket.at = now;
      if (one == &account && amount > kFullEnough * bucket.whole) call.whole = true;
    }
  }
  while (!account.on_way.empty() && account.on_way.begin()->second.started + kWayMax <= now) {
    Arrived(account, account.on_way.begin()->first);
  }
  call.calls_on_way = static_cast<int64_t>(account.on_way.size());
  call.tokens_on_way = account.tokens_on_way;
  account.on_way[call.order] = {now, call.tokens};
  account.tokens_on_way += call.tokens;
  ++outstanding_;
  if (finding_) {
    next_start_ = std::max(next_start_, now - kCatchUp) + absl::Seconds(1 / FoundRate(now));
  }
  return call;
}

Pacer::Bucket* Pacer::FindBucket(Account& account, const RateLimit& told, bool* is_new) {
  const bool guessed = told.window == absl::ZeroDuration();
  *is_new = false;
  for (Bucket& bucket : account.buckets) {
    if (bucket.unit != told.unit || bucket.window_guessed != guessed) continue;
    if (guessed || bucket.window == told.window) return &bucket;
  }
  *is_new = true;
  return &account.buckets.emplace_back(Bucket{.unit = told.unit,
                                              .window = guessed ? absl::Minutes(1) : told.window,
                                              .window_guessed = guessed,
                                              .whole = told.limit,
                                              .limit = told.limit,
                                              .capacity = told.limit,
                                              .level = 0,
                                              .at = MonotonicTime()});
}

void Pacer::TakeLimit(Account& account, const Reservation& call, const RateLimit& told,
                      MonotonicTime now) const {
  bool is_new;
  Bucket& bucket = *FindBucket(account, told, &is_new);
  const double used = told.limit - told.remaining;
  if (bucket.window_guessed && used > kGuessShareMin * told.limit &&
      told.reset > absl::ZeroDuration()) {
    bucket.window = NearestWindow(Seconds(told.reset) * told.limit / used);
  }
  bucket.whole = told.limit;
  bucket.limit = bucket.capacity = share_ * told.limit;
  const bool tokens = bucket.unit == RateUnit::kTokens;
  const double sent_since = tokens ? account.tokens_sent - call.tokens_sent
                                   : static_cast<double>(account.calls_sent - call.order);
  const double on_way = tokens ? call.tokens_on_way : static_cast<double>(call.calls_on_way);
  const double left = share_ * told.remaining;
  const absl::Duration age = now - call.started;
  const auto flowed = [&](absl::Duration time) {
    return bucket.rate() * std::max(0.0, Seconds(time));
  };
  const double least = std::min(bucket.limit, left + flowed(age - kWayMax)) - sent_since - on_way;
  const double most = std::min(bucket.limit, left + flowed(age) - sent_since);
  bucket.level = is_new ? least : std::max(least, std::min(bucket.LevelAt(now), most));
  bucket.at = now;
}

void Pacer::LearnCharge(Account& account, const Reservation& call, const RateLimit& told) {
  // Of two calls in a row, what the second took is what is missing after it.
  if (account.told_tokens >= 0 && call.order == account.told_order + 1 && call.answer_max < 0) {
    account.charge_unknown = false;
    const double flowed =
        told.limit / Seconds(told.window) * Seconds(call.started - account.told_start);
    const double charge = account.told_tokens + flowed - told.remaining;
    const double answer = charge - static_cast<double>(call.bytes) * account.ratio;
    if (answer > 0) {
      account.unset_answer =
          account.answers++ == 0 ? answer : std::max(answer, kForgetCharge * account.unset_answer);
    }
  }
}

void Pacer::Told(const Reservation& call, const std::vector<RateLimit>& limits, bool admitted,
                 MonotonicTime now) {
  Account& account = AccountOf(call.account);
  if (call.order <= account.told_order) return;
  const RateLimit* tokens = nullptr;
  bool a_request_left = true;
  for (const RateLimit& told : limits) {
    if (told.limit <= 0 || told.remaining < 0) continue;
    TakeLimit(account, call, told, now);
    if (told.unit == RateUnit::kRequests) {
      a_request_left = a_request_left && told.remaining >= 1;
    } else if (tokens == nullptr && told.window > absl::ZeroDuration()) {
      tokens = &told;
    }
    if (told.unit == RateUnit::kTokens && !told_) account.charge_unknown = unset_answer_ == 0;
  }
  if (account.buckets.empty()) return;
  active_ = told_ = true;
  if (tokens != nullptr) {
    if (admitted) {
      LearnCharge(account, call, *tokens);
    } else if (call.answer_max < 0 && a_request_left) {
      // What was left was too little.
      const double prompt = static_cast<double>(call.bytes) * account.ratio;
      account.unset_answer = std::max(account.unset_answer, tokens->remaining - prompt);
    }
    account.told_tokens = tokens->remaining;
  }
  account.told_order = call.order;
  account.told_start = call.started;
}

void Pacer::Arrived(Account& account, int64_t order) {
  const auto known = account.on_way.find(order);
  if (known == account.on_way.end()) return;
  account.tokens_on_way -= known->second.tokens;
  account.on_way.erase(known);
  // No rounding is left behind.
  if (account.on_way.empty()) account.tokens_on_way = 0;
}

void Pacer::Ended(const Reservation& call) {
  --outstanding_;
  Arrived(AccountOf(call.account), call.order);
}

void Pacer::LearnUsage(Account& account, const Reservation& call, const v1::Usage& usage) {
  if (!usage.known() || call.bytes == 0 || usage.prompt_tokens() <= 0) return;
  const double ratio = static_cast<double>(usage.prompt_tokens()) / static_cast<double>(call.bytes);
  if (account.ratios == 0) account.ratio = ratio;
  ++account.ratios;
  const auto weight = static_cast<double>(std::min<int64_t>(account.ratios, kRatiosPlain));
  account.ratio_error += (std::abs(ratio - account.ratio) - account.ratio_error) / weight;
  account.ratio += (ratio - account.ratio) / weight;
  // Where no charge has been seen in the headers, what it used is the best guess.
  if (call.answer_max >= 0 || unset_answer_ > 0 || account.answers > 0) return;
  account.unset_answer +=
      (static_cast<double>(usage.completion_tokens()) - account.unset_answer) / kRatiosPlain;
}

void Pacer::GiveBack(double tokens, MonotonicTime now) {
  for (Bucket& bucket : accounts_[0].buckets) {
    if (bucket.unit != RateUnit::kTokens) continue;
    bucket.level = std::min(bucket.capacity, bucket.LevelAt(now) + tokens);
    bucket.at = now;
  }
}

void Pacer::OnAdmitted(const Reservation& call, const v1::Usage& usage, MonotonicTime now) {
  admitted_.Add(1, now);
  if (call.started > frozen_at_) refusals_ = 0;
  if (!call.made) return;
  Ended(call);
  told_ = true;  // or it tells nothing, which is as good to know
  LearnUsage(AccountOf(call.account), call, usage);
  if (usage.known()) {
    GiveBack(call.tokens - static_cast<double>(usage.prompt_tokens() + usage.completion_tokens()),
             now);
  }
}

bool Pacer::Explains(const Reservation& call, MonotonicTime now) const {
  if (!call.made) return false;
  const std::vector<Bucket>& buckets = accounts_[static_cast<size_t>(call.account)].buckets;
  return std::any_of(buckets.begin(), buckets.end(), [&](const Bucket& bucket) {
    return bucket.LevelAt(now) < Amount(bucket.unit, call.tokens);
  });
}

bool Pacer::OnRefused(const Reservation& call, absl::Duration retry_after, MonotonicTime now,
                      Random& random) {
  active_ = true;
  if (call.made) {
    Ended(call);
    GiveBack(call.tokens, now);
    if (call.whole) return false;
  }
  const absl::Duration jitter = kFreezeJitter * random.Unit();
  if (retry_after > absl::ZeroDuration()) {
    frozen_until_ = std::max(frozen_until_, now + retry_after + jitter);
  }
  // Sent before the last answer to a refusal: no news.
  if (call.started <= frozen_at_) return true;
  frozen_at_ = now;
  ++refusals_;
  const bool explained = Explains(call, now);
  if (!explained) CutRate(now);
  if (retry_after > absl::ZeroDuration()) return true;
  if (refusals_ > 1) {
    const absl::Duration wait =
        std::min(kFreezeMax, kFreezeInitial * std::ldexp(1.0, std::min(refusals_ - 2, 10)));
    frozen_until_ = std::max(frozen_until_, now + wait + jitter);
  } else if (explained) {
    frozen_until_ = std::max(frozen_until_, now + jitter);
  }
  return true;
}

void Pacer::OnDropped(const Reservation& call, MonotonicTime now) {
  if (!call.made) return;
  Ended(call);
  GiveBack(call.tokens, now);
}

void Pacer::CutRate(MonotonicTime now) {
  double rate = std::max(admitted_.PerSecond(now), kFoundRateMin);
  if (finding_) rate = std::min(rate, FoundRate(now));
  finding_ = true;
  refused_rate_ = rate;
  grow_seconds_ = std::cbrt(rate * (1 - kCut) / kCubic);
  cut_at_ = now;
  next_start_ = now + absl::Seconds(1 / FoundRate(now));
}

double Pacer::FoundRate(MonotonicTime now) const {
  // While it is frozen nothing is tried, so nothing is learnt.
  const MonotonicTime from = std::max(cut_at_, frozen_until_);
  const double beyond = std::max(0.0, Seconds(now - from)) - grow_seconds_;
  return std::max(refused_rate_ + kCubic * beyond * beyond * beyond, kFoundRateMin);
}

void Pacer::SetShare(double share, MonotonicTime now) {
  if (share == share_) return;
  const double change = share / share_;
  share_ = share;
  for (Account& account : accounts_) {
    for (Bucket& bucket : account.buckets) {
      const double level = bucket.LevelAt(now);
      bucket.level = level > 0 ? change * level : level;
      bucket.at = now;
      bucket.limit *= change;
      bucket.capacity *= change;
    }
  }
}

std::string Pacer::Explain(MonotonicTime now) const {
  // Those with the least left first: it is they that hold calls up.
  struct Told {
    double left;  // as a part of the limit
    const Account* account;
  };
  std::vector<Told> told;
  std::vector<std::string> parts;
  for (const Account& account : accounts_) {
    double left = 1;
    for (const Bucket& bucket : account.buckets) {
      left = std::min(left, bucket.LevelAt(now) / bucket.limit);
      if (&account != accounts_.data()) continue;
      parts.push_back(absl::StrCat(WithCommas(std::llround(bucket.whole)), " ",
                                   RateLimitName(bucket.unit, bucket.window), " as configured"));
    }
    if (&account != accounts_.data() && !account.buckets.empty()) told.push_back({left, &account});
  }
  const size_t shown = std::min<size_t>(told.size(), kModelsExplainedMax);
  std::partial_sort(told.begin(), told.begin() + static_cast<std::ptrdiff_t>(shown), told.end(),
                    [](const Told& a, const Told& b) {
                      return a.left != b.left ? a.left < b.left : a.account < b.account;
                    });
  for (size_t i = 0; i < shown; ++i) {
    const Account& account = *told[i].account;
    for (const Bucket& bucket : account.buckets) {
      parts.push_back(absl::StrCat(
          WithCommas(std::llround(bucket.whole)), " ", RateLimitName(bucket.unit, bucket.window),
          " as it told", account.model.empty() ? "" : absl::StrCat(" for ", account.model), ", ",
          WithCommas(std::llround(std::max(0.0, bucket.LevelAt(now)))), " left"));
    }
  }
  if (told.size() > shown) {
    parts.push_back(
        absl::StrCat("limits of ", told.size() - shown, " more models, of which more is left"));
  }
  if (finding_) {
    parts.push_back(absl::StrCat("about ", WithCommas(std::llround(std::ceil(FoundRate(now)))),
                                 " calls per second, since it refused more and told no limits"));
  }
  if (parts.empty()) return "";
  return absl::StrCat(
      "paced to ", absl::StrJoin(parts, "; "),
      share_ < 1 ? absl::StrFormat(", of which this worker has %.0f %%", 100 * share_) : "");
}

}  // namespace nightshift
