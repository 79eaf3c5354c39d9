const form = /^[A-Z]{2}$/

/** Two-letter codes of a setting. Throws an Error that names the setting and the wrong entry. */
export function countryCodes(setting: string, entries: readonly string[]): string[] {
  const codes = entries.map(entry => entry.toUpperCase())
  const wrong = codes.find(code => !form.test(code))
  if (wrong !== undefined)
    throw new Error(`The setting ${setting} must be two-letter country codes such as BR; "${wrong}" is not one.`)
  return codes
}
