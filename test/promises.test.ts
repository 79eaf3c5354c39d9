import { existsSync, readFileSync } from 'node:fs'
import test from 'ava'

interface Named {
  file: string
  title: string | null
}

/** What one row names: files in backquotes, each followed by titles in quotes. */
function namedIn(row: string): Named[] {
  const held = row.split(' | ').at(-1) ?? ''
  const named: Named[] = []
  let file = ''
  for (const [, path, title] of held.matchAll(/`((?:test|bench)\/[\w./-]+)`|"([^"]+)"/g)) {
    if (path) {
      file = path
      named.push({ file, title: null })
    } else if (file) named.push({ file, title: title as string })
  }
  return named
}

/** Whether the file has a test of this title; `…` is what a template puts in. */
function holds({ file, title }: Named): boolean {
  if (!existsSync(file)) return false
  if (title === null) return true
  const words = title
    .split('…')
    .map(part => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    .join('[^\\n]*')
  const named = new RegExp(`\\btest(?:\\.\\w+)*\\(\\s*(['"\`])${words}\\1`)
  const inVariable = title === '…' && /\btest\(\w+,/.test(readFileSync(file, 'utf8'))
  return inVariable || named.test(readFileSync(file, 'utf8'))
}

const rows = readFileSync('PROMISES.md', 'utf8')
  .split('\n')
  .filter(line => /^\| [A-Z]\d+ \|/.test(line))

test('every promise has a number and names a test or bench that exists, or says that it is open', t => {
  t.true(rows.length > 40)
  for (const row of rows) {
    const [, id, promise] = row.split('|').map(cell => cell.trim())
    t.regex(promise ?? '', /\d/, `${id} has no number`)
    t.true(row.includes('**open**') || namedIn(row).length > 0, `${id} is neither held nor open`)
    for (const named of namedIn(row)) t.true(holds(named), `${id}: ${named.file} "${named.title}"`)
  }
})

test('the rule sees what it must see', t => {
  t.true(holds({ file: 'test/promises.test.ts', title: 'the rule sees what it must see' }))
  t.false(holds({ file: 'test/promises.test.ts', title: 'the rule sees' }))
  t.false(holds({ file: 'test/nowhere.test.ts', title: null }))
})
