import test from 'ava'
import { deploymentLog } from '../../activities/deployment-log.ts'
import { until } from '../contracts/container-host.ts'

const limits = {
  flushMs: 5,
  pieceBytes: 1000,
  outputBytes: 5000,
  wholeBytes: 6000,
  lastCharacters: 200,
  bytesPerSecond: 1_000_000,
} as never

/** A log in memory with the rule of the real one. */
function logOf() {
  const rows: string[] = []
  const size = () => rows.join('').length
  return {
    rows,
    size,
    append: async (text: string, most: number) => {
      if (size() + text.length > most) return false
      rows.push(text)
      return true
    },
  }
}

test('output is kept in its order up to the size of the log, then its last lines only', async t => {
  const { rows, size, append } = logOf()
  const log = deploymentLog(append, limits)
  for (let n = 1; n <= 2000; n++) await log.add(`line ${n}\n`)
  await log.close()
  const text = rows.join('')
  t.true(text.startsWith('line 1\nline 2\nline 3\n'))
  t.regex(text, /line \d+\n\n\[\d+ bytes of output are left out\. The last lines:\]\n[\s\S]*line 1999\nline 2000\n$/)
  t.true(size() > 4000 && size() <= 6000, String(size()))
})

test('who prints waits for a database that is slow, and who does not wait is cut', async t => {
  const written: string[] = []
  let answer = (_: boolean) => {}
  const append = (text: string) => {
    written.push(text)
    return new Promise<boolean>(resolve => {
      answer = resolve
    })
  }
  const log = deploymentLog(append, limits)
  let waited = true
  const first = log.add('a'.repeat(1500)).then(() => {
    waited = false
  })
  for (let n = 0; n < 10_000; n++) void log.add('b'.repeat(100))
  // Long enough for whoever does not wait to go on.
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate)
  t.true(waited)
  t.is(written.length, 1, 'one is written at a time')
  answer(true)
  await first
  await until(async () => written.length === 2)
  t.true(written[1]!.length <= 2 * 1000 + 100, String(written[1]!.length))
  answer(true)
  const closed = log.close()
  await until(async () => written.length === 3)
  t.regex(written[2]!, /^\n\[99\d{4} bytes of output are left out/)
  answer(true)
  await closed
})

test('a database that refuses makes nothing grow and nobody fail; it is tried again', async t => {
  const { rows, append } = logOf()
  let tried = 0
  let longest = 0
  const away = async (text: string, most: number) => {
    longest = Math.max(longest, text.length)
    if (++tried <= 40) throw new Error('away')
    return append(text, most)
  }
  const log = deploymentLog(away, limits)
  for (let n = 0; n < 200; n++) await log.add(`${String(n).padStart(499, '.')}\n`)
  await log.add('the end\u0000\ud800\n')
  await log.close()
  t.true(longest <= 2500, String(longest))
  t.true(rows.join('').length <= 6000)
  t.regex(rows.join(''), /the end\ufffd\n/)
})
