#include "job/ssh_command.h"

#include <filesystem>

#include <gmock/gmock.h>

#include "base/subprocess.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using testing::StatusIs;
using testing::TempDir;

constexpr const char* kNasty[] = {"",      " ",     "a b",   "it's",     "'",     "''", "\"x\"",
                                  "$HOME", "`id`",  "$(id)", "a;b",      "a&&b",  "*",  "~",
                                  "\\",    "a\\'b", "a\nb",  "#x",       "-n",    "!!", "%s",
                                  "{a,b}", "a\tb",  "<x",    "\xc3\xa9", "a=b c", "|",  "[a]"};

TEST(ShellQuote, LeavesPlainWordsReadable) {
  EXPECT_EQ(ShellQuote("--model=vgg16"), "--model=vgg16");
  EXPECT_EQ(ShellQuote(""), "''");
  EXPECT_EQ(ShellQuote("it's"), "'it'\\''s'");
}

TEST(ShellJoin, EveryWordComesOutOfAShellAsItWentIn) {
  std::vector<std::string> words{"printf", "<%s>\\n"};
  std::string expected;
  for (const char* word : kNasty) {
    words.emplace_back(word);
    expected += std::string("<") + word + ">\n";
  }
  const auto result = RunCommand({.argv = {"sh", "-c", ShellJoin(words)}}, 10s);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->out, expected);
}

TEST(BuildSshCommand, IsBatchModeAndOneCommandLine) {
  const auto argv = BuildSshCommand(
      {.ssh = "ssh -p 2222", .host = "me@node1", .directory = "/my dir", .argv = {"w", "train"}});
  ASSERT_THAT(argv, IsOk());
  EXPECT_THAT(*argv, ElementsAre("ssh", "-p", "2222", "-o", "BatchMode=yes", "me@node1", "--",
                                 HasSubstr("cd -- '/my dir' && exec sh -c ")));
  EXPECT_THAT(argv->back(), HasSubstr(" paceline env w train"));
}

