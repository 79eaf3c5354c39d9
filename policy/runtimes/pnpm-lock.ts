import type { LockedPackage, LockedPackages } from './locked-packages.ts'
import { maxLine, unquoted } from './root-texts.ts'

/** The packages of a lock file of pnpm 9 by the key of their snapshot, and the keys that the project itself needs, by kind. */
interface PnpmLock {
  packages: LockedPackages
  needs: ReadonlyMap<string, readonly string[]>
}

const refused = { because: 'pnpm-lock.yaml is not as pnpm 9 writes it, or lists more than packages of registries' }

/** Parses a lock file; or why what it lists is not known. */
export function pnpmPackages(text: string): PnpmLock | { because: string } {
  const root = treeOf(text)
  if (root?.get('lockfileVersion') !== '9.0' || [...root.keys()].some(name => !sections.has(name))) return refused
  const [importers, listed, snapshots] = [
    treeIn(root, 'importers'),
    treeIn(root, 'packages'),
    treeIn(root, 'snapshots'),
  ]
  if ([...importers.keys()].some(name => name !== '.')) return refused
  const packages = new Map<string, LockedPackage>()
  // Many snapshots may be of one package.
  const platforms = new Map([...listed.keys()].map(key => [key, platformOf(treeIn(listed, key))]))
  for (const key of snapshots.keys()) {
    const snapshot = treeIn(snapshots, key)
    const [, name = '', version = ''] = /^((?:@[^@/()]+\/)?[^@/()]+)@(\d[^():]*)(?:\(.+\))?$/.exec(key) ?? []
    const platform = platforms.get(`${name}@${version}`)
    if (!platform || [...snapshot.keys()].some(field => !snapshotFields.has(field))) return refused
    const needs = new Set(needLists.flatMap(list => needsIn(treeIn(snapshot, list))))
    packages.set(key, { name, version, needs, platform, isPinned: true, mayBeUnbuilt: snapshot.has('optional') })
  }
  const project = treeIn(importers, '.')
  const needs = [...project.keys()].map(list => {
    const tree = treeIn(project, list)
    return [
      list,
      needsIn(new Map([...tree.keys()].map(name => [name, treeIn(tree, name).get('version') ?? '']))),
    ] as const
  })
  return { packages, needs: new Map(needs) }
}

const sections: ReadonlySet<string> = new Set(['lockfileVersion', 'settings', 'importers', 'packages', 'snapshots'])
const needLists = ['dependencies', 'optionalDependencies']
const snapshotFields: ReadonlySet<string> = new Set([...needLists, 'optional', 'transitivePeerDependencies'])
const platformFields: ReadonlySet<string> = new Set(['os', 'cpu', 'libc'])
/** Fields of a package that neither say where it comes from nor for which system it is. */
const plainFields: ReadonlySet<string> = new Set([
  ...['engines', 'deprecated', 'hasBin', 'peerDependencies', 'peerDependenciesMeta', 'bundledDependencies'],
])
/** Of a registry, with a digest: an archive of another address, a commit and a folder have other fields. */
const fromRegistry = /^\{integrity: sha(?:1|256|384|512)-[\w+/=-]+(?:, tarball: https?:\/\/[^\s,{}]+)?\}$/

/** The systems that a package is for; null for one that does not come from a registry, or has a field that is not known. */
function platformOf(fields: Tree): Record<string, string[]> | null {
  const platform: Record<string, string[]> = {}
  const resolution = fields.get('resolution')
  if (typeof resolution !== 'string' || !fromRegistry.test(resolution)) return null
  for (const [field, value] of fields) {
    if (platformFields.has(field)) {
      if (typeof value !== 'string' || !/^\[.*\]$/.test(value)) return null
      platform[field] = value.slice(1, -1).split(', ').map(plain)
    } else if (field !== 'resolution' && !plainFields.has(field)) return null
  }
  return platform
}

/** The keys of snapshots in a list of names and versions; that of an alias is a key by itself. */
const needsIn = (list: Tree): string[] =>
  [...list].map(([name, version]) => (/^\d/.test(String(version)) ? `${name}@${version}` : String(version)))

interface Tree extends ReadonlyMap<string, string | Tree> {}

const treeIn = (tree: Tree, name: string): Tree => {
  const inner = tree.get(name)
  return inner === undefined || typeof inner === 'string' ? new Map() : inner
}

const plain = (text: string): string => unquoted(text, "'")
const named = /^((?: {2})*)('(?:[^']|'')+'|[^\s'":-][^\s'"]*):(?: (\S.*))?$/
/** Fields whose values may be lists, or texts of several lines, and do not matter. */
const skipped: ReadonlySet<string> = new Set([...plainFields, 'transitivePeerDependencies', 'settings'])

/** The few forms of YAML that pnpm writes: names with a value in the same line, or with more indented lines; null for anything else. */
function treeOf(text: string): Tree | null {
  const open: Map<string, string | Tree>[] = [new Map()]
  let skipsFrom = Number.POSITIVE_INFINITY
  for (const line of text.split(/\r?\n/)) {
    if (line.length > maxLine) return null
    const indent = line.search(/\S/)
    if (indent < 0 || indent >= skipsFrom) continue
    skipsFrom = Number.POSITIVE_INFINITY
    const [, , quotedName, value] = named.exec(line) ?? []
    const depth = indent / 2
    if (quotedName === undefined || !Number.isInteger(depth) || depth >= open.length) return null
    const name = plain(quotedName)
    open.length = depth + 1
    const into = open[depth]!
    // Which of two counts depends on the reader.
    if (into.has(name)) return null
    if (skipped.has(name) && depth !== 3) skipsFrom = indent + 1
    if (value === undefined) {
      const inner = new Map<string, string | Tree>()
      into.set(name, inner)
      open.push(inner)
    } else into.set(name, plain(value))
  }
  return open[0]!
}
