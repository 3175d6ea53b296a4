#include "client/sim/render.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json.h"

namespace nightshift {
namespace {

// Fixed, for an answer is a function of its request: no clock.
constexpr int64_t kCreated = 1790000000;

std::string Quoted(absl::string_view text) {
  std::string quoted;
  AppendJsonString(quoted, text);
  return quoted;
}

int64_t ChoicesOf(const SimRequest& request) { return request.inputs * request.choices; }

// Each choice has words of its own, and all begin with the mark.
SimText TextOf(const SimRequest& request, const SimReplyLength& length, int64_t choice) {
  return SimText(request.mark, request.hash + static_cast<uint64_t>(choice), length.tokens);
}

absl::string_view FinishReason(const SimReplyLength& length) {
  return length.truncated ? "length" : "stop";
}

std::string UsageMember(const SimRequest& request, int64_t completion_tokens) {
  return absl::StrCat("\"usage\":{\"prompt_tokens\":", request.prompt_tokens,
                      ",\"completion_tokens\":", completion_tokens,
                      ",\"total_tokens\":", request.prompt_tokens + completion_tokens, "}");
}

std::string TimeInfoMember(const SimTimeInfo& info) {
  return absl::StrFormat(
      "\"time_info\":{\"queue_time\":0.0001,\"prompt_time\":%.6f,\"completion_time\":%.6f,"
      "\"total_time\":%.6f,\"created\":%d}",
      absl::ToDoubleSeconds(info.prompt), absl::ToDoubleSeconds(info.completion),
      absl::ToDoubleSeconds(info.prompt + info.completion) + 0.0001, kCreated);
}

std::string Head(const SimRequest& request, absl::string_view prefix, absl::string_view object) {
  return absl::StrCat("{\"id\":\"", prefix, request.mark, "\",\"object\":\"", object,
                      "\",\"created\":", kCreated, ",\"model\":", Quoted(request.model), ",");
}

std::string RenderCompletion(const SimRequest& request, const SimReplyLength& length,
                             const SimTimeInfo* time_info) {
  const bool chat = request.endpoint == Endpoint::kChatCompletions;
  std::string out = chat ? Head(request, "chatcmpl-", "chat.completion")
                         : Head(request, "cmpl-", "text_completion");
  absl::StrAppend(&out, "\"choices\":[");
  for (int64_t i = 0; i < ChoicesOf(request); ++i) {
    absl::StrAppend(&out, i > 0 ? "," : "", "{\"index\":", i,
                    chat ? ",\"message\":{\"role\":\"assistant\",\"content\":\"" : ",\"text\":\"",
                    TextOf(request, length, i).whole(), chat ? "\"}" : "\"",
                    ",\"logprobs\":null,\"finish_reason\":\"", FinishReason(length), "\"}");
  }
  absl::StrAppend(&out, "],", UsageMember(request, length.tokens * ChoicesOf(request)));
  if (time_info != nullptr) absl::StrAppend(&out, ",", TimeInfoMember(*time_info));
  absl::StrAppend(&out, "}");
  return out;
}

std::string RenderEmbeddings(const SimRequest& request) {
  std::string out = absl::StrCat(Head(request, "embd-", "list"), "\"data\":[");
  for (int64_t i = 0; i < request.inputs; ++i) {
    absl::StrAppend(&out, i > 0 ? "," : "", "{\"object\":\"embedding\",\"index\":", i,
                    ",\"embedding\":[");
    const char* comma = "";
    for (const double number : SimEmbedding(request.hash, i)) {
      absl::StrAppend(&out, comma, absl::StrFormat("%.6f", number));
      comma = ",";
    }
    absl::StrAppend(&out, "]}");
  }
  absl::StrAppend(&out, "],\"usage\":{\"prompt_tokens\":", request.prompt_tokens,
                  ",\"total_tokens\":", request.prompt_tokens, "}}");
  return out;
}

std::string RenderModerations(const SimRequest& request) {
  std::string out = absl::StrCat("{\"id\":\"modr-", request.mark,
                                 "\",\"model\":", Quoted(request.model), ",\"results\":[");
  for (int64_t i = 0; i < request.inputs; ++i) {
    const double score = SimScore(request.hash, i) / 10;
    absl::StrAppend(&out, i > 0 ? "," : "",
                    "{\"flagged\":false,\"categories\":{\"violence\":false},\"category_scores\":"
                    "{\"violence\":",
                    absl::StrFormat("%.6f", score), "}}");
  }
  absl::StrAppend(&out, "]}");
  return out;
}

std::string RenderResponses(const SimRequest& request, const SimReplyLength& length) {
  return absl::StrCat(
      "{\"id\":\"resp_", request.mark, "\",\"object\":\"response\",\"created_at\":", kCreated,
      ",\"status\":\"", length.truncated ? "incomplete" : "completed", "\",\"incomplete_details\":",
      length.truncated ? "{\"reason\":\"max_output_tokens\"}" : "null",
      ",\"model\":", Quoted(request.model), ",\"output\":[{\"type\":\"message\",\"id\":\"msg_",
      request.mark, "\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":",
      "\"output_text\",\"text\":\"", TextOf(request, length, 0).whole(),
      "\",\"annotations\":[]}]}],\"usage\":{\"input_tokens\":", request.prompt_tokens,
      ",\"output_tokens\":", length.tokens,
      ",\"total_tokens\":", request.prompt_tokens + length.tokens, "}}");
}

std::string RenderMessages(const SimRequest& request, const SimReplyLength& length) {
  return absl::StrCat(
      "{\"id\":\"msg_", request.mark,
      "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", Quoted(request.model),
      ",\"content\":[{\"type\":\"text\",\"text\":\"", TextOf(request, length, 0).whole(),
      "\"}],\"stop_reason\":\"", length.truncated ? "max_tokens" : "end_turn",
      "\",\"stop_sequence\":null,\"usage\":{\"input_tokens\":", request.prompt_tokens,
      ",\"output_tokens\":", length.tokens, "}}");
}

std::string RenderRerank(const SimRequest& request) {
  std::vector<std::pair<double, int64_t>> scores;
  for (int64_t i = 0; i < request.inputs; ++i) scores.emplace_back(-SimScore(request.hash, i), i);
  std::sort(scores.begin(), scores.end());
  std::string out = absl::StrCat("{\"id\":\"rerank-", request.mark,
                                 "\",\"model\":", Quoted(request.model), ",\"results\":[");
  const char* comma = "";
  for (const auto& [negative, index] : scores) {
    absl::StrAppend(&out, comma, "{\"index\":", index,
                    ",\"relevance_score\":", absl::StrFormat("%.6f", -negative), "}");
    comma = ",";
  }
  absl::StrAppend(&out, "],\"usage\":{\"total_tokens\":", request.prompt_tokens, "}}");
  return out;
}

std::string RenderScores(const SimRequest& request) {
  std::string out = Head(request, "score-", "list");
  absl::StrAppend(&out, "\"data\":[");
  for (int64_t i = 0; i < request.inputs; ++i) {
    absl::StrAppend(&out, i > 0 ? "," : "", "{\"index\":", i, ",\"object\":\"score\",\"score\":",
                    absl::StrFormat("%.6f", SimScore(request.hash, i)), "}");
  }
  absl::StrAppend(&out, "],\"usage\":{\"prompt_tokens\":", request.prompt_tokens,
                  ",\"total_tokens\":", request.prompt_tokens, "}}");
  return out;
}

}  // namespace

std::string RenderError(SimProfile profile, const SimError& error) {
  const std::string param = error.param.empty() ? "null" : Quoted(error.param);
  if (profile == SimProfile::kCerebras) {
    return absl::StrCat("{\"message\":", Quoted(error.message), ",\"type\":", Quoted(error.type),
                        ",\"param\":", param, ",\"code\":", Quoted(error.code), "}");
  }
  const std::string code =
      profile == SimProfile::kGpu ? absl::StrCat(error.status) : Quoted(error.code);
  return absl::StrCat("{\"error\":{\"message\":", Quoted(error.message),
                      ",\"type\":", Quoted(error.type), ",\"param\":", param, ",\"code\":", code,
                      "}}");
}

std::string RenderAnswer(const SimRequest& request, const SimReplyLength& length,
                         const SimTimeInfo* time_info) {
  switch (request.endpoint) {
    case Endpoint::kEmbeddings:
      return RenderEmbeddings(request);
    case Endpoint::kResponses:
      return RenderResponses(request, length);
    case Endpoint::kModerations:
      return RenderModerations(request);
    case Endpoint::kMessages:
      return RenderMessages(request, length);
    case Endpoint::kRerank:
      return RenderRerank(request);
    case Endpoint::kScore:
      return RenderScores(request);
    case Endpoint::kChatCompletions:
    case Endpoint::kCompletions:
    case Endpoint::kUnspecified:
      break;
  }
  return RenderCompletion(request, length, time_info);
}

bool SimStream::Supports(Endpoint endpoint) {
  return endpoint == Endpoint::kChatCompletions || endpoint == Endpoint::kCompletions;
}

SimStream::SimStream(SimProfile profile, const SimRequest& request, const SimReplyLength& length)
    : profile_(profile), request_(request), length_(length), choices_(ChoicesOf(request)) {
  for (int64_t i = 0; i < choices_; ++i) texts_.push_back(TextOf(request, length, i));
}

std::string SimStream::Frame(int64_t choice, absl::string_view delta,
                             absl::string_view finish_reason, absl::string_view more) const {
  const bool chat = request_.endpoint == Endpoint::kChatCompletions;
  return absl::StrCat("data: ",
                      chat ? Head(request_, "chatcmpl-", "chat.completion.chunk")
                           : Head(request_, "cmpl-", "text_completion"),
                      "\"choices\":[{\"index\":", choice, ",", delta,
                      ",\"logprobs\":null,\"finish_reason\":", finish_reason, "}]", more, "}\n\n");
}

std::string SimStream::Open(int64_t choice) const {
  if (request_.endpoint != Endpoint::kChatCompletions) return "";
  return Frame(choice, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}", "null", "");
}

std::string SimStream::Delta(int64_t choice, int64_t begin, int64_t end) const {
  const absl::string_view piece = texts_[static_cast<size_t>(choice)].Piece(begin, end);
  const bool chat = request_.endpoint == Endpoint::kChatCompletions;
  return Frame(choice,
               chat ? absl::StrCat("\"delta\":{\"content\":\"", piece, "\"}")
                    : absl::StrCat("\"text\":\"", piece, "\""),
               "null", "");
}

std::string SimStream::Close(const SimTimeInfo* time_info) const {
  const bool chat = request_.endpoint == Endpoint::kChatCompletions;
  const std::string usage = UsageMember(request_, length_.tokens * choices_);
  std::string out;
  for (int64_t i = 0; i < choices_; ++i) {
    // Cerebras tells usage in its last frame, asked or not; the others in one of its own.
    const bool tell = profile_ == SimProfile::kCerebras && i + 1 == choices_;
    std::string more;
    if (tell) absl::StrAppend(&more, ",", usage);
    if (tell && time_info != nullptr) absl::StrAppend(&more, ",", TimeInfoMember(*time_info));
    absl::StrAppend(&out, Frame(i, chat ? "\"delta\":{}" : "\"text\":\"\"",
                                absl::StrCat("\"", FinishReason(length_), "\""), more));
  }
  if (request_.include_usage && profile_ != SimProfile::kCerebras) {
    absl::StrAppend(&out, "data: ",
                    chat ? Head(request_, "chatcmpl-", "chat.completion.chunk")
                         : Head(request_, "cmpl-", "text_completion"),
                    "\"choices\":[],", usage, "}\n\n");
  }
  absl::StrAppend(&out, "data: [DONE]\n\n");
  return out;
}

std::string SimStream::Failure() const {
  return "data: {\"error\":{\"message\":\"the engine died\",\"type\":\"server_error\","
         "\"param\":null,\"code\":503},\"status_code\":503}\n\n";
}

std::string RenderModels(const std::vector<std::string>& models, int64_t context_tokens) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  const char* comma = "";
  for (const std::string& model : models) {
    absl::StrAppend(&out, comma, "{\"id\":", Quoted(model),
                    ",\"object\":\"model\",\"created\":", kCreated,
                    ",\"owned_by\":\"sim\",\"max_model_len\":", context_tokens, "}");
    comma = ",";
  }
  absl::StrAppend(&out, "]}");
  return out;
}

}  // namespace nightshift
