import test from 'ava'
import { deploymentLog } from '../../../activities/releases/deployment-log.ts'
import { readLogAfter } from '../../../db/deploys/deployment-history.ts'
import { appendLog, readLog } from '../../../db/deploys/deployments.ts'
import { deploymentLogs } from '../../../policy/apps/deployment-logs.ts'
import { newId } from '../../../policy/ids.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { rows as makeRows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

const limits = {
  flushMs: 5,
  pieceBytes: 1000,
  outputBytes: 5000,
  wholeBytes: 6000,
  lastCharacters: 200,
  bytesPerSecond: 1_000_000,
} as never

/** An in-memory log with the size limit of the real one. */
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

test('output is stored in order up to the size of the log, then only its last lines', async t => {
  const { rows, size, append } = logOf()
  const log = deploymentLog(append, limits)
  for (let n = 1; n <= 2000; n++) await log.add(`line ${n}\n`)
  await log.close()
  const text = rows.join('')
  t.true(text.startsWith('line 1\nline 2\nline 3\n'))
  t.regex(text, /line \d+\n\n\[\d+ bytes of output are left out\. The last lines:\]\n[\s\S]*line 1999\nline 2000\n$/)
  t.true(size() > 4000 && size() <= 6000, String(size()))
})

test('a producer waits for a slow database, and one that does not wait is cut', async t => {
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
  // Long enough for a producer that does not wait to continue.
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate)
  t.true(waited)
  t.is(written.length, 1, 'one is written at a time')
  answer(true)
  await first
  await comesTrue(async () => written.length === 2)
  t.true(written[1]!.length <= 2 * 1000 + 100, String(written[1]!.length))
  answer(true)
  const closed = log.close()
  await comesTrue(async () => written.length === 3)
  t.regex(written[2]!, /^\n\[99\d{4} bytes of output are left out/)
  answer(true)
  await closed
})

test('a failing database neither grows the memory nor fails the build, and is retried', async t => {
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

async function deployment() {
  const { db } = await database
  const make = makeRows(db)
  await make.host(`host-${newId()}`)
  const { app } = await make.app((await make.user()).id)
  const { id }: { id: string } = await db('deployments').where({ app_id: app.id }).first()
  const bytes = async () => {
    const sum = db('deployment_logs')
      .where({ deployment_id: id })
      .sum({ bytes: db.raw('octet_length(text)') })
    return Number((await sum.first())?.bytes)
  }
  return { db, id, bytes }
}

test('the stored log of a deployment is limited in bytes, over all attempts of a step', async t => {
  const { db, id, bytes } = await deployment()
  // Two bytes per character: the size is counted in bytes.
  const line = `${'é'.repeat(49)}\n`
  for (let attempt = 1; attempt <= 3; attempt++) {
    const log = deploymentLog((text, most) => appendLog(db, id, text, most), limits)
    for (let n = 0; n < 200; n++) await log.add(line)
    await log.add(`the end of attempt ${attempt}\n`)
    await log.close()
    t.true((await bytes()) <= 6000, `${await bytes()} bytes`)
    if (attempt === 1)
      t.regex(await readLog(db, id), /é\n\n\[\d+ bytes of output are left out.*\n(.*\n)*the end of attempt 1\n$/)
  }
  t.true((await bytes()) > 4000)
  t.true(await appendLog(db, id, 'x'.repeat(10), (await bytes()) + 10), 'what just fits is added')
  t.false(await appendLog(db, id, 'x', await bytes()))
  t.true((await readLog(db, id)).endsWith('xxxxxxxxxx'))
})

test('a piece of an older version that exceeds the size of a log is not read', async t => {
  const { db, id } = await deployment()
  const add = (seq: number, text: string) => db('deployment_logs').insert({ deployment_id: id, seq, text })
  await add(1, 'begun\n')
  await add(2, 'x'.repeat(deploymentLogs.wholeBytes + 1))
  t.is(await readLog(db, id), 'begun\n')
  t.deepEqual(
    (await readLogAfter(db, id, 0, 10_000_000)).map(({ text }) => text),
    ['begun\n'],
  )
})
