/** Known keys; all others are ignored, including ID, which command-line tools write. */
const configKeys = [
  'DISPLAY_NAME',
  'MAIN',
  'MEMORY',
  'VERSION',
  'DESCRIPTION',
  'SUBDOMAIN',
  'START',
  'AUTORESTART',
  'RUNTIME',
  'HEALTH',
] as const

export type ConfigKey = (typeof configKeys)[number]

/** Trimmed values; an empty one counts as missing. */
export type ConfigLines = Partial<Record<ConfigKey, string>>

/** Reads `KEY=value` lines (contract 5.2): BOM and CRLF tolerated, `#` lines ignored, keys in any case, the last one wins. */
export function readLines(text: string): ConfigLines {
  const lines: ConfigLines = {}
  for (const line of text.replace(/^\ufeff/, '').split(/\r\n|\r|\n/)) {
    const at = line.indexOf('=')
    if (at < 0 || line.trimStart().startsWith('#')) continue
    const key = configKeys.find(known => known === line.slice(0, at).trim().toUpperCase())
    if (key) lines[key] = line.slice(at + 1).trim() || undefined
  }
  return lines
}
