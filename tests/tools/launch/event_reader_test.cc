// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/event_reader.h"

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

auto IsRefused(absl::string_view event, absl::string_view token) {
  return IsError(absl::StatusCode::kFailedPrecondition, absl::StrCat("event '", event, "'"), token);
}

launch::Order FindPorts(int count) {
  launch::Order order;
  order.set_find_ports(count);
  return order;
}

launch::Order Start(int slot = 0) {
  launch::Order order;
  order.mutable_start()->set_slot(slot);
  return order;
}

launch::Event Ready() {
  launch::Event event;
  event.mutable_ready();
  return event;
}

launch::Event Ports(const std::vector<int>& ports) {
  launch::Event event;
  event.mutable_ports()->mutable_ports()->Add(ports.begin(), ports.end());
  return event;
}

launch::Event Started(int64_t process = 7) {
  launch::Event event;
  event.set_started(process);
  return event;
}

launch::Event Output(std::string bytes) {
  launch::Event event;
  event.set_output(std::move(bytes));
  return event;
}

launch::Event Saved(int64_t step) {
  launch::Event event;
  event.set_saved(step);
  return event;
}

launch::Event Ended(const std::function<void(launch::Ended*)>& set = [](launch::Ended*) {}) {
  launch::Event event;
  set(event.mutable_ended());
  return event;
}

launch::Event FromSlot(int slot, launch::Event event) {
  event.set_slot(slot);
  return event;
}

// Sends the events. Returns the first error, or OK if all events are accepted.
absl::Status Send(EventReader& reader, const std::vector<launch::Event>& events) {
  for (const launch::Event& event : events) reader.Add(SerializeMessage(event));
  launch::Event event;
  for (size_t i = 0; i < events.size(); ++i) {
    const absl::StatusOr<bool> whole = reader.Next(&event);
    if (!whole.ok()) return whole.status();
    EXPECT_TRUE(*whole);
    EXPECT_EQ(event.SerializeAsString(), events[i].SerializeAsString());
  }
  return absl::OkStatus();
}

// Returns the result of these events, which a ready supervisor sends after `orders`.
absl::Status After(const std::vector<launch::Order>& orders, std::vector<launch::Event> events) {
  EventReader reader(2);
  for (const launch::Order& order : orders) reader.Expect(order);
  events.insert(events.begin(), Ready());
  return Send(reader, events);
}

TEST(EventReaderTest, EventsOfACompleteRunAreAccepted) {
  EXPECT_EQ(After({FindPorts(3), Start()}, {Ports({1, 2, 65535}), Started(), Output("a"), Saved(1),
                                            Saved(kMaxSavedStep), Output("b"), Ended()}),
            absl::OkStatus());
  const launch::Event failed = Ended([](auto* ended) { ended->set_reason("no program"); });
  EXPECT_EQ(After({Start()}, {failed}), absl::OkStatus());
  EXPECT_EQ(After({Start()}, {Started(), failed}), absl::OkStatus());  // its supervisor is killed
  EXPECT_EQ(After({}, {failed}), absl::OkStatus());                    // its host is shut down
}

TEST(EventReaderTest, EventsArriveInPartsOfAnySize) {
  const std::string bytes = SerializeMessage(Ready()) + SerializeMessage(Ports({4, 5}));
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    EventReader reader(1);
    reader.Expect(FindPorts(2));
    launch::Event event;
    int count = 0;
    for (const std::string& part : {bytes.substr(0, cut), bytes.substr(cut)}) {
      reader.Add(part);
      absl::StatusOr<bool> whole = true;
      while ((whole = reader.Next(&event)).ok() && *whole) ++count;
      ASSERT_TRUE(whole.ok()) << whole.status();
    }
    EXPECT_EQ(count, 2) << cut;
  }
}

