import { archiveName } from './install-inputs.ts'
import { because, maxLine, type RootTexts } from './root-texts.ts'
import type { InstallInputs } from './runtime.ts'

// Tenants write this text, and the host reads it between its other work: each step below takes time in proportion to its length.

/** Lines as pip splits them, which are those of Python's `splitlines`. */
const pipLines = (text: string): string[] => text.split(/\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]/)

/** A line that starts with a comment: it never goes on in the next one. */
const isComment = (line: string): boolean => line.trimStart().startsWith('#')

/** Whether a list of requirements has comments and empty lines only. A line that goes on in the next is for pip to read. */
export const hasNoRequirement = (text: string): boolean =>
  pipLines(text).every(line => (line.trim() === '' || isComment(line)) && !line.endsWith('\\'))

/** Options that name a registry, or no file at all. */
const plainOptions =
  /^(?:(?:-i|--index-url|--extra-index-url)[= ]https?:\/\/\S+|--no-index|--pre|--prefer-binary|--require-hashes|--(?:no|only)-binary[= ][\w:.,-]+)$/
const isBinaryOption = (line: string): boolean => /^--(?:no|only)-binary/.test(line)
const allBinary = /^--only-binary[= ]:all:$/

/**
 * What `pip install -r requirements.txt` depends on. Pinned means that each line has one exact version and hashes, which pip then demands
 * of every package (otherwise packages that the listed ones require are of any version), and that nothing is built: tools for a build are
 * of any version.
 */
export function pythonInputs(texts: RootTexts): InstallInputs {
  const text = texts.get('requirements.txt')
  if (typeof text !== 'string') return because('requirements.txt cannot be read')
  const lines = joined(text)
  if (!lines) return because(`requirements.txt has a line of over ${maxLine} characters`)
  const plain = lines.map(withoutComment).filter(line => line !== '')
  const binary = plain.filter(isBinaryOption)
  let isPinned = binary.length > 0 && binary.every(line => allBinary.test(line))
  for (const line of plain) {
    if (plainOptions.test(line)) continue
    const requirement = requirementOf(line)
    if (!requirement) return because(`requirements.txt has a line that may name another file: ${line}`)
    if (archiveName.test(requirement.name)) return because(`requirements.txt takes ${requirement.name} from a file`)
    isPinned &&= requirement.isPinned
  }
  return { files: ['requirements.txt'], isPinned }
}

/** Lines as pip joins them: a comment ends a line that goes on in the next one. Null where one is too long to be looked into. */
function joined(text: string): string[] | null {
  const lines: string[] = []
  let open: string[] = []
  let length = 0
  for (const line of pipLines(text)) {
    length += line.length
    if (length > maxLine) return null
    const endsHere = !line.endsWith('\\') || isComment(line)
    open.push(endsHere ? (isComment(line) ? ` ${line}` : line) : withoutBackslashes(line))
    if (!endsHere) continue
    lines.push(open.join(''))
    open = []
    length = 0
  }
  return [...lines, open.join('')]
}

function withoutBackslashes(line: string): string {
  let [start, end] = [0, line.length]
  while (end > 0 && line[end - 1] === '\\') end--
  while (start < end && line[start] === '\\') start++
  return line.slice(start, end)
}

/** The line before its comment, with one blank for many. */
function withoutComment(line: string): string {
  let at = line.indexOf('#')
  while (at > 0 && line[at - 1] !== ' ' && line[at - 1] !== '\t') at = line.indexOf('#', at + 1)
  const text = at < 0 ? line : line.slice(0, at)
  return text.replace(/[ \t]+/g, ' ').trim()
}

const version = /^(?:===?|~=|!=|<=|>=|<|>) ?[\w.*+!-]+$/
const exact = /^===? ?[\w.+!-]+$/
const extras = /^\[[\w ,.-]*$/
const hash = /^--hash=(?:sha256|sha384|sha512):[0-9a-f]+$/
const alphanumeric = /^[A-Za-z0-9]$/

/** A requirement of a registry: name, extras, versions, conditions and hashes. Null for an option, a path or an address. */
function requirementOf(line: string): { name: string; isPinned: boolean } | null {
  const [whole, options] = cut(line, ' --')
  const hashes = options === null ? [] : `--${options}`.replaceAll('--hash ', '--hash=').split(' ')
  if (!hashes.every(option => hash.test(option))) return null
  const [requirement, condition] = cut(whole, ';')
  if (condition && /[#\\]| -/.test(condition)) return null
  const name = /^[\w.-]+/.exec(requirement)?.[0] ?? ''
  if (!alphanumeric.test(name[0] ?? '') || !alphanumeric.test(name.at(-1)!)) return null
  const versions = versionsAfter(requirement.slice(name.length).trim())
  if (!versions?.every(one => version.test(one))) return null
  return { name, isPinned: hashes.length > 0 && versions.length === 1 && exact.test(versions[0]!) }
}

/** The conditions for the version that follow a name and its extras; null for something else. */
function versionsAfter(text: string): string[] | null {
  let rest = text
  if (rest.startsWith('[')) {
    const [inside, after] = cut(rest, ']')
    if (after === null || !extras.test(inside)) return null
    rest = after.trim()
  }
  if (rest.startsWith('(') && rest.endsWith(')')) rest = rest.slice(1, -1).trim()
  const versions = rest.split(',').map(one => one.trim())
  // One comma may end the list.
  if (versions.at(-1) === '') versions.pop()
  return versions
}

/** The text before and after the first `mark`; null after it where there is none. */
function cut(text: string, mark: string): [string, string | null] {
  const at = text.indexOf(mark)
  return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + mark.length)]
}
