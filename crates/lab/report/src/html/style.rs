//! The look: one column of text, pictures in a grid, light and dark, narrow and printed.
//!
//! The hues of series are those of Okabe and Ito (Color Universal Design), which people with colour blindness tell apart; series also
//! differ by dashes and marks. Contrast of text is at least 4.5 : 1 in both schemes.

pub(super) const STYLE: &str = "
:root{--paper:#fff;--panel:#f6f7f8;--ink:#1a1d21;--faint:#5a6169;--rule:#d9dde1;--good:#00684a;--bad:#a83200;--doubt:#7a5200;
--doubt-paper:#fff4d6;--c1:#0072b2;--c2:#d55e00;--c3:#009e73;--c4:#aa4499;--c5:#7a5200;--c6:#56b4e9;--lost:#d55e00;--flow:#9cc3dd;
--idle:#e4e7ea}
@media(prefers-color-scheme:dark){:root{--paper:#14171a;--panel:#1d2125;--ink:#e8eaed;--faint:#a3abb3;--rule:#363c42;--good:#4cc9a0;
--bad:#ff8a5c;--doubt:#f0c35a;--doubt-paper:#33290f;--c1:#56b4e9;--c2:#ff8a4c;--c3:#35c99a;--c4:#d994c6;--c5:#e6c04d;--c6:#9fd3f2;
--lost:#ff8a4c;--flow:#2f5f80;--idle:#2a3036}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:64rem;padding:1.5rem 1rem 4rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif;overflow-wrap:anywhere}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .25rem}
h2{font-size:1.25rem;line-height:1.3;margin:0 0 .75rem}
section{margin-top:2.5rem}
section+section{border-top:1px solid var(--rule);padding-top:2rem}
p{margin:.5rem 0;max-width:44rem}
ul{padding-left:1.2rem;max-width:44rem}
.faint,.note{color:var(--faint);font-size:.875rem}
.about{margin-top:1rem}
.warning{background:var(--doubt-paper);color:var(--doubt);border-left:4px solid var(--doubt);padding:.5rem .75rem}
.keys{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,15rem),1fr));gap:.75rem;margin:1.25rem 0 0}
.keys div{background:var(--panel);border-radius:.5rem;padding:.75rem 1rem;border-left:4px solid var(--c1)}
.keys .marked{border-left-color:var(--doubt)}
.keys dt{font-size:.875rem;color:var(--faint)}
.keys dd{margin:0}
.keys .value{font-size:1.5rem;font-weight:650;font-variant-numeric:tabular-nums;line-height:1.3}
.keys .faint{font-size:.8125rem}
.mark{color:var(--doubt);font-weight:600;font-size:.875rem}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,20rem),1fr));gap:1.5rem 2rem;margin:1rem 0}
.charts.wide{grid-template-columns:1fr}
figure{margin:0;min-width:0;break-inside:avoid}
figcaption{font-weight:600;font-size:.9375rem;margin-bottom:.25rem}
svg{display:block;width:100%;height:auto;max-width:30rem}
.wide svg{max-width:34rem}
svg text{font:11px system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif;fill:var(--ink)}
svg .t{fill:var(--faint)}svg .b{font-weight:600}svg .d{fill:var(--doubt)}svg .x{fill:var(--bad)}
svg .g{stroke:var(--rule);stroke-width:1;fill:none}svg .a{stroke:var(--faint);stroke-width:1;fill:none}
svg .r{stroke:var(--faint);stroke-width:1.2;fill:none;stroke-dasharray:2 3}
svg .base{stroke:var(--faint);stroke-width:1.5;fill:none;stroke-dasharray:7 4}
svg .l{fill:none;stroke-width:2;stroke-linejoin:round}
svg .s1{stroke:var(--c1)}svg .s2{stroke:var(--c2);stroke-dasharray:7 3}svg .s3{stroke:var(--c3);stroke-dasharray:2 2.5}
svg .s4{stroke:var(--c4);stroke-dasharray:9 3 2 3}svg .s5{stroke:var(--c5);stroke-dasharray:4 2}svg .s6{stroke:var(--c6)}
svg .m{stroke-dasharray:none;stroke-width:1.5;fill:var(--paper)}
svg .f1{fill:var(--c1)}svg .f2{fill:var(--c2)}svg .f3{fill:var(--c3)}svg .f4{fill:var(--c4)}svg .f5{fill:var(--c5)}svg .f6{fill:var(--c6)}
svg .f0{fill:var(--idle)}svg .flow{fill:var(--flow);stroke:var(--flow);stroke-width:.6}svg .lost{fill:var(--lost)}svg .unsent{fill:var(--c5)}
svg .hollow{fill:none;stroke:var(--faint);stroke-width:1.5}
.legend{list-style:none;padding:0;margin:.25rem 0 0;display:flex;flex-wrap:wrap;gap:.15rem 1rem;font-size:.8125rem}
.legend li{display:flex;align-items:center;gap:.4rem}.legend svg{width:26px;height:10px;flex:none}
.scroll{overflow-x:auto;margin:.75rem 0}
.scroll:focus-visible,summary:focus-visible{outline:2px solid var(--c1);outline-offset:2px}
table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums;overflow-wrap:normal}
th,td{padding:.3rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}
th{font-weight:600}thead th{color:var(--faint);font-weight:500;border-bottom-color:var(--faint);white-space:nowrap}
th:first-child,td:first-child{padding-left:0}
.n{text-align:right;white-space:nowrap}.w{min-width:9rem;max-width:24rem;overflow-wrap:anywhere}
.again{font-weight:400;color:var(--faint)}.strong{font-weight:650}.good{color:var(--good)}.bad{color:var(--bad)}.doubt{color:var(--doubt)}
details{margin:.5rem 0}summary{cursor:pointer}summary h2{display:inline}
@media(min-width:30rem){tbody th.w{min-width:11rem}}
@media(max-width:30rem){.w{min-width:6rem}body{padding:1rem .75rem 3rem}h1{font-size:1.5rem}th,td{padding:.3rem .45rem}}
@media print{:root{--paper:#fff;--panel:#fff;--ink:#000;--faint:#444;--rule:#bbb;--good:#00684a;--bad:#a83200;--doubt:#7a5200;
--doubt-paper:#fff;--c1:#0072b2;--c2:#d55e00;--c3:#009e73;--c4:#aa4499;--c5:#7a5200;--c6:#56b4e9;--lost:#d55e00;--flow:#9cc3dd;--idle:#e4e7ea}
body{max-width:none;font-size:10pt;padding:0;print-color-adjust:exact;-webkit-print-color-adjust:exact}
.scroll{overflow:visible}table{font-size:7.5pt}th,td{padding:.15rem .35rem}thead th,.n{white-space:normal}.w{min-width:0}
details:not([open]):not(.print){display:none}.print::details-content{content-visibility:visible;display:block;height:auto}
summary{list-style:none}.wide svg{max-width:25rem}section{margin-top:1.5rem}section+section{padding-top:1rem}
.charts{grid-template-columns:1fr 1fr}.charts.wide{grid-template-columns:1fr}tr,figure{break-inside:avoid}h2{break-after:avoid}}
";
