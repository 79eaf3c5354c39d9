import test from 'ava'
import { pino } from 'pino'
import { accept } from '../../../api/pipeline/acceptance.ts'
import { openDatabase } from '../../../db/database.ts'
import { enqueueOperation } from '../../../db/operations/operations.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { storing } from '../../kit/crash/commit-kit.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'
import { postgresLine } from '../../kit/servers/postgres-line.ts'

const database = testDatabase()

test('a commit that arrives after its refusal is undone immediately by the process that refused it', async t => {
  t.timeout(180_000)
  const base = await database
  const line = await postgresLine(base.url)
  const db = openDatabase({ url: line.url, pool: 4, statementTimeoutMs: 1000 })
  t.teardown(async () => {
    await db.destroy()
    await line.close()
  })
  const make = rows(base.db)
  await make.host('h1', { memoryMb: 1_000_000 })
  const { id: ownerId } = await make.user()
  const { app } = await make.app(ownerId)
  const stored = () => base.db('operations').where({ target_id: app.id, kind: 'stop' })

  let [looked, removed] = [0, 0]
  db.on('query-response', (_, { sql }: { sql: string }) => {
    if (/^select "kind", "target_type", "target_id" from "operations"/.test(sql)) looked++
    if (/^delete from "operations"/.test(sql)) removed++
  })
  const sprung = line.trap({ ...storing('stop'), manner: 'held', loss: 'lost' })
  const request = { targetId: app.id, kind: 'stop', ownerId, actor: ownerId, accepting: true } as const
  const asked = accept({ db, log: pino({ level: 'silent' }) }, async trx => ({
    operationId: (await enqueueOperation(trx, request)).id,
  }))
  await Promise.all([sprung, t.throwsAsync(asked)])
  // The first look finds nothing: the commit has not arrived.
  await comesTrue(() => looked === 1)
  t.deepEqual([removed, await stored()], [0, []])
  await line.release()
  await comesTrue(() => removed === 1)
  await comesTrue(async () => (await stored()).length === 0)
})
