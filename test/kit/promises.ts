import { existsSync, readFileSync } from 'node:fs'

/** A test or bench that holds a promise; without a title the whole file does. */
export interface Named {
  file: string
  title: string | null
}

/** A promise of PROMISES.md: its number, what it says, and what is listed below it. */
export interface Listed {
  id: string
  promise: string
  heldBy: string
}

/** The promises of a text: each is a paragraph that begins with its number, with a list of what holds it. Lines are wrapped. */
export const promisesIn = (text: string): Listed[] =>
  [...text.matchAll(/^\*\*([A-Z]\d+)\*\* (.+?)\n\n((?:[- ] [^\n]+(?:\n|$))+)/gms)].map(([, id, promise, heldBy]) => ({
    id: id as string,
    promise: unwrapped(promise as string),
    heldBy: unwrapped(heldBy as string),
  }))

const unwrapped = (text: string): string => text.trim().replaceAll(/\s*\n\s*/g, ' ')

/** What a text names: files in backquotes, each followed by titles in quotes. */
export function namedIn(heldBy: string): Named[] {
  const named: Named[] = []
  let file = ''
  for (const [, path, title] of heldBy.matchAll(/`((?:test|bench)\/[\w./-]+)`|"([^"]+)"/g)) {
    if (path) {
      file = path
      named.push({ file, title: null })
    } else if (file) named.push({ file, title: title as string })
  }
  return named
}

/** Files that `./berth test` does not run: they are started by hand. */
export const isByHand = ({ file }: Named): boolean => /^(bench|test\/long)\//.test(file)

/** The commit that the last run by hand was of; undefined where the text does not say. */
export const lastRun = (heldBy: string): string | undefined =>
  /by hand, last run (?:of )?`?([0-9a-f]{7,40})\b/.exec(heldBy)?.[1]

/** Whether the file has a test of this title; `…` is what a template puts in. Hooks are no tests: they are skipped when a test fails. */
export function holds({ file, title }: Named): boolean {
  if (!existsSync(file)) return false
  if (title === null) return true
  const words = title
    .split('…')
    .map(part => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    .join('[^\\n]*')
  const named = new RegExp(`\\btest(?:\\.serial)?\\(\\s*(['"\`])${words}\\1`)
  const text = readFileSync(file, 'utf8')
  return (title === '…' && /\btest\(\w+,/.test(text)) || named.test(text)
}

const perSecond: Record<string, number[]> = {
  ms: [1],
  s: [1, 1000],
  second: [1, 1000],
  minute: [1, 60, 60_000],
  h: [1, 3600, 3_600_000],
  hour: [1, 3600, 3_600_000],
  day: [1, 86_400, 86_400_000],
  KB: [1, 1024],
  KiB: [1, 1024],
  MB: [1, 1024, 1024 ** 2],
  MiB: [1, 1024, 1024 ** 2],
  GB: [1, 1024, 1024 ** 2, 1024 ** 3],
  GiB: [1, 1024, 1024 ** 2, 1024 ** 3],
  '%': [1, 0.01],
}

/** Each number of a sentence with its values in other units that a test may use. 0, 1 and text in backquotes are left out. */
export function numbersPromised(sentence: string): number[][] {
  const plain = sentence.replace(/`[^`]*`|\[[^\]]*\]\([^)]*\)/g, ' ')
  const found = plain.matchAll(
    /(?<![\w.-]|RFC )(\d[\d,]*(?:\.\d+)?) ?(ms|[KMG]i?B|%|(?:second|minute|hour|day)|[sh]\b)?/g,
  )
  return [...found]
    .map(([, digits, unit]) => {
      const value = Number((digits as string).replaceAll(',', ''))
      return (perSecond[unit ?? ''] ?? [1]).map(factor => value * factor)
    })
    .filter(([value]) => value !== 0 && value !== 1)
}

const words = 'two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen'.split(' ')
const tens = 'twenty thirty forty fifty sixty seventy eighty ninety'.split(' ')

/** The numbers of a source text, in digits, as products of digits, and in words. */
export function numbersOf(text: string): Set<number> {
  const found = new Set<number>()
  const plain = text.replace(/(\d)[_,](?=\d{3})/g, '$1')
  for (const [digits] of plain.matchAll(/\d+(?:\.\d+)?(?: \*\*? \d+(?:\.\d+)?)*/g)) {
    const value = digits.split(' * ').reduce((product, factor) => {
      const [base = 1, power = 1] = factor.split(' ** ').map(Number)
      return product * base ** power
    }, 1)
    found.add(value)
    for (const factor of digits.split(/ \*\*? /)) found.add(Number(factor))
  }
  for (const [n, word] of words.entries()) if (new RegExp(`\\b${word}\\b`, 'i').test(text)) found.add(n + 2)
  for (const [n, word] of tens.entries()) if (new RegExp(`\\b${word}\\b`, 'i').test(text)) found.add((n + 2) * 10)
  for (const [, count, unit] of text.matchAll(/\b(\w+) (hundred|thousand)\b/gi)) {
    const least = words.indexOf((count as string).toLowerCase()) + 2
    found.add(Math.max(1, least) * (unit?.toLowerCase() === 'hundred' ? 100 : 1000))
  }
  return found
}
