// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/pipeline.h"

#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

// A pass that leaves the graph unchanged, counts its runs in `runs`, and claims a change in its
// first `changes` runs.
class TestPass : public Pass {
 public:
  explicit TestPass(std::string name = "test", int changes = 0, Facts needs = 0, Facts gives = 0)
      : name_(std::move(name)), needs_(needs), gives_(gives), changes_(changes) {}
  absl::string_view name() const override { return name_; }
  Facts needs() const override { return needs_; }
  Facts gives() const override { return gives_; }
  absl::StatusOr<bool> Run(Compilation& c) override {
    ++runs;
    return changes_-- > 0;
  }

  static inline int runs = 0;

 private:
  const std::string name_;
  const Facts needs_, gives_;
  int changes_;
};

class Optional final : public TestPass {
 public:
  Optional() : TestPass("optional", 2) {}
  bool optional() const override { return true; }
};
class ChangesThrice final : public TestPass {
 public:
  ChangesThrice() : TestPass("changes_thrice", 3) {}
};
class NeverStable final : public TestPass {
 public:
  NeverStable() : TestPass("never_stable", 1 << 20) {}
};

TEST(PipelineTest, RunsStageUntilNoPassChangesAnything) {
  Pipeline p;
  p.AddUntilStable<Optional, ChangesThrice>(8);
  Compilation c;
  TestPass::runs = 0;
  ASSERT_TRUE(p.Run(c).ok());
  EXPECT_EQ(TestPass::runs, 2 * 4);  // two passes; three rounds with changes and one without
}

TEST(PipelineTest, ReportsStageThatDoesNotBecomeStable) {
  Pipeline p;
  p.AddUntilStable<Optional, NeverStable>(8);
  Compilation c;
  EXPECT_THAT(p.Run(c), IsError(absl::StatusCode::kInternal, "optional, never_stable", "8 rounds"));
}

TEST(PipelineTest, RunsPassOutsideStageOnce) {
  Pipeline p;
  p.Add<NeverStable>();
  Compilation c;
  TestPass::runs = 0;
  ASSERT_TRUE(p.Run(c).ok());
  EXPECT_EQ(TestPass::runs, 1);
}

TEST(PipelineTest, RejectsPassThatNeedsMissingFacts) {
  Pipeline p;
  p.Add<TestPass>("first", 0, 0, kPruned);
  p.Add<TestPass>("second", 0, kPruned | kSharded);
  Compilation c;
  EXPECT_THAT(p.Run(c), IsError(absl::StatusCode::kInternal, "pass second", "facts"));
}

class EndsShardings final : public TestPass {
 public:
  EndsShardings() : TestPass("ends_shardings") {}
  Facts ends() const override { return kSharded; }
};

// A pipeline starts with the facts that the previous pipeline established. Each fact holds until a
// pass ends it.
TEST(PipelineTest, FactsHoldInNextPipelineUntilPassEndsThem) {
  Pipeline first, second;
  first.Add<TestPass>("shards", 0, 0, kSharded);
  second.Add<TestPass>("needs", 0, kSharded);
  second.Add<EndsShardings>();
  Compilation c;
  ASSERT_TRUE(first.Run(c).ok());
  EXPECT_EQ(second.Run(c), absl::OkStatus());
  EXPECT_THAT(second.Run(c), IsError(absl::StatusCode::kInternal, "pass needs", "facts"));
}

TEST(PipelineTest, DisablesOnlyOptionalPasses) {
  Pipeline p;
  p.Add<Optional>();
  p.Add<ChangesThrice>();
  EXPECT_EQ(p.OptionalPasses(), std::vector<std::string>{"optional"});

  Compilation c;
  c.options.disabled_passes = {"optional"};
  TestPass::runs = 0;
  ASSERT_TRUE(p.Run(c).ok());
  EXPECT_EQ(TestPass::runs, 1);
  c.options.disabled_passes = {"changes_thrice"};
  EXPECT_THAT(p.Run(c), IsError(absl::StatusCode::kInvalidArgument, "changes_thrice", "disabled"));
}

TEST(PipelineTest, CallsObserverBeforeAndAfterEveryPass) {
  Pipeline p;
  p.Add<Optional>();
  p.Add<ChangesThrice>();
  struct Log final : PassObserver {
    void BeforePass(absl::string_view pass, const Compilation&) override {
      absl::StrAppend(&text, "before ", pass, "\n");
    }
    void AfterPass(absl::string_view pass, const Compilation&) override {
      absl::StrAppend(&text, "after ", pass, "\n");
    }
    std::string text;
  } log;
  Compilation c;
  c.options.observer = &log;
  ASSERT_TRUE(p.Run(c).ok());
  EXPECT_EQ(log.text,
            "before optional\nafter optional\nbefore changes_thrice\nafter changes_thrice\n");
}

}  // namespace
}  // namespace mirrorflow