TEST(EventReaderTest, TextBeforeTheFirstEventIsNamedAtOnce) {
  // The shorter texts begin with a length that exceeds the bytes that follow.
  for (const std::string& text :
       {std::string("W"), std::string("Welcome to host a!\n"), std::string("\x02"),
        std::string("\x02\x32\x01"), std::string("\xff"), std::string(1, '\0')}) {
    EventReader reader(1);
    reader.Add(text + std::string(1, '\x1b'));
    launch::Event event;
    const absl::Status status = reader.Next(&event).status();
    EXPECT_THAT(status, IsError(absl::StatusCode::kDataLoss, "x1b'", "supervisor's first event"));
  }
}

TEST(EventReaderTest, EventBeforeReadyIsRefused) {
  for (const launch::Event& event : {Ports({1, 2}), Started(), Output("x"), Ended()}) {
    EventReader reader(1);
    reader.Expect(FindPorts(2));
    reader.Expect(Start());
    EXPECT_THAT(Send(reader, {event}),
                IsError(absl::StatusCode::kDataLoss, "supervisor's first event"));
  }
}

TEST(EventReaderTest, PortsThatWereNotOrderedAreRefused) {
  EXPECT_THAT(After({}, {Ports({1, 2})}), IsRefused("ports", "unanswered order"));
  EXPECT_THAT(After({Start()}, {Ports({})}), IsRefused("ports", "unanswered order"));
  EXPECT_THAT(After({FindPorts(2)}, {Ports({1, 2}), Ports({1, 2})}),
              IsRefused("ports", "unanswered order"));
}

