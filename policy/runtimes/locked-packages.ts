import { excludes } from './npm-result.ts'
import { type Fields, objectOf, objectsIn } from './root-texts.ts'

/** A package in a lock file of yarn or pnpm. */
export interface LockedPackage {
  /** Name of its folder: with yarn the alias where the project uses one, with pnpm always its own name. */
  name: string
  version: string
  /** Keys of the packages that it lists, as required or optional. */
  needs: ReadonlySet<string>
  /** Has `os`, `cpu` and `libc`; null where the lock file does not say for which systems a package is. */
  platform: Readonly<Fields> | null
  /** Whether the lock file has a digest of its archive. */
  isPinned: boolean
  /** Whether its manager leaves it as it is where its script fails, and goes on. */
  mayBeUnbuilt: boolean
}

/** The packages of a lock file by their keys. */
export type LockedPackages = ReadonlyMap<string, LockedPackage>

/** In `node_modules`: what yarn or pnpm has installed, from `listInstalled`. */
export const packagesReport = '.berth-packages.json'

interface Report {
  /** By name and version, whether it has a script. */
  installed: ReadonlyMap<string, boolean>
  /** By name and version, for which systems it is. */
  fetched: ReadonlyMap<string, Fields>
}

function reportIn(text: string | null): Report | null {
  const report = objectOf(text)
  const [packages, fetched] = [objectsIn(report?.packages), objectsIn(report?.fetched)]
  if (!packages || !fetched) return null
  const installed = Object.entries(packages).flatMap(([path, { version, hasInstallScript }]) => {
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    return typeof version === 'string' ? [[`${name}@${version}`, hasInstallScript === true] as const] : []
  })
  return { installed: new Map(installed), fetched: new Map(Object.entries(fetched)) }
}

/**
 * Why a successful step of yarn or pnpm is not known to have installed all that the project needs, from these keys on; null when it has.
 * Both take a failure at an optional package, even at its download or in its script, for success: one that is missing must be for another
 * system, by what the lock file says or what was downloaded.
 */
export function packagesLeftOut(
  locked: LockedPackages,
  needed: readonly string[],
  report: string | null,
  architecture: string,
): string | null {
  const result = reportIn(report)
  if (!result) return 'the step has left no list of what it has installed'
  const { installed, fetched } = result
  // Tenants write the list: thousands of keys may share what they need, and be of one version.
  const followed = new Set<ReadonlySet<string>>()
  const excluded = new Set<string>()
  const seen = new Set(needed)
  for (const key of seen) {
    const one = locked.get(key)
    if (!one) return `the lock file does not list ${key}`
    const spec = `${one.name}@${one.version}`
    if (one.mayBeUnbuilt && installed.get(spec)) return `the optional package ${spec} has a script that may have failed`
    if (installed.has(spec)) {
      if (!followed.has(one.needs)) for (const next of one.needs) seen.add(next)
      followed.add(one.needs)
    } else if (!excluded.has(spec)) {
      if (!excludes(one.platform ?? fetched.get(spec) ?? {}, architecture)) return `the package ${spec} is missing`
      excluded.add(spec)
    }
  }
  return null
}

/** Where yarn and pnpm keep what they have downloaded; yarn downloads packages for other systems too. */
export const downloads = '.berth-cache'

/**
 * Lists what is in `node_modules`, in the form of a lock file of npm, and for which systems the packages are that yarn has downloaded.
 * Without quotation marks of the shell. Whatever is odd counts as a package with a script: then the step runs among all files.
 */
const program = `
const { existsSync, readdirSync, readFileSync, writeFileSync } = require("node:fs")
const packages = {}, fetched = {}
const foldersIn = path => existsSync(path) ? readdirSync(path, { withFileTypes: true }).filter(one => one.isDirectory()).map(one => one.name) : []
const packagesIn = path => foldersIn(path).flatMap(name =>
  name.startsWith("@") ? foldersIn(path + "/" + name).map(own => name + "/" + own) : name.startsWith(".") ? [] : [name])
const manifestIn = path => { try { return Object(JSON.parse(readFileSync(path + "/package.json", "utf8").replace(/^\\ufeff/, ""))) } catch { return null } }
const list = modules => {
  for (const name of packagesIn(modules)) {
    const path = modules + "/" + name, manifest = manifestIn(path), scripts = Object(manifest?.scripts)
    const hasInstallScript = !manifest || existsSync(path + "/binding.gyp") || ["preinstall", "install", "postinstall"].some(one => one in scripts)
    packages[path] = { version: manifest?.version, ...(manifest && manifest.name !== name && { name: manifest.name }), ...(hasInstallScript && { hasInstallScript }) }
    list(path + "/node_modules")
  }
}
list("node_modules")
for (const name of foldersIn("node_modules/.pnpm")) list("node_modules/.pnpm/" + name + "/node_modules")
for (const at of foldersIn("${downloads}")) for (const entry of foldersIn("${downloads}/" + at)) {
  const modules = "${downloads}/" + at + "/" + entry + "/node_modules"
  for (const name of packagesIn(modules)) {
    const { version, os, cpu, libc } = manifestIn(modules + "/" + name) ?? {}
    fetched[name + "@" + version] = { os, cpu, libc }
  }
}
writeFileSync("node_modules/${packagesReport}", JSON.stringify({ lockfileVersion: 3, packages, fetched }))
`

/** Shell text that lists what yarn or pnpm has installed; where it fails there is no list. */
export const listInstalled = `{ node -e '${program}' || rm -f node_modules/${packagesReport}; }`
