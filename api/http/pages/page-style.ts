/** The one style sheet of our pages: follows the visitor's light or dark mode, and loads nothing. */
export const pageStyle = `
:root{color-scheme:light dark;--accent:light-dark(#1d4ed8,#8ab4ff);--on-accent:light-dark(#fff,#0b1220);--line:light-dark(#cfd4dc,#3a4150);--soft:light-dark(#f4f6f9,#12161d);--card:light-dark(#fff,#1a1f29);--quiet:light-dark(#4a5568,#a9b4c4)}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;margin:0;padding:12vh 1rem 2rem;background:var(--soft)}
main{max-width:27rem;margin:auto;padding:1.75rem;background:var(--card);border:1px solid var(--line);border-radius:12px}
h1{font-size:1.35rem;line-height:1.3;margin:0 0 .75rem}
p{margin:0 0 1rem;color:var(--quiet)}
form{margin:0}
label{display:block;font-weight:600}
input{font:inherit;font-weight:400;width:100%;padding:.6rem .7rem;margin:.35rem 0 1rem;border:1px solid var(--line);border-radius:8px;background:transparent}
input.code{font:1.3rem/1.4 ui-monospace,monospace;letter-spacing:.2em;text-transform:uppercase}
button{font:inherit;font-weight:600;padding:.55rem 1rem;border:1px solid var(--accent);border-radius:8px;background:var(--accent);color:var(--on-accent);cursor:pointer}
button.second{background:transparent;color:var(--accent)}
button:disabled{opacity:.55;cursor:default}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
dl{display:grid;grid-template-columns:auto 1fr;gap:.3rem 1rem;margin:0 0 1rem}
dt{color:var(--quiet)}
dd{margin:0;font-weight:600;overflow-wrap:anywhere}
dd.signs{font:700 1.3rem/1.2 ui-monospace,monospace;letter-spacing:.08em}
ul{margin:0 0 1.25rem;padding-left:1.25rem}
.row{display:flex;gap:.6rem;flex-wrap:wrap}
.captcha{margin:0 0 1rem;min-height:65px}
[role=alert]{margin:1rem 0 0}
.wrong{color:light-dark(#b42318,#ff9b8f)}
main>:last-child{margin-bottom:0}
[role=alert]:empty,[hidden]{display:none}
`.replaceAll('\n', '')
