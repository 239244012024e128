#pragma once

namespace paceline::bench {

// Style sheet of every page. Series colours keep a contrast of at least 3:1 against the background
// in both schemes; the first series (ours) is the saturated one.
inline constexpr char kPageStyle[] = R"css(
:root {
  --back: #fcfcfb; --card: #ffffff; --ink: #1a1d21; --soft: #5a626d; --rule: #e3e5e8;
  --s0: #0b63ce; --s1: #8a939f; --s2: #b7791f; --s3: #7a4fbf; --s4: #2f855a; --tint: #eef4fc;
  --warn: #8a5a00; --warn-back: #fff8e6; --bad: #b42318; --bad-back: #fef1f0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #111418; --card: #181c21; --ink: #e8eaed; --soft: #9aa3ae; --rule: #2b3138;
    --s0: #5aa2ff; --s1: #77818d; --s2: #d69e2e; --s3: #a98be0; --s4: #4fae7d; --tint: #17263a;
    --warn: #f0c060; --warn-back: #2a2415; --bad: #ff8a80; --bad-back: #2d1917;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 3rem 1.25rem 4rem; max-width: 54rem;
  background: var(--back); color: var(--ink); overflow-wrap: break-word;
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums;
}
h1 { margin: 0; font-size: clamp(1.7rem, 5vw, 2.4rem); line-height: 1.15; letter-spacing: -.02em; }
h2 { margin: 0 0 .75rem; font-size: 1.2rem; letter-spacing: -.01em; }
p { margin: 0 0 .9rem; max-width: 44rem; }
header { margin-bottom: 2rem; }
.brand {
  margin: 0 0 .6rem; color: var(--s0); font-size: .8rem; font-weight: 650;
  letter-spacing: .12em; text-transform: uppercase;
}
.lead { margin: .8rem 0 0; color: var(--soft); font-size: 1.1rem; }
section { margin: 0 0 2.75rem; }
.tiles {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .75rem;
  margin: 0; padding: 0; list-style: none;
}
.tiles li {
  padding: 1rem 1.15rem; border: 1px solid var(--rule); border-radius: .6rem;
  background: var(--card);
}
.tiles strong {
  display: block; font-size: 1.9rem; line-height: 1.2; font-weight: 650; letter-spacing: -.02em;
  white-space: nowrap;
}
.tiles li:first-child strong { color: var(--s0); }
.tiles span { display: block; font-weight: 550; }
.tiles small { display: block; color: var(--soft); font-size: .85rem; }
figure {
  margin: 0 0 1rem; padding: 1.15rem; border: 1px solid var(--rule); border-radius: .6rem;
  background: var(--card);
}
figcaption { margin-top: .8rem; color: var(--soft); font-size: .85rem; line-height: 1.45; }
.chart { display: block; width: 100%; height: auto; font-family: inherit; }
.narrow { display: none; }
.chart .grid { stroke: var(--rule); }
.chart .axis { stroke: var(--soft); }
.chart .reference { stroke: var(--soft); stroke-dasharray: 4 3; }
.chart .halo { stroke: var(--card); stroke-width: 4; opacity: .6; }
.chart .whisker { stroke: var(--ink); stroke-width: 1.25; }
.chart .span { stroke-width: 3; stroke-linecap: round; opacity: .55; }
.chart text { fill: var(--soft); }
.chart .name { fill: var(--ink); }
.chart .value { fill: var(--ink); font-weight: 600; }
.s0 { fill: var(--s0); stroke: var(--s0); } .s1 { fill: var(--s1); stroke: var(--s1); }
.s2 { fill: var(--s2); stroke: var(--s2); } .s3 { fill: var(--s3); stroke: var(--s3); }
.s4 { fill: var(--s4); stroke: var(--s4); }
rect.s0, rect.s1, rect.s2, rect.s3, rect.s4 { stroke: none; }
.scroll { overflow-x: auto; margin-bottom: 1rem; }
table { width: 100%; border-collapse: collapse; font-size: .92rem; }
.caption { margin: 0 0 .3rem; color: var(--soft); font-size: .85rem; line-height: 1.45; }
th, td {
  padding: .5rem .75rem; border-bottom: 1px solid var(--rule); text-align: right;
  white-space: nowrap;
}
th:first-child { padding-left: 0; text-align: left; font-weight: 500; }
td:last-child, th:last-child { padding-right: .25rem; }
thead th { color: var(--soft); font-size: .85rem; font-weight: 550; }
tr.ours > * { font-weight: 650; }
dl { margin: 0; }
dl div {
  display: grid; grid-template-columns: 11rem minmax(0, 1fr); gap: 1rem; padding: .45rem 0;
  border-bottom: 1px solid var(--rule);
}
dt { color: var(--soft); }
dd { margin: 0; }
pre {
  margin: 0 0 1rem; padding: .9rem 1.1rem; border-radius: .5rem;
  white-space: pre-wrap; overflow-wrap: anywhere;
  background: var(--tint); font: .85rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace;
}
aside { padding: .9rem 1.15rem; border-left: 4px solid; border-radius: .4rem; }
aside + aside { margin-top: .75rem; }
aside h2 { margin-bottom: .3rem; font-size: 1rem; }
aside ul { margin: 0; padding-left: 1.1rem; color: var(--ink); font-size: .92rem; }
.warning { border-color: var(--warn); background: var(--warn-back); color: var(--warn); }
.error { border-color: var(--bad); background: var(--bad-back); color: var(--bad); }
footer {
  padding-top: 1rem; border-top: 1px solid var(--rule); color: var(--soft); font-size: .85rem;
}
:focus-visible { outline: 2px solid var(--s0); outline-offset: 2px; }
@media (max-width: 34rem) {
  body { padding: 1.75rem 1rem 3rem; }
  .wide { display: none; }
  .narrow { display: block; }
  figure { padding: .9rem .75rem; }
  dl div { grid-template-columns: 1fr; gap: 0; }
}
@media print {
  :root {
    --back: #fff; --card: #fff; --ink: #000; --soft: #444; --rule: #ccc; --tint: #f4f4f4;
    --s0: #0b63ce; --s1: #8a939f; --s2: #b7791f; --s3: #7a4fbf; --s4: #2f855a;
    --warn: #8a5a00; --warn-back: #fff; --bad: #b42318; --bad-back: #fff;
  }
  @page { margin: 16mm; }
  html { font-size: 9.5pt; }
  body { max-width: none; padding: 0; }
  .wide { display: block; }
  .narrow { display: none; }
  .scroll { overflow: visible; }
  figure, table, aside, .tiles, dl div { break-inside: avoid; }
  h2, .caption { break-after: avoid; }
  section { margin-bottom: 1.5rem; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";

}  // namespace paceline::bench