TEST(BuildSshCommand, RefusesWhatSshWouldMisunderstand) {
  const auto status = [](const RemoteCommand& command) {
    return BuildSshCommand(command).status();
  };
  for (const char* host : {"", "-oProxyCommand=reboot", "a b", "a;b", "me@", "@a", "-x@a"}) {
    EXPECT_THAT(status({.host = host, .argv = {"w"}}),
                StatusIs(Code::kInvalidArgument, HasSubstr("no host for ssh")))
        << host;
  }
  EXPECT_THAT(status({.host = "a"}), StatusIs(Code::kInvalidArgument, HasSubstr("no program")));
  EXPECT_THAT(status({.host = "a", .argv = {"A=b"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("'A=b' is no name of a program")));
  EXPECT_THAT(status({.ssh = " ", .host = "a", .argv = {"w"}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("--ssh")));
  for (const char* name : {"", "A B", "1A", "-u"}) {
    EXPECT_THAT(status({.host = "a", .argv = {"w"}, .environment = {{name, "x"}}}),
                StatusIs(Code::kInvalidArgument, HasSubstr("no name of a variable")))
        << name;
  }
  EXPECT_THAT(status({.host = "a", .argv = {"w"}, .environment = {{"PACELINE_SECRET", "x"}}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("secret")));
}

// A program that does with its arguments what ssh and the shell on the other side do.
class SshCommandTest : public ::testing::Test {
 protected:
  SshCommandTest() {
    testing::WriteFile(dir_ / "ssh", "#!/bin/sh\nshift 4\nexec sh -c \"$*\"\n");
    std::filesystem::permissions(dir_ / "ssh", std::filesystem::perms::owner_all);
  }

  // The process over there, with its stdin in our hands.
  Result<Subprocess> Start(RemoteCommand command) {
    command.ssh = dir_ / "ssh";
    command.host = "node1";
    PACELINE_ASSIGN(auto argv, BuildSshCommand(command));
    return Subprocess::Start({.argv = std::move(argv), .own_group = true, .pipe_stdin = true});
  }

  TempDir dir_;
};

TEST_F(SshCommandTest, WordsAndVariablesArriveAsTheyAre) {
  RemoteCommand command{.directory = dir_.path().string(),
                        .argv = {"sh", "-c", "pwd; printf '<%s>' \"$A\" \"$@\"", "x"}};
  command.environment["A"] = "it's $HOME\n";
  std::string expected = "<it's $HOME\n>";
  for (const char* word : kNasty) {
    command.argv.emplace_back(word);
    expected += std::string("<") + word + ">";
  }
  auto child = Start(command);
  ASSERT_THAT(child, IsOk());
  const auto state = child->Wait(10s);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->code, 0);
  const auto output = child->ReadAll(10s);
  ASSERT_THAT(output, IsOk());
  EXPECT_EQ(output->out, dir_.path().string() + "\n" + expected);
}

TEST_F(SshCommandTest, TheSecretComesOnStdinAndIsInNoCommandLine) {
  auto child =
      Start({.argv = {"sh", "-c",
                      "IFS= read -r s; printf '%s %s\\n' $PACELINE_SECRET_STDIN \"$s\"; cat; "
                      "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"},
             .secret_on_stdin = true});
  ASSERT_THAT(child, IsOk());
  ASSERT_THAT(child->WriteLine("s3cr\\et  x"), IsOk());
  const auto line = child->ReadLine(10s);
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(*line, "1 s3cr\\et  x");
  ASSERT_THAT(child->Wait(10s), IsOk());
  const auto rest = child->ReadAll(10s);
  ASSERT_THAT(rest, IsOk());
  EXPECT_THAT(rest->out, HasSubstr("PACELINE_SECRET_STDIN=1"));  // other command lines were seen
  EXPECT_THAT(rest->out, Not(HasSubstr("s3cr\\et")));
}

TEST_F(SshCommandTest, WithoutASecretStdinIsEmpty) {
  auto child = Start({.argv = {"sh", "-c", "cat; echo \"<$PACELINE_SECRET_STDIN>\""}});
  ASSERT_THAT(child, IsOk());
  const auto line = child->ReadLine(10s);
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(*line, "<>");
}

TEST_F(SshCommandTest, TheExitCodeComesBack) {
  for (const auto& [script, code] :
       {std::pair("exit 0", 0), {"exit 13", 13}, {"kill -9 $$", 137}}) {
    auto child = Start({.argv = {"sh", "-c", script}});
    ASSERT_THAT(child, IsOk());
    const auto state = child->Wait(10s);
    ASSERT_THAT(state, IsOk());
    EXPECT_EQ(state->code, code) << script;
  }
}

TEST_F(SshCommandTest, TheEndOfStdinEndsTheProcess) {
  for (const bool secret : {false, true}) {
    auto child =
        Start({.argv = {"sh", "-c", "echo ready; exec sleep 1000"}, .secret_on_stdin = secret});
    ASSERT_THAT(child, IsOk());
    if (secret) {
      ASSERT_THAT(child->WriteLine("x"), IsOk());
    }
    ASSERT_THAT(child->ReadLine(10s), IsOk());
    child->CloseStdin();
    const auto state = child->Wait(10s);
    ASSERT_THAT(state, IsOk());
    EXPECT_EQ(state->code, 128 + 15);
  }
}

TEST_F(SshCommandTest, AProcessThatDoesNotStopIsKilled) {
  auto child =
      Start({.argv = {"sh", "-c", "trap '' TERM; echo ready; exec sleep 1000"}, .grace = 0s});
  ASSERT_THAT(child, IsOk());
  ASSERT_THAT(child->ReadLine(10s), IsOk());
  child->CloseStdin();
  const auto state = child->Wait(10s);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->code, 128 + 9);
}

}  // namespace
}  // namespace paceline::job
