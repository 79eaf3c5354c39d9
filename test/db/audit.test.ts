import test from 'ava'
import { AuditedObjects, listAudit, recordAudit } from '../../db/audit.ts'
import type { Db } from '../../db/database.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()

/** Records these commands of an account, one after the other. */
async function record(db: Db, accountId: string, actions: readonly string[], actor = accountId): Promise<void> {
  for (const [n, action] of actions.entries())
    await recordAudit(db, { accountId, actor, action, resource: `r${n}`, result: 'success', operationId: null })
}

const actionsOf = async (db: Db, accountId: string): Promise<string[]> =>
  (await db('audit').where({ account_id: accountId }).orderBy('id')).map(({ action }) => action)

async function trimAll(db: Db, audited: AuditedObjects): Promise<number> {
  let all = 0
  for (let deleted = await audited.sweep(db); deleted > 0; deleted = await audited.sweep(db)) all += deleted
  return all
}

test('of an account’s entries about objects the newest are retained, and all of its others', async t => {
  const { db } = await database
  const make = rows(db)
  const [ana, bob] = [await make.user(), await make.user()]
  const audited = new AuditedObjects(3)
  t.is(await trimAll(db, audited), 0)
  const others = ['s3.credentials', 'account.apikey', 'objectsx', 'apps.create']
  await record(db, ana.id, [
    ...others,
    'objects.upload',
    's3.PutObject',
    'chunked.complete',
    's3.DeleteObjects',
    'objects.delete',
  ])
  await record(db, bob.id, ['objects.upload', 'objects.upload', 'objects.upload'])
  t.is(await trimAll(db, audited), 2)
  t.deepEqual(await actionsOf(db, ana.id), [...others, 'chunked.complete', 's3.DeleteObjects', 'objects.delete'])
  t.is((await actionsOf(db, bob.id)).length, 3)
  await record(db, ana.id, ['s3.CopyObject'])
  t.is(await trimAll(db, audited), 1)
  t.deepEqual((await actionsOf(db, ana.id)).slice(-3), ['s3.DeleteObjects', 'objects.delete', 's3.CopyObject'])
})

test('an account lists what it did and what was done to its resources, each entry once, page by page', async t => {
  const { db } = await database
  const make = rows(db)
  const [ana, bob] = [await make.user(), await make.user()]
  await record(db, ana.id, ['own', 'own'])
  await record(db, ana.id, ['to hers'], bob.id)
  await record(db, bob.id, ['to his'], ana.id)
  await record(db, bob.id, ['not hers'])
  const list = async (page: object = {}) => listAudit(db, ana.id, { days: 1, limit: 10, ...page })
  const all = await list()
  t.deepEqual(
    all.map(({ action }) => action),
    ['to his', 'to hers', 'own', 'own'],
  )
  t.deepEqual(await list({ limit: 2 }), all.slice(0, 2))
  t.deepEqual(await list({ limit: 2, before: all[1]!.id }), all.slice(2))
  t.deepEqual(await list({ resources: ['r1'] }), [all[2]!])
  t.deepEqual(await list({ days: 0 }), [])
})
