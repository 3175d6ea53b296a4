#include "client/cli/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/suggest.h"

namespace nightshift {
namespace {

bool TakesValue(const FlagSpec* flag) { return flag != nullptr && flag->type != FlagType::kSwitch; }

const FlagSpec* FindShort(char name) {
  for (const FlagSpec& flag : AllFlags()) {
    if (flag.short_name == name) return &flag;
  }
  return nullptr;
}

// Whether the word after this flag is its value.
bool NextIsValue(const std::string& word) {
  if (absl::StartsWith(word, "--")) {
    return word.find('=') == std::string::npos && TakesValue(FindFlag(word.substr(2), nullptr));
  }
  // A cluster of short flags: the first that takes a value takes the rest of the word, if any.
  for (size_t i = 1; i < word.size(); ++i) {
    if (TakesValue(FindShort(word[i]))) return i + 1 == word.size();
  }
  return false;
}

bool IsFlag(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

// Where the command stands in `words` (which begins with the program's name); 0 when nowhere.
size_t CommandAt(const std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--") return 0;
    if (!IsFlag(words[i])) return i;
    if (NextIsValue(words[i])) ++i;
  }
  return 0;
}

// A look without parsing, for the cases in which parsing fails.
bool Mentions(const std::vector<std::string>& words, absl::string_view one,
              absl::string_view other) {
  for (size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] == one || (!other.empty() && words[i] == other)) return true;
  }
  return false;
}

std::string Usage(const CommandSpec& command) {
  return absl::StrCat("nightshift ", command.name, *command.positionals != '\0' ? " " : "",
                      command.positionals);
}

Failure UnknownCommand(const std::string& word) {
  std::vector<std::string> known;
  for (const CommandSpec& command : AllCommands()) known.emplace_back(command.name);
  const std::string nearest = Nearest(word, known);
  return UsageFailure(absl::StrCat("unknown command \"", word, "\""),
                      nearest.empty() ? "nightshift help lists the commands"
                                      : absl::StrCat("did you mean nightshift ", nearest, "?"));
}

Failure UnknownFlag(const CommandSpec* command, const std::string& word) {
  const std::string name(absl::StripPrefix(word.substr(0, word.find('=')), "--"));
  if (const FlagSpec* const elsewhere = FindFlag(name, nullptr);
      elsewhere != nullptr && command != nullptr) {
    std::vector<std::string> takers;
    for (const CommandSpec& other : AllCommands()) {
      if (FindFlag(name, &other) != nullptr) takers.emplace_back(other.name);
    }
    return UsageFailure(absl::StrCat(Usage(*command), " has no option --", name),
                        absl::StrCat("it belongs to ", absl::StrJoin(takers, ", ")));
  }
  std::vector<std::string> known;
  for (const FlagSpec& flag : AllFlags()) {
    if (command == nullptr ? IsShared(flag) : (flag.commands & command->bit) != 0)
      known.emplace_back(flag.name);
  }
  const std::string nearest = Nearest(name, known);
  const std::string help =
      command == nullptr ? "nightshift help" : absl::StrCat("nightshift help ", command->name);
  return UsageFailure(absl::StrCat("unknown option ", word.substr(0, word.find('='))),
                      nearest.empty() ? absl::StrCat(help, " lists the options")
                                      : absl::StrCat("did you mean --", nearest, "?"));
}

bool CheckPositionals(const CommandSpec& command, const std::vector<std::string>& found,
                      Failure* failure) {
  // "INPUT", "[JOB]", "create|list|restore [BACKUP]": words in capitals stand for anything, the
  // others for themselves, and those in brackets may be missing.
  const std::vector<std::string> all = absl::StrSplit(command.positionals, ' ', absl::SkipEmpty());
  if (found.size() > all.size()) {
    const size_t most = all.size();
    *failure = UsageFailure(absl::StrCat("\"", found[most], "\" is one word too many"),
                            absl::StrCat("usage: ", Usage(command)));
    return false;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i][0] == '[') continue;
    if (i >= found.size()) {
      *failure = UsageFailure(absl::StrCat("nightshift ", command.name, " needs ", all[i]),
                              absl::StrCat("usage: ", Usage(command), "; nightshift help ",
                                           command.name, " has examples"));
      return false;
    }
    const std::vector<std::string> words = absl::StrSplit(all[i], '|');
    if (absl::ascii_islower(static_cast<unsigned char>(all[i][0])) &&
        std::find(words.begin(), words.end(), found[i]) == words.end()) {
      *failure = UsageFailure(absl::StrCat("unknown word \"", found[i], "\""),
                              absl::StrCat("usage: ", Usage(command)));
      return false;
    }
  }
  return true;
}

