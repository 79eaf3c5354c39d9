import test from 'ava'
import { headline, verdict } from '../../../cli/ops/ops-explanation.ts'
import { lineOf } from '../../../cli/ops/ops-words.ts'
import { guardTerminal, oneLine, printable } from '../../../cli/terminal/printable.ts'
import { columns } from '../../../cli/terminal/terminal.ts'
import type { OperationLine, OperationStory } from '../../../db/operations/operator.ts'

/** Sets the title, writes the clipboard, goes up a line, and turns the direction of what follows. */
const hostile =
  '\u001b]0;owned\u0007\u001b]52;c;ZXZpbA==\u0007\r\u001b[1A\u009b2J\u202eevil\u2028\nab12cd34 deploy, SUCCEEDED'
const steering = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/

test('nothing that steers a terminal is left, and lines and tabs stay', t => {
  t.notRegex(printable(hostile), steering)
  t.is(printable('a\tb\nGröße 船 😀'), 'a\tb\nGröße 船 😀')
  t.notRegex(oneLine(hostile), /[\n\t]/)
})

test('whatever a command prints goes through it', t => {
  const written: unknown[][] = []
  const console = {
    log: (...words: unknown[]) => written.push(words),
    error: (...words: unknown[]) => written.push(words),
  }
  guardTerminal(console)
  console.log(hostile, 7)
  console.error(`Error: ${hostile}`)
  t.is(written.length, 2)
  for (const words of written) t.notRegex(String(words[0]), steering)
  t.is(written[0]![1], 7)
})

test('a message of a customer stays on its line of a list, a table and a story', t => {
  const now = new Date()
  const line = { id: 'f'.repeat(32), kind: 'deploy', state: 'error', code: 'X', message: hostile, created_at: now }
  const operation = { ...line, target_id: 'a', finished_at: now }
  const story = { operation, deployment: null, app: { name: hostile } } as unknown as OperationStory
  const told = [lineOf(line as OperationLine, now), headline(story), verdict(story, now), columns([['a', hostile]], '')]
  for (const text of told) {
    t.notRegex(text, steering)
    t.false(text.includes('\n'), text)
    t.true(text.includes('evil'))
  }
})
