import type { LockedPackage, LockedPackages } from './locked-packages.ts'
import { maxLine, unquoted } from './root-texts.ts'

const header = '# yarn lockfile v1'
const plain = (text: string): string => unquoted(text, '"')
/** An archive of a registry: no commit, for which yarn runs scripts of another folder, and no file. */
const archive = /^https?:\/\/[^\\]+\.tgz(?:#[0-9a-f]{40})?$/

/** One entry, in the form that yarn writes, which has no other. */
interface Entry {
  keys: string[]
  fields: Map<string, string>
  needs: Set<string>
}

/** The packages of a lock file of yarn 1, by the name and range that requests them; or why they are not known. */
export function yarnPackages(text: string): LockedPackages | { because: string } {
  const entries = entriesIn(text)
  if (!entries) return { because: 'yarn.lock is not as yarn 1 writes it' }
  const packages = new Map<string, LockedPackage>()
  for (const { keys, fields, needs } of entries) {
    const [version, resolved, integrity] = [fields.get('version'), fields.get('resolved'), fields.get('integrity')]
    if (!version || !resolved || !archive.test(resolved))
      return { because: `yarn.lock takes ${keys[0]} from something else than an archive of a registry` }
    const isPinned = /^sha(?:1|256|384|512)-/.test(integrity ?? '')
    const shared = { version, needs, platform: null, mayBeUnbuilt: false, isPinned }
    for (const key of keys) packages.set(key, { name: key.slice(0, key.indexOf('@', 1)), ...shared })
  }
  return packages
}

function entriesIn(text: string): Entry[] | null {
  const lines = text.split(/\r?\n/)
  if (!lines.slice(0, 5).includes(header)) return null
  const entries: Entry[] = []
  let isList = false
  for (const line of lines) {
    if (line.length > maxLine) return null
    if (line === '' || line.startsWith('#')) continue
    const entry = entries.at(-1)
    const [, indent = '', content = ''] = /^( *)(\S.*)$/.exec(line) ?? []
    if (indent === '' && content.endsWith(':')) {
      const keys = content.slice(0, -1).split(', ').map(plain)
      if (!keys.every(key => key.indexOf('@', 1) > 0)) return null
      entries.push({ keys, fields: new Map(), needs: new Set() })
      isList = false
    } else if (entry && indent.length === 2 && /^(?:optionalD|d)ependencies:$/.test(content)) isList = true
    else if (entry && indent.length === 2 && /^(?:version|resolved|integrity|uid) \S+$/.test(content)) {
      const at = content.indexOf(' ')
      entry.fields.set(content.slice(0, at), plain(content.slice(at + 1)))
      isList = false
    } else if (entry && isList && indent.length === 4 && /^\S+ \S/.test(content)) {
      const at = content.indexOf(' ')
      entry.needs.add(`${plain(content.slice(0, at))}@${plain(content.slice(at + 1))}`)
    } else return null
  }
  return entries
}
