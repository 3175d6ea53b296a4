#include "worker/backends/backend_spec.h"

#include <map>
#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/backends/backend_target.h"
#include "worker/backends/http_url.h"

namespace nightshift {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// GetEnv is a plain function, so the environment of a test is global.
std::map<std::string, std::string>& Environment() {
  static auto* const environment = new std::map<std::string, std::string>;
  return *environment;
}
const char* TestGetEnv(const char* name) {
  const auto found = Environment().find(name);
  return found == Environment().end() ? nullptr : found->second.c_str();
}

class BackendSpecTest : public ::testing::Test {
 protected:
  void SetUp() override { Environment().clear(); }
  BackendSpec Parse(const std::string& text) {
    absl::StatusOr<BackendSpec> spec = ParseBackendSpec(text, TestGetEnv);
    EXPECT_TRUE(spec.ok()) << text << ": " << spec.status();
    return spec.ok() ? *spec : BackendSpec();
  }
  std::string Refusal(const std::string& text,
                      absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    const absl::StatusOr<BackendSpec> spec = ParseBackendSpec(text, TestGetEnv);
    EXPECT_EQ(spec.status().code(), code) << text;
    return std::string(spec.status().message());
  }
};

TEST_F(BackendSpecTest, BaseUrlEndsBeforeTheEndpointsOwnPath) {
  const std::map<std::string, std::string> cases = {
      {"http://127.0.0.1:8000/v1", "http://127.0.0.1:8000"},
      {"http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000"},
      {"http://127.0.0.1:8000", "http://127.0.0.1:8000"},
      {"http://127.0.0.1:8000/", "http://127.0.0.1:8000"},
      {"HTTP://GPU7/v1", "http://gpu7"},
      {"https://api.example.com/openai/v1", "https://api.example.com/openai"},
      {"https://api.example.com/proxy/a", "https://api.example.com/proxy/a"},
      {"https://api.example.com/v1/chat/completions", "https://api.example.com"},
      {"http://[::1]:9000/v1", "http://[::1]:9000"},
      {"http://[2001:db8::7]/v1", "http://[2001:db8::7]"},
      {" http://gpu7:8000/v1 ", "http://gpu7:8000"},
      {"http://gpu7:8000/v10", "http://gpu7:8000/v10"},
  };
  for (const auto& [text, base_url] : cases) EXPECT_EQ(Parse(text).base_url, base_url) << text;
}

TEST_F(BackendSpecTest, NamesAreShortAndTellBackendsApart) {
  EXPECT_EQ(Parse("http://127.0.0.1:8000/v1").name, "127.0.0.1:8000");
  EXPECT_EQ(Parse("https://api.example.com/v1").name, "api.example.com");
  EXPECT_EQ(Parse("http://[::1]:9000").name, "[::1]:9000");
  EXPECT_EQ(Parse("http://gw:80/a/v1").name, "gw:80/a");
  EXPECT_EQ(Parse("https://api.cerebras.ai/v1").name, "cerebras");
}

TEST_F(BackendSpecTest, KindsGoInFrontOfTheUrl) {
  EXPECT_EQ(Parse("http://gpu7:8000/v1").kind, "openai");
  for (const char* kind :
       {"openai", "cerebras", "vllm", "sglang", "llamacpp", "tgi", "triton", "ollama", "trtllm"}) {
    EXPECT_EQ(Parse(std::string(kind) + "=http://gpu7:8000/v1").kind, kind);
    EXPECT_EQ(Parse(std::string(kind) + "=http://gpu7:8000/v1").base_url, "http://gpu7:8000");
  }
  EXPECT_THAT(Refusal("vlm=http://gpu7:8000"),
              AllOf(HasSubstr("\"vlm\" is no kind"), HasSubstr("vllm, sglang")));
}

// The path says which of a kind's protocols is meant, and what says so is not part of the base.
TEST_F(BackendSpecTest, PathsOfUrlsChooseTheProtocol) {
  struct Row {
    const char* text;
    BackendRoute route;
    const char* base_url;
  };
  for (const Row& row : {
           Row{"http://h:1", BackendRoute::kDetected, "http://h:1"},
           Row{"http://h:1/v1", BackendRoute::kOpenAi, "http://h:1"},
           Row{"vllm=http://h:1", BackendRoute::kOpenAi, "http://h:1"},
           Row{"sglang=http://h:1", BackendRoute::kOpenAi, "http://h:1"},
           Row{"sglang=http://h:1/generate", BackendRoute::kNative, "http://h:1"},
           Row{"tgi=http://h:1/generate_stream", BackendRoute::kNative, "http://h:1"},
           Row{"llamacpp=http://h:1/a/completion", BackendRoute::kNative, "http://h:1/a"},
           Row{"triton=http://h:1", BackendRoute::kNative, "http://h:1"},
           Row{"triton=http://h:1/v2/", BackendRoute::kNative, "http://h:1"},
           Row{"triton=http://h:9000/v1", BackendRoute::kOpenAi, "http://h:9000"},
           Row{"ollama=http://h:1", BackendRoute::kNative, "http://h:1"},
           Row{"ollama=http://h:1/api/chat", BackendRoute::kNative, "http://h:1"},
           Row{"ollama=http://h:1/v1", BackendRoute::kOpenAi, "http://h:1"},
       }) {
    const BackendSpec spec = Parse(row.text);
    EXPECT_EQ(static_cast<int>(spec.route), static_cast<int>(row.route)) << row.text;
    EXPECT_EQ(spec.base_url, row.base_url) << row.text;
    EXPECT_EQ(spec.kind_given, absl::StrContains(row.text, '=')) << row.text;
  }
}

TEST_F(BackendSpecTest, AzureHasDeploymentsAndAVersion) {
  const BackendSpec resource = Parse("azure=https://r.openai.azure.com");
  EXPECT_EQ(resource.base_url, "https://r.openai.azure.com");
  EXPECT_EQ(resource.query, "?api-version=2024-10-21");
  const BackendSpec copied = Parse(
      "azure=https://r.openai.azure.com/openai/deployments/d/chat/"
      "completions?api-version=2025-01-01");
  EXPECT_EQ(copied.base_url, "https://r.openai.azure.com");
  EXPECT_EQ(copied.query, "?api-version=2025-01-01");
  const BackendSpec newer = Parse("azure=https://r.openai.azure.com/openai/v1");
  EXPECT_EQ(newer.base_url, "https://r.openai.azure.com/openai");
  EXPECT_EQ(newer.query, "");
  EXPECT_THAT(Refusal("azure=https://r.openai.azure.com?key=secret"), Not(HasSubstr("secret")));
  EXPECT_THAT(Refusal("azure=https://r.openai.azure.com?api-version=a%0d"), HasSubstr("character"));
  Environment()["AZURE_OPENAI_API_KEY"] = "az";
  EXPECT_EQ(Parse("azure=https://r.openai.azure.com").api_key, "az");
  EXPECT_EQ(Parse("vllm=https://r.openai.azure.com").api_key, "");
}

TEST(HttpUrlTest, StepsOfPathsAreEscaped) {
  EXPECT_EQ(UrlStep("Org/Model-1.5_b~"), "Org%2FModel-1.5_b~");
  EXPECT_EQ(UrlStep("a b?c#\xC3\xA4"), "a%20b%3Fc%23%C3%A4");
}

TEST_F(BackendSpecTest, SimHasNoAddress) {
  EXPECT_EQ(Parse("sim").kind, "sim");
  EXPECT_EQ(Parse("sim").name, "sim");
  EXPECT_EQ(Parse("sim").base_url, "");
}

TEST_F(BackendSpecTest, RefusesWithOneSentenceEach) {
  EXPECT_THAT(Refusal(""), HasSubstr("empty"));
  EXPECT_THAT(Refusal("ftp://h/v1"), HasSubstr("not ftp://"));
  EXPECT_THAT(Refusal("127.0.0.1:8000"), HasSubstr("begins with http://"));
  EXPECT_THAT(Refusal("vllm=gpu7:8000"), HasSubstr("begins with http://"));
  EXPECT_THAT(Refusal("http://h/v1?api=secret1"),
              AllOf(HasSubstr("query"), Not(HasSubstr("secret1"))));
  EXPECT_THAT(Refusal("http://me:secret2@h/v1"),
              AllOf(HasSubstr("password"), Not(HasSubstr("secret2"))));
  EXPECT_THAT(Refusal("http://h/v1#x"), HasSubstr("fragment"));
  EXPECT_THAT(Refusal("http:///v1"), HasSubstr("no host"));
  EXPECT_THAT(Refusal("http://h:99999/v1"), HasSubstr("port"));
  EXPECT_THAT(Refusal("http://h:0/v1"), HasSubstr("port"));
  EXPECT_THAT(Refusal("http://a b/v1"), HasSubstr("blanks"));
  EXPECT_THAT(Refusal("http://[::1/v1"), HasSubstr("URL"));
  EXPECT_THAT(Refusal("vllm"), HasSubstr("--backend vllm=http://HOST:PORT"));
  EXPECT_THAT(Refusal("bigbox"), HasSubstr("configuration file"));
}

TEST_F(BackendSpecTest, CerebrasAloneNeedsItsKey) {
  const std::string missing = Refusal("cerebras", absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(missing, AllOf(HasSubstr("no API key for backend \"cerebras\""),
                             HasSubstr("CEREBRAS_API_KEY (not set)"), HasSubstr("--backend sim")));
  Environment()["CEREBRAS_API_KEY"] = " ";
  EXPECT_THAT(Refusal("cerebras", absl::StatusCode::kFailedPrecondition), HasSubstr("(empty)"));
  Environment()["CEREBRAS_API_KEY"] = "csk-1\n";
  const BackendSpec spec = Parse("cerebras");
  EXPECT_EQ(spec.name, "cerebras");
  EXPECT_EQ(spec.kind, "cerebras");
  EXPECT_EQ(spec.base_url, "https://api.cerebras.ai");
  EXPECT_EQ(spec.api_key, "csk-1");
}

// A key goes only to the kind of server that it was made for.
TEST_F(BackendSpecTest, KeysGoWhereTheyBelong) {
  Environment()["OPENAI_API_KEY"] = "openai";
  Environment()["CEREBRAS_API_KEY"] = "cerebras";
  EXPECT_EQ(Parse("https://api.openai.com/v1").api_key, "openai");
  EXPECT_EQ(Parse("http://gpu7:8000/v1").api_key, "");
  EXPECT_EQ(Parse("https://127.0.0.1:8000/v1").api_key, "");
  EXPECT_EQ(Parse("https://localhost:8000/v1").api_key, "");
  EXPECT_EQ(Parse("vllm=https://gpu7/v1").api_key, "");
  EXPECT_EQ(Parse("cerebras=http://127.0.0.1:8000").api_key, "cerebras");
  Environment()["NIGHTSHIFT_API_KEY"] = "ours";
  EXPECT_EQ(Parse("https://api.openai.com/v1").api_key, "ours");
  EXPECT_EQ(Parse("http://127.0.0.1:8000/v1").api_key, "ours");
  EXPECT_EQ(Parse("vllm=http://gpu7/v1").api_key, "ours");
  EXPECT_EQ(Parse("cerebras=http://127.0.0.1:8000").api_key, "cerebras");
}

// A line end inside a key would become a header of somebody else's choice.
TEST_F(BackendSpecTest, KeysWithControlCharactersAreRefusedWithoutShowingThem) {
  Environment()["NIGHTSHIFT_API_KEY"] = "abc\r\nx-evil: 1";
  EXPECT_THAT(Refusal("http://gpu7/v1"),
              AllOf(HasSubstr("NIGHTSHIFT_API_KEY"), Not(HasSubstr("evil"))));
}

TEST(HttpUrlTest, KnowsThisMachine) {
  for (const char* url : {"http://localhost:1", "http://127.0.0.1", "http://127.8.8.8",
                          "http://[::1]:1", "https://a.localhost", "http://LOCALHOST"})
    EXPECT_TRUE(ParseHttpUrl(url)->loopback) << url;
  for (const char* url : {"http://10.0.0.1", "http://example.com", "http://localhost.example.com",
                          "http://[2001:db8::1]"})
    EXPECT_FALSE(ParseHttpUrl(url)->loopback) << url;
}

TEST(BackendTargetTest, CostNeedsThePricesThatMatter) {
  const auto cost = [](double prompt_price, double completion_price, int64_t prompt,
                       int64_t completion) {
    BackendSpec spec;
    spec.base_url = "http://h";
    spec.price_prompt_per_million = prompt_price;
    spec.price_completion_per_million = completion_price;
    return (*BackendTarget::Create(spec))->Cost(prompt, completion);
  };
  EXPECT_DOUBLE_EQ(cost(2, 10, 1000000, 500000), 7);
  EXPECT_DOUBLE_EQ(cost(0, 0, 1000, 1000), 0);
  EXPECT_DOUBLE_EQ(cost(2, -1, 500000, 0), 1);  // embeddings have no completion
  EXPECT_LT(cost(2, -1, 500000, 1), 0);
  EXPECT_LT(cost(-1, 10, 1, 1), 0);
  EXPECT_LT(cost(-1, -1, 0, 0), 0);
}

TEST(BackendTargetTest, UrlsAreMadeOfBaseAndEndpoint) {
  BackendSpec spec;
  spec.base_url = "http://h:1/base";
  const auto target = BackendTarget::Create(spec);
  ASSERT_TRUE(target.ok());
  const auto text = [&](Endpoint endpoint) {
    char* whole = nullptr;
    EXPECT_EQ(curl_url_get((*target)->url(endpoint), CURLUPART_URL, &whole, 0), CURLUE_OK);
    const std::string copy = whole == nullptr ? "" : whole;
    curl_free(whole);
    return copy;
  };
  EXPECT_EQ(text(Endpoint::kChatCompletions), "http://h:1/base/v1/chat/completions");
  EXPECT_EQ(text(Endpoint::kScore), "http://h:1/base/v1/score");
  EXPECT_EQ((*target)->url(Endpoint::kUnspecified), nullptr);
}

TEST_F(BackendSpecTest, RateLimitsAreAListWithCommas) {
  BackendSpec spec;
  EXPECT_TRUE(AddRateLimits("", &spec).ok());
  EXPECT_TRUE(AddRateLimits("tokens/minute=1000000, requests/day=5000", &spec).ok());
  ASSERT_EQ(spec.rate_limits.size(), 2u);
  EXPECT_EQ(spec.rate_limits[0].limit, 1'000'000);
  EXPECT_EQ(spec.rate_limits[1].window, absl::Hours(24));
  EXPECT_EQ(AddRateLimits("tokens/minute=5,words/day=5", &spec).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace nightshift
