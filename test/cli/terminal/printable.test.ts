import test from 'ava'
import { headline, verdict } from '../../../cli/ops/ops-explanation.ts'
import { lineOf } from '../../../cli/ops/ops-words.ts'
import { guardTerminal, oneLine, printable } from '../../../cli/terminal/printable.ts'
import { columns } from '../../../cli/terminal/terminal.ts'
import type { OperationLine, OperationStory } from '../../../db/operations/operator.ts'

/** Sets the title, writes the clipboard, moves up a line, and changes the writing direction. */
const hostile =
  '\u001b]0;owned\u0007\u001b]52;c;ZXZpbA==\u0007\r\u001b[1A\u009b2J\u202eevil\u2028\nab12cd34 deploy, SUCCEEDED'
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/

test('control characters are removed, line ends and tabs stay', t => {
  t.notRegex(printable(hostile), controls)
  t.is(printable('a\tb\nGröße 船 😀'), 'a\tb\nGröße 船 😀')
  t.notRegex(oneLine(hostile), /[\n\t]/)
})

test('everything that a command prints is filtered', t => {
  const written: unknown[][] = []
  const console = {
    log: (...words: unknown[]) => written.push(words),
    error: (...words: unknown[]) => written.push(words),
  }
  guardTerminal(console)
  console.log(hostile, 7)
  console.error(`Error: ${hostile}`)
  t.is(written.length, 2)
  for (const words of written) t.notRegex(String(words[0]), controls)
  t.is(written[0]![1], 7)
})

test('a customer’s message stays on its line in a list, a table and an explanation', t => {
  const now = new Date()
  const line = { id: 'f'.repeat(32), kind: 'deploy', state: 'error', code: 'X', message: hostile, created_at: now }
  const operation = { ...line, target_id: 'a', finished_at: now }
  const story = { operation, deployment: null, app: { name: hostile } } as unknown as OperationStory
  const texts = [
    lineOf(line as OperationLine, now),
    headline(story),
    verdict(story, now),
    columns([['a', hostile]], ''),
  ]
  for (const text of texts) {
    t.notRegex(text, controls)
    t.false(text.includes('\n'), text)
    t.true(text.includes('evil'))
  }
})
