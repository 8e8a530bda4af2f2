// SPDX-License-Identifier: Apache-2.0
#include "tools/report/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "framework/core/terminal.h"
#include "tools/report/charts.h"
#include "tools/report/page_sections.h"
#include "tools/report/page_style.h"
#include "tools/report/read_run.h"
#include "tools/report/svg_chart.h"

ABSL_FLAG(std::string, html, "", "report: output file; default: report.html in RUN_DIR");

namespace mirrorflow {
namespace {

constexpr size_t kMaxCharts = 100;
constexpr size_t kMaxTexts = 50;

std::string Number(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.4g", value)
                              : absl::StrCat("<span class=\"bad\">", value, "</span>");
}

// Returns a chart's legend, with each line's last value and extremes.
std::string Legend(const Chart& chart) {
  std::string rows;
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const std::vector<Point>& points = *chart.lines[i].points;
    double least = INFINITY, most = -INFINITY;
    int64_t not_finite = 0;
    for (const Point& point : points) {
      if (!std::isfinite(point.value)) {
        ++not_finite;
        continue;
      }
      least = std::min(least, point.value);
      most = std::max(most, point.value);
    }
    absl::StrAppend(&rows, "<tr><td><span class=\"key\" style=\"background:var(--c",
                    i % kChartColours, ")\"></span>", HtmlText(chart.lines[i].name));
    if (not_finite > 0) {
      absl::StrAppend(&rows, " <span class=\"bad\">", not_finite, " not finite</span>");
    }
    absl::StrAppend(&rows, "</td><td class=\"n\">", Number(points.back().value),
                    "</td><td class=\"n\">", least <= most ? Number(least) : "",
                    "</td><td class=\"n\">", least <= most ? Number(most) : "",
                    "</td><td class=\"n\">", points.size(), "</td></tr>\n");
  }
  return absl::StrCat(
      "<table><tr><th></th><th class=\"n\">last</th><th class=\"n\">least</th>"
      "<th class=\"n\">most</th><th class=\"n\">points</th></tr>\n",
      rows, "</table>");
}

std::string ChartSections(const std::vector<Chart>& charts) {
  std::string html;
  for (size_t i = 0; i < std::min(charts.size(), kMaxCharts); ++i) {
    if (i == 0 || charts[i].section != charts[i - 1].section) {
      absl::StrAppend(&html, i > 0 ? "</div>" : "", "<h2>", kSectionTitles[charts[i].section],
                      "</h2>\n<div class=\"grid\">\n");
    }
    absl::StrAppend(
        &html, "<div class=\"card\"><h3>", HtmlText(charts[i].title), "</h3>\n",
        LineChart(charts[i].title, charts[i].lines, charts[i].section == Chart::kLosses),
        Legend(charts[i]), "</div>\n");
  }
  if (!charts.empty()) html += "</div>\n";
  if (charts.size() > kMaxCharts) {
    absl::StrAppend(&html, "<p class=\"dim\">", charts.size() - kMaxCharts,
                    " more charts are not shown.</p>\n");
  }
  return html;
}

std::string TimelineSection(const StepTimeline& timeline) {
  std::string html =
      absl::StrFormat("<h2>Step time</h2>\n<div class=\"card timeline\">\n%s</div>\n",
                      Timeline(absl::StrFormat("%s, %.3g ms", timeline.step, timeline.ms),
                               timeline.rows, timeline.kinds, timeline.spans));
  absl::StrAppendFormat(&html, "<p class=\"dim\">The step of median length among %d traced steps.",
                        timeline.step_ms.size());
  if (timeline.spans_left_out > 0) {
    absl::StrAppend(&html, " ", timeline.spans_left_out, " spans are not shown.");
  }
  absl::StrAppend(&html, "</p>\n<div class=\"grid\">\n", ReplicaTable(timeline), OpTable(timeline),
                  "</div>\n");
  return html;
}

std::string Texts(const RunData& run) {
  std::string html;
  for (size_t i = 0; i < std::min(run.texts.size(), kMaxTexts); ++i) {
    const auto& [name, text] = run.texts[i];
    absl::StrAppend(&html, "<div class=\"card\"><h3>", HtmlText(name), "</h3><pre>", HtmlText(text),
                    "</pre></div>\n");
  }
  return html.empty() ? "" : absl::StrCat("<h2>Notes</h2>\n<div class=\"grid\">", html, "</div>\n");
}

std::string Files(const RunData& run) {
  std::string html = "<h2>Files</h2>\n<div class=\"card\">";
  for (const std::string& note : run.notes) {
    absl::StrAppend(&html, "<p class=\"bad\">", HtmlText(note), "</p>\n");
  }
  absl::StrAppend(&html, "<pre>");
  for (const std::string& file : run.files) absl::StrAppend(&html, HtmlText(file), "\n");
  return html + "</pre></div>\n";
}

}  // namespace

std::string ReportPage(absl::string_view title, const RunData& run) {
  std::map<std::string, std::vector<Point>> series = run.series;
  std::vector<Chart> charts = ChartsOf(series);
  if (std::ranges::find(charts, Chart::kThroughput, &Chart::section) == charts.end()) {
    std::vector<Point> rates = StepsPerSecond(series);
    if (!rates.empty()) {
      series["steps_per_s"] = std::move(rates);
      charts = ChartsOf(series);
    }
  }
  std::string html = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      // Prevents the contents of the run's files from making the page load or run anything.
      "<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      HtmlText(title), "</title>\n<style>", kPageStyle, "</style></head><body>\n<h1>",
      HtmlText(title), "</h1>\n", Subtitle(run), Tiles(run, charts), ChartSections(charts));
  if (run.timeline) html += TimelineSection(*run.timeline);
  absl::StrAppend(&html, MemorySection(run), EventSection(run), FactsSection(run), Texts(run),
                  Files(run), "</body></html>\n");
  return html;
}

absl::Status WriteReport(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(CheckArguments("report", args, 1, 1, "one run's directory"));
  MF_RETURN_IF_ERROR(CheckOutputFlag("html", absl::GetFlag(FLAGS_html)));
  *code = kExitBadInput;
  MF_ASSIGN_OR_RETURN(const RunData run, ReadRun(args[0]));
  const std::filesystem::path directory = std::filesystem::path(args[0]).lexically_normal();
  std::string path = absl::GetFlag(FLAGS_html);
  if (path.empty()) path = (directory / "report.html").string();
  std::error_code ignored;
  std::filesystem::path whole = std::filesystem::absolute(directory, ignored);
  if (!whole.has_filename()) whole = whole.parent_path();  // `runs/a/` becomes `runs/a`
  MF_RETURN_IF_ERROR(WriteFileAtomically(path, {ReportPage(whole.filename().string(), run)}));
  PrintLine(path);
  return absl::OkStatus();
}

}  // namespace mirrorflow
