import { excludes } from './npm-result.ts'
import { objectOf } from './root-texts.ts'

/** A package in a lock file of yarn or pnpm. */
export interface LockedPackage {
  /** Name of its folder, which is another one than its own name where the project uses an alias. */
  name: string
  version: string
  /** Keys of the packages that it lists, as required or optional. */
  needs: readonly string[]
  /** Has `os`, `cpu` and `libc`; null where the lock file does not say for which systems a package is. */
  platform: Readonly<Record<string, unknown>> | null
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
  packages: Record<string, { version?: unknown; hasInstallScript?: boolean }>
  fetched: Record<string, Record<string, unknown>>
}

function reportIn(text: string | null): Report | null {
  const fields = objectOf(text)
  return fields && objectOf(JSON.stringify(fields.packages ?? null)) && objectOf(JSON.stringify(fields.fetched ?? null))
    ? (fields as unknown as Report)
    : null
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
  const made = reportIn(report)
  if (!made) return 'the step has left no list of what it has installed'
  const installed = new Map(
    Object.entries(made.packages).map(([path, { version, hasInstallScript }]) => {
      const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
      return [`${name}@${version}`, hasInstallScript === true]
    }),
  )
  const seen = new Set(needed)
  for (const key of seen) {
    const one = locked.get(key)
    if (!one) return `the lock file does not list ${key}`
    const spec = `${one.name}@${one.version}`
    if (one.mayBeUnbuilt && installed.get(spec)) return `the optional package ${spec} has a script that may have failed`
    if (installed.has(spec)) for (const next of one.needs) seen.add(next)
    else {
      const platform = one.platform ?? (Object.hasOwn(made.fetched, spec) ? made.fetched[spec]! : {})
      if (!excludes(platform, architecture)) return `the package ${spec} is missing`
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
