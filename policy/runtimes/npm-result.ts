import { type Fields, objectOf, objectsIn } from './root-texts.ts'

/** In `node_modules`: the packages that npm has installed, in the form of a lock file. */
export const npmReport = '.package-lock.json'

type Packages = Record<string, Fields>

export interface NpmStep {
  /** Of the host, as Node names it. */
  architecture: string
  /** Whether packages for development only are left out on purpose. */
  omitsDev: boolean
}

/** Values of `os`, `cpu` and `libc` that fit a build container on this architecture of the host. */
const platformOf = (architecture: string) => ({ os: 'linux', cpu: architecture, libc: 'glibc' })

/**
 * Why a successful step of npm is not known to have installed all that its lock file lists; null when it has. npm takes a failure at an
 * optional package, even at its download, for success: one that is missing must be excluded by its own fields, or be left out with one that is.
 */
export function npmLeftOut(lock: string, report: string | null, { architecture, omitsDev }: NpmStep): string | null {
  const [locked, present] = [packagesIn(lock), packagesIn(report)]
  const missing = Object.keys(locked).filter(path => path !== '' && !Object.hasOwn(present, path))
  const omitted = missing.filter(path => omitsDev && locked[path]!.dev === true)
  const optional = missing.filter(path => mayFail(locked[path]!) && !(omitsDev && locked[path]!.dev === true))
  const excluded = optional.filter(path => excludes(locked[path]!, architecture))
  if (excluded.length === optional.length) return null
  const leftOut = withOthers(locked, new Set(optional), new Set([...excluded, ...omitted]))
  const unexplained = optional.find(path => !leftOut.has(path))
  return unexplained === undefined ? null : `the optional package ${unexplained} is missing`
}

/**
 * `npmLeftOut` for a list that npm has written itself: it leaves out of it an optional package of which it could not learn anything, such
 * as its versions.
 */
export function npmLeftOutUnlocked(lock: string | null, report: string | null, step: NpmStep): string | null {
  const locked = packagesIn(lock)
  if (!Object.hasOwn(locked, '')) return 'npm has written no package-lock.json'
  const budget = { characters: maxLookedUp }
  for (const [from, { optionalDependencies }] of Object.entries(locked))
    for (const name of Object.keys(Object(optionalDependencies)))
      if (resolve(locked, from, name, budget) === null) return `the optional package ${name} is missing`
  return npmLeftOut(lock!, report, step)
}

const mayFail = ({ optional, devOptional }: Fields): boolean => optional === true || devOptional === true

/**
 * These packages, and the missing ones that npm leaves out with them: what requires one of them, and what nothing else requires. Fewer,
 * if the list is too odd to be followed.
 */
function withOthers(locked: Packages, missing: ReadonlySet<string>, excluded: Set<string>): ReadonlySet<string> {
  const edges = edgesOf(locked)
  if (!edges) return excluded
  for (const path of excluded)
    for (const { from, isRequired } of edges.to.get(path) ?? []) if (isRequired && missing.has(from)) excluded.add(from)
  const all = new Set(excluded)
  for (const path of all) for (const to of edges.from.get(path) ?? []) if (missing.has(to)) all.add(to)
  const isUnused = (path: string) => (edges.to.get(path) ?? []).every(({ from }) => all.has(from))
  return new Set([...all].filter(path => excluded.has(path) || isUnused(path)))
}

interface Edges {
  /** What a package lists. */
  from: Map<string, string[]>
  /** What lists a package; required unless as optional or as a peer. */
  to: Map<string, { from: string; isRequired: boolean }[]>
}

const lists = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies']

/** Max characters of all paths that are looked up: tenants write the list. */
const maxLookedUp = 50_000_000

/** Which package lists which; null when that takes too long to be found out. */
function edgesOf(locked: Packages): Edges | null {
  const edges: Edges = { from: new Map(), to: new Map() }
  const budget = { characters: maxLookedUp }
  for (const [from, entry] of Object.entries(locked))
    for (const list of lists)
      for (const name of Object.keys(Object(entry[list]))) {
        const to = resolve(locked, from, name, budget)
        if (budget.characters < 0) return null
        if (to === null) continue
        listIn(edges.from, from).push(to)
        listIn(edges.to, to).push({ from, isRequired: list === 'dependencies' })
      }
  return edges
}

/** The package that a package finds under a name, as Node looks for it; null when there is none, or the budget is used up. */
function resolve(locked: Packages, from: string, name: string, budget: { characters: number }): string | null {
  for (let at: string | null = from; at !== null && budget.characters >= 0; at = parentOf(at)) {
    const path: string = at === '' ? `node_modules/${name}` : `${at}/node_modules/${name}`
    budget.characters -= path.length
    if (Object.hasOwn(locked, path)) return path
  }
  return null
}

/** The package in whose folder another one lies; empty for the project, whose is null. */
function parentOf(path: string): string | null {
  if (path === '') return null
  return path.slice(0, Math.max(0, path.lastIndexOf('node_modules/') - 1))
}

function listIn<T>(map: Map<string, T[]>, name: string): T[] {
  const list = map.get(name) ?? []
  map.set(name, list)
  return list
}

const packagesIn = (text: string | null): Packages => objectsIn(objectOf(text)?.packages) ?? {}

/** As npm compares them: a list of values, or of values that are excluded by `!`. */
export function excludes(entry: Fields, architecture: string): boolean {
  return Object.entries(platformOf(architecture)).some(([field, value]) => {
    const listed = entry[field]
    const values = (Array.isArray(listed) ? listed : [listed]).filter(one => typeof one === 'string')
    if (values.length === 0 || values.includes('any')) return false
    if (values.includes(`!${value}`)) return true
    const allowed = values.filter(one => !one.startsWith('!'))
    return allowed.length > 0 && !allowed.includes(value)
  })
}