// What CLI11 found, taken out of its hands: it knows neither our sources of values nor our codes.
struct RawParse {
  Settings::Given given;
  std::vector<std::string> rest;  // unknown flags, positionals and "--", in order
};

void ParseFlags(const CommandSpec* command, const std::vector<std::string>& arguments,
                RawParse* raw) {
  CLI::App app;
  app.set_help_flag("");
  app.allow_extras(true);
  std::map<std::string, std::vector<std::string>> values;
  std::vector<std::pair<std::string, CLI::Option*>> switches;
  for (const FlagSpec& flag : AllFlags()) {
    if (command == nullptr
            ? !IsShared(flag)
            : (flag.commands & command->bit) == 0 && command->name != std::string("config"))
      continue;
    if (app.get_option_no_throw(absl::StrCat("--", flag.name)) != nullptr) continue;
    std::string names = absl::StrCat("--", flag.name);
    if (flag.short_name != 0 &&
        app.get_option_no_throw(std::string{'-', flag.short_name}) == nullptr)
      names = absl::StrCat("-", std::string(1, flag.short_name), ",", names);
    if (flag.type == FlagType::kSwitch) {
      switches.emplace_back(flag.name, app.add_flag(names));
    } else {
      app.add_option(names, values[flag.name])->allow_extra_args(false);
    }
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  app.parse(reversed);
  for (auto& [name, texts] : values) {
    if (!texts.empty()) raw->given[name] = std::move(texts);
  }
  for (const auto& [name, option] : switches) {
    if (option->count() > 0) raw->given[name] = option->results();
  }
  raw->rest = app.remaining();
}

}  // namespace

std::variant<Invocation, ParseFailure> ParseCommandLine(int argc, const char* const* argv) {
  Invocation invocation;
  invocation.words.assign(argv, argv + argc);
  const std::vector<std::string>& words = invocation.words;
  const bool help = Mentions(words, "-h", "--help");
  const auto refuse = [&](Failure failure) {
    return ParseFailure{std::move(failure), Mentions(words, "--json", "")};
  };

  const size_t at = CommandAt(words);
  if (at != 0) {
    invocation.command = FindCommand(words[at]);
    if (invocation.command == nullptr) return refuse(UnknownCommand(words[at]));
  }
  std::vector<std::string> arguments;
  for (size_t i = 1; i < words.size(); ++i) {
    if (at == 0 && words[i] == "--version")
      invocation.version = true;
    else if (at == 0 || i != at)
      arguments.push_back(words[i]);
  }

  RawParse raw;
  try {
    ParseFlags(invocation.command, arguments, &raw);
  } catch (const CLI::Error& e) {
    if (!help) {
      std::string text = e.what();
      return refuse(UsageFailure(std::move(text),
                                 invocation.command == nullptr
                                     ? ""
                                     : absl::StrCat("nightshift help ", invocation.command->name,
                                                    " explains the options")));
    }
  }
  bool ended = false;
  for (const std::string& word : raw.rest) {
    if (!ended && word == "--") {
      ended = true;
    } else if (!ended && IsFlag(word)) {
      if (!help) return refuse(UnknownFlag(invocation.command, word));
    } else {
      invocation.positionals.push_back(word);
    }
  }
  for (const auto& [name, values] : raw.given) {
    for (const std::string& value : values) {
      if (absl::StartsWith(value, "--") && FindFlag(value.substr(2), nullptr) != nullptr && !help)
        return refuse(UsageFailure(absl::StrCat("--", name, " needs a value before ", value),
                                   absl::StrCat("or, if it is the value: --", name, "=", value)));
    }
  }
  if (help) {
    invocation.help = true;
    return invocation;
  }
  if (invocation.command == nullptr) {
    if (!invocation.positionals.empty()) return refuse(UnknownCommand(invocation.positionals[0]));
  } else {
    Failure failure;
    if (!CheckPositionals(*invocation.command, invocation.positionals, &failure))
      return refuse(std::move(failure));
  }
  // Without a command the shared flags still count: `nightshift --version --json`.
  const std::string name = invocation.command == nullptr ? "version" : invocation.command->name;
  absl::StatusOr<Settings> settings =
      Settings::Resolve(name == "config" ? nullptr : FindCommand(name), raw.given,
                        /*files=*/name != "version" && name != "help");
  if (!settings.ok()) {
    Failure failure = UsageFailure(std::string(settings.status().message()));
    return refuse(std::move(failure));
  }
  invocation.settings = *std::move(settings);
  return invocation;
}

}  // namespace nightshift