TEST(EventReaderTest, WrongNumberOfPortsIsRefused) {
  std::vector<int> many(100'000);
  std::iota(many.begin(), many.end(), 1);
  for (const std::vector<int>& ports : {std::vector<int>{}, {1}, {1, 2, 3}, many}) {
    EXPECT_THAT(After({FindPorts(2)}, {Ports(ports)}),
                IsRefused("ports", absl::StrCat("got ", ports.size())));
  }
}

TEST(EventReaderTest, PortsOutOfRangeAreRefused) {
  for (const int port : {INT32_MIN, -1, 0, 65536, INT32_MAX}) {
    EXPECT_THAT(After({FindPorts(2)}, {Ports({1, port})}), IsRefused("ports", "1 to 65535"))
        << port;
  }
  EXPECT_THAT(After({FindPorts(2)}, {Ports({1, 1})}), IsRefused("ports", "distinct"));
}

TEST(EventReaderTest, StartThatWasNotOrderedIsRefused) {
  EXPECT_THAT(After({FindPorts(2)}, {Started()}), IsRefused("started", "order to start"));
  EXPECT_THAT(After({Start()}, {Started(), Started()}), IsRefused("started", "two"));
  EXPECT_THAT(After({Start()}, {Started(0)}), IsRefused("started", "process id"));
  EXPECT_THAT(After({Start()}, {Started(-1)}), IsRefused("started", "process id"));
}

TEST(EventReaderTest, OutputWithoutAWorkerIsRefused) {
  EXPECT_THAT(After({Start()}, {Output("x")}), IsRefused("output", "has started"));
  EXPECT_THAT(After({Start()}, {Started(), Output("")}), IsRefused("output", "got 0"));
  EXPECT_THAT(After({Start()}, {Started(), Output(std::string(kOutputBytes + 1, 'x'))}),
              IsRefused("output", "bytes"));
  EXPECT_THAT(After({Start()}, {Started(), Ended(), Output("x")}), IsRefused("output", "end"));
}

TEST(EventReaderTest, ImpossibleSavedStepIsRefused) {
  EXPECT_THAT(After({Start()}, {Saved(1)}), IsRefused("saved", "has started"));
  for (const int64_t step : {INT64_MIN, int64_t{-1}, int64_t{0}, kMaxSavedStep + 1, INT64_MAX}) {
    EXPECT_THAT(After({Start()}, {Started(), Saved(step)}), IsRefused("saved", "a step from 1"))
        << step;
  }
  EXPECT_THAT(After({Start()}, {Started(), Saved(5), Saved(5)}),
              IsRefused("saved", "a step from 6"));
  EXPECT_THAT(After({Start()}, {Started(), Ended(), Saved(5)}), IsRefused("saved", "end"));
}

TEST(EventReaderTest, ImpossibleEndIsRefused) {
  for (const launch::Event& event : {
           Ended([](auto* ended) { ended->set_exit_code(256); }),
           Ended([](auto* ended) { ended->set_exit_code(-1); }),
           Ended([](auto* ended) { ended->set_signal(65); }),
           Ended([](auto* ended) { ended->set_signal(-9); }),
           Ended([](auto* ended) { ended->set_error_file(std::string(kMaxErrorFile + 1, 'x')); }),
       }) {
    EXPECT_THAT(After({Start()}, {Started(), event}), IsRefused("ended", "got"));
  }
  EXPECT_THAT(After({Start()}, {Ended()}), IsRefused("ended", "reason"));
  EXPECT_THAT(After({Start()}, {Started(), Ended(), Ended()}), IsRefused("ended", "end"));
}

TEST(EventReaderTest, WorkersOfAHostStartAndEndIndependently) {
  EXPECT_EQ(After({Start(0), Start(1)},
                  {FromSlot(1, Started()), FromSlot(1, Saved(7)), FromSlot(0, Started()),
                   FromSlot(0, Saved(5)), FromSlot(1, Ended()), FromSlot(0, Output("a")),
                   FromSlot(0, Saved(6)), FromSlot(0, Ended())}),
            absl::OkStatus());
  EXPECT_THAT(After({Start(0)}, {FromSlot(1, Started())}), IsRefused("started", "order to start"));
  EXPECT_THAT(After({Start(0), Start(1)}, {FromSlot(0, Started()), FromSlot(1, Output("x"))}),
              IsRefused("output", "has started"));
  EXPECT_THAT(After({Start(0), Start(1)},
                    {FromSlot(0, Started()), FromSlot(0, Ended()), FromSlot(0, Output("x"))}),
              IsRefused("output", "end"));
}

TEST(EventReaderTest, WorkerMayStartAgainIfOrdered) {
  EventReader reader(1);
  reader.Expect(Start());
  EXPECT_EQ(Send(reader, {Ready(), Started(), Saved(7), Ended()}), absl::OkStatus());
  reader.Expect(Start());
  EXPECT_EQ(Send(reader, {Started(), Saved(7), Ended()}), absl::OkStatus());
  EXPECT_THAT(Send(reader, {Started()}), IsRefused("started", "end"));
}

TEST(EventReaderTest, EventsOfNoWorkerAreRefused) {
  for (const int slot : {INT32_MIN, -1, 2, INT32_MAX}) {
    EXPECT_THAT(After({Start()}, {FromSlot(slot, Started())}),
                IsRefused("started", absl::StrCat("got ", slot)));
    EXPECT_THAT(After({FindPorts(1)}, {FromSlot(slot, Ports({1}))}),
                IsRefused("ports", absl::StrCat("got ", slot)));
  }
}

TEST(EventReaderTest, OtherEventsAreRefused) {
  EXPECT_THAT(After({Start()}, {Ready()}), IsRefused("ready", "two"));
  EXPECT_THAT(After({Start()}, {launch::Event()}),
              IsError(absl::StatusCode::kDataLoss, "unknown event"));
}

TEST(EventReaderTest, NothingIsReadAfterAnError) {
  EventReader reader(1);
  const absl::Status status = Send(reader, {Ready(), Started()});
  EXPECT_THAT(status, IsRefused("started", "order"));
  reader.Expect(Start());
  EXPECT_EQ(Send(reader, {Started()}), status);
}

TEST(EventReaderTest, LengthOutOfRangeIsDataLoss) {
  for (const std::string length :
       {"\xff\xff\xff\x7f", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    EventReader reader(1);
    reader.Add(SerializeMessage(Ready()) + length);
    launch::Event event;
    EXPECT_TRUE(reader.Next(&event).ok());
    EXPECT_THAT(reader.Next(&event).status(), IsError(absl::StatusCode::kDataLoss, "malformed"));
  }
}

}  // namespace
}  // namespace mirrorflow
