import { objectOf } from './install-inputs.ts'

/** In `node_modules`: the packages that npm has installed, in the form of a lock file. */
export const npmReport = '.package-lock.json'

type Entry = Record<string, unknown>

/** Values of `os`, `cpu` and `libc` that fit a build container on this architecture of the host. */
const platformOf = (architecture: string) => ({ os: 'linux', cpu: architecture, libc: 'glibc' })

/**
 * Why a successful step of npm is not known to have installed all that its lock file lists; null when it has. npm takes a failure at an
 * optional package, even at its download, for success: one that is missing must be excluded by its own fields.
 */
export function npmLeftOut(lock: string, report: string | null, architecture: string): string | null {
  const made = packagesIn(report)
  const missing = Object.entries(packagesIn(lock)).find(([path, entry]) => {
    const mayFail = entry.optional === true || entry.devOptional === true
    return mayFail && !Object.hasOwn(made, path) && !excludes(entry, architecture)
  })
  return missing ? `the optional package ${missing[0]} is missing` : null
}

function packagesIn(text: string | null): Record<string, Entry> {
  const packages = objectOf(text)?.packages
  const entries = Object.entries(typeof packages === 'object' && packages !== null ? packages : {})
  return Object.fromEntries(entries.filter(([, entry]) => typeof entry === 'object' && entry !== null))
}

/** As npm compares them: a list of values, or of values that are excluded by `!`. */
function excludes(entry: Entry, architecture: string): boolean {
  return Object.entries(platformOf(architecture)).some(([field, value]) => {
    const listed = entry[field]
    const values = (Array.isArray(listed) ? listed : [listed]).filter(one => typeof one === 'string')
    if (values.length === 0 || values.includes('any')) return false
    if (values.includes(`!${value}`)) return true
    const allowed = values.filter(one => !one.startsWith('!'))
    return allowed.length > 0 && !allowed.includes(value)
  })
}
