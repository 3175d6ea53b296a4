#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/backends/loop_fixture.h"
#include "tests/worker/backends/scripted_server.h"

namespace nightshift {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Reply = ScriptedServer::Reply;
using Request = ScriptedServer::Request;

bool Asks(const Request& request, const std::string& path) {
  return absl::StartsWith(request.head, absl::StrCat("GET ", path, " "));
}
Reply Answer(int status, const std::string& body, const std::string& headers = "") {
  return {.bytes = ScriptedServer::Response(status, body, headers)};
}
BackendProbe Probe(const ScriptedServer& server) {
  return ProbeBackend(LoopFixture::Spec(server.url()), absl::Seconds(20));
}

TEST(ProbeTest, ListsModelsAndRecognizesTheServer) {
  ScriptedServer server([](const Request&) {
    return Answer(200, R"({"object":"list","data":[{"id":"m1","owned_by":"vllm"},{"id":"m2"}]})");
  });
  BackendSpec spec = LoopFixture::Spec(server.url());
  spec.api_key = "k";
  const BackendProbe probe = ProbeBackend(spec, absl::Seconds(20));
  EXPECT_TRUE(probe.reachable);
  EXPECT_FALSE(probe.loading);
  EXPECT_FALSE(probe.key_refused);
  EXPECT_THAT(probe.models, ElementsAre("m1", "m2"));
  EXPECT_EQ(probe.server, "vLLM");
  EXPECT_EQ(probe.detail, "");
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_THAT(server.requests()[0].head, HasSubstr("Authorization: Bearer k\r\n"));
}

TEST(ProbeTest, ServersWithoutASignAreAskedForTheirOwnPaths) {
  std::string path;
  std::string body;
  ScriptedServer server([&](const Request& request) {
    if (Asks(request, "/v1/models")) return Answer(200, R"({"data":[{"id":"m"}]})");
    if (Asks(request, path)) return Answer(200, body);
    return Answer(404, "");
  });
  path = "/props";
  body = R"({"default_generation_settings":{}})";
  EXPECT_EQ(Probe(server).server, "llama.cpp");
  EXPECT_EQ(Probe(server).kind, "llamacpp");
  path = "/api/version";
  body = R"({"version":"0.9"})";
  EXPECT_EQ(Probe(server).server, "Ollama");
  path = "/info";
  body = R"({"max_concurrent_requests":128})";
  EXPECT_EQ(Probe(server).server, "TGI");
  path = "/nothing";
  const BackendProbe unknown = Probe(server);
  EXPECT_EQ(unknown.server, "");
  EXPECT_TRUE(unknown.reachable);
}

TEST(ProbeTest, LoadingIsNotDead) {
  ScriptedServer server([](const Request&) {
    return Answer(503,
                  R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})",
                  "Server: llama.cpp\r\n");
  });
  const BackendProbe probe = Probe(server);
  EXPECT_TRUE(probe.reachable);
  EXPECT_TRUE(probe.loading);
  EXPECT_THAT(probe.models, IsEmpty());
  EXPECT_EQ(probe.server, "llama.cpp");
  EXPECT_EQ(probe.detail, "HTTP status 503: Loading model");
}

TEST(ProbeTest, HealthDecidesWhereModelsAreNotListed) {
  int health = 503;
  ScriptedServer server(
      [&](const Request& request) { return Answer(Asks(request, "/health") ? health : 404, ""); });
  EXPECT_TRUE(Probe(server).loading);
  health = 200;
  const BackendProbe probe = Probe(server);
  EXPECT_TRUE(probe.reachable);
  EXPECT_FALSE(probe.loading);
  EXPECT_THAT(probe.models, IsEmpty());
  EXPECT_THAT(probe.detail, HasSubstr("404"));
}

TEST(ProbeTest, RefusedKeyIsTold) {
  for (const int status : {401, 403}) {
    ScriptedServer server(
        [status](const Request&) { return Answer(status, R"({"detail":"Not authenticated"})"); });
    const BackendProbe probe = Probe(server);
    EXPECT_TRUE(probe.reachable);
    EXPECT_TRUE(probe.key_refused);
    EXPECT_EQ(probe.detail, absl::StrCat("HTTP status ", status, ": Not authenticated"));
  }
}

TEST(ProbeTest, NobodyThere) {
  std::string url;
  {
    ScriptedServer gone([](const Request&) { return Answer(200, ""); });
    url = gone.url();
  }
  const BackendProbe probe = ProbeBackend(LoopFixture::Spec(url), absl::Seconds(20));
  EXPECT_FALSE(probe.reachable);
  EXPECT_EQ(probe.detail, "connection refused");
}

TEST(ProbeTest, SilenceIsBounded) {
  ScriptedServer server([](const Request&) {
    Reply reply = Answer(200, "");
    reply.hold = true;
    return reply;
  });
  const BackendProbe probe = ProbeBackend(LoopFixture::Spec(server.url()), absl::Milliseconds(50));
  EXPECT_FALSE(probe.reachable);
  EXPECT_THAT(probe.detail, HasSubstr("no answer within"));
}

TEST(ProbeTest, SomethingElseThereIsReachableAndSaysSo) {
  ScriptedServer server([](const Request&) { return Answer(200, "<html>welcome</html>"); });
  const BackendProbe probe = Probe(server);
  EXPECT_TRUE(probe.reachable);
  EXPECT_THAT(probe.models, IsEmpty());
  EXPECT_THAT(probe.detail, HasSubstr("something else"));
}

}  // namespace
}  // namespace nightshift
