// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_REPORT_PAGE_STYLE_H_
#define MIRRORFLOW_TOOLS_REPORT_PAGE_STYLE_H_

namespace mirrorflow {

// The report's style sheet. The line colours are distinguishable with every kind of colour vision
// (after M. Okabe, K. Ito, "Color universal design", 2008) and have enough contrast in both the
// light and the dark scheme.
inline constexpr char kPageStyle[] = R"css(
:root{color-scheme:light dark;--page:#f4f6f8;--card:#fff;--ink:#1c2430;--dim:#5b6573;
--grid:#e6e9ee;--edge:#dce1e8;--bad:#b3261e;--good:#00734c;
--c0:#0072b2;--c1:#c94f00;--c2:#00805d;--c3:#a8487f;--c4:#8a6a00;--c5:#5b6573}
@media (prefers-color-scheme:dark){:root{--page:#11151a;--card:#1a2027;--ink:#e4e8ee;--dim:#98a3b2;
--grid:#2a323c;--edge:#2c3540;--bad:#ff8a80;--good:#4fd3a5;
--c0:#56b4e9;--c1:#ff9a57;--c2:#3fcf9e;--c3:#e59cc8;--c4:#ecc94b;--c5:#aab4c2}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:28px 20px 60px;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:26px;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:19px;margin:36px 0 12px}
h3{font-size:15px;margin:0 0 8px;overflow-wrap:anywhere}
p{margin:0 0 8px}.card+p{margin-top:8px}
.dim{color:var(--dim)}.bad{color:var(--bad)}.good{color:var(--good)}
.grid{display:grid;gap:14px;grid-template-columns:repeat(auto-fill,minmax(min(100%,500px),1fr))}
.tiles{display:grid;gap:10px;margin-top:18px;grid-template-columns:repeat(auto-fill,minmax(150px,1fr))}
.card,.tile{background:var(--card);border:1px solid var(--edge);border-radius:10px}
.card{padding:14px 16px;min-width:0;overflow-x:auto}
.tile{padding:10px 14px}
.tile b{display:block;font-size:22px;line-height:1.3;font-weight:600;overflow-wrap:anywhere}
.tile span{display:block;line-height:1.3;color:var(--dim);font-size:13px;overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto}
svg text{font-size:11.5px;fill:var(--dim)}
svg .grid{stroke:var(--grid)}
.line,.raw{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.raw{stroke-width:1;opacity:.35}
.dot{fill:currentColor}.hit{fill:transparent}.hit:hover{fill:currentColor}
.timeline svg{min-width:900px}
.timeline svg>rect:first-of-type{fill:transparent}
.timeline line{stroke:var(--grid)}
.timeline text{fill:var(--ink);font-size:12px}
.timeline .span,.timeline .legend{stroke:var(--card)}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th{color:var(--dim);font-weight:500;text-align:left}
td,th{padding:3px 14px 3px 0;vertical-align:top;border-bottom:1px solid var(--grid)}
td{overflow-wrap:anywhere}
tr:last-child td{border-bottom:0}
.n{text-align:right;white-space:nowrap;overflow-wrap:normal}
.key{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:7px}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.45 ui-monospace,monospace}
details{margin-top:8px}summary{cursor:pointer;color:var(--dim)}
)css";

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_PAGE_STYLE_H_
