import test from 'ava'
import { BoundedAudit, listAudit, recordAudit } from '../../db/audit.ts'
import type { Db } from '../../db/database.ts'
import { statementsOf } from '../kit/rows/plans-of.ts'
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

async function trimAll(db: Db, audit: BoundedAudit): Promise<number> {
  let all = 0
  for (let deleted = await audit.sweep(db); deleted > 0; deleted = await audit.sweep(db)) all += deleted
  return all
}

const uploads = (count: number): string[] => Array.from({ length: count }, () => 'objects.upload')

test.serial(
  'of an account’s entries the newest about objects are retained, and the newest of each other command',
  async t => {
    const { db } = await database
    const make = rows(db)
    const [ana, bob] = [await make.user(), await make.user()]
    const audit = new BoundedAudit({ objects: 3, command: 2 })
    const others = ['s3.credentials', 'account.apikey', 'objectsx', 'apps.create']
    await record(db, ana.id, [
      ...others,
      ...['objects.upload', 's3.PutObject', 'chunked.complete', 's3.DeleteObjects', 'objects.delete'],
    ])
    await record(db, bob.id, uploads(3))
    t.is(await trimAll(db, audit), 2)
    t.deepEqual(await actionsOf(db, ana.id), [...others, 'chunked.complete', 's3.DeleteObjects', 'objects.delete'])
    t.is((await actionsOf(db, bob.id)).length, 3)
    await record(db, ana.id, ['s3.CopyObject', 'apps.envs.merge', 'apps.envs.merge', 'apps.envs.merge'])
    await record(db, ana.id, ['account.apikey'])
    t.is(await trimAll(db, audit), 2, 'an object, and a change of variables')
    t.deepEqual(await actionsOf(db, ana.id), [
      ...others,
      ...[
        's3.DeleteObjects',
        'objects.delete',
        's3.CopyObject',
        'apps.envs.merge',
        'apps.envs.merge',
        'account.apikey',
      ],
    ])
    const [oldest] = await db('audit').where({ account_id: ana.id, action: 'apps.envs.merge' }).orderBy('id')
    t.is(oldest.resource, 'r2', 'the newest stay')
  },
)

test.serial('entries from before a restart are limited too, and those of a round whose count failed', async t => {
  const { db } = await database
  const ana = await rows(db).user()
  await record(db, ana.id, uploads(5))
  const audit = new BoundedAudit({ objects: 3, command: 3 })
  await trimAll(db, audit)
  t.is((await actionsOf(db, ana.id)).length, 3)
  await record(db, ana.id, uploads(2))
  const away = Object.assign(() => Promise.reject(new Error('away')), { raw: () => Promise.reject(new Error('away')) })
  await t.throwsAsync(audit.sweep(away as unknown as Db), { message: 'away' })
  t.is(await trimAll(db, audit), 2)
})

test.serial('an account whose entries cannot be deleted holds up no other', async t => {
  const { db } = await database
  const make = rows(db)
  const stuck = [await make.user(), await make.user()]
  const fine = await make.user()
  for (const { id } of [...stuck, fine]) await record(db, id, uploads(5))
  const ids = stuck.map(({ id }) => `'${id}'`).join()
  await db.raw(`create function never_deleted() returns trigger language plpgsql as $$
      begin raise exception 'too slow'; end $$;
    create trigger never_deleted before delete on audit for each row when (old.account_id in (${ids})) execute function never_deleted()`)
  const audit = new BoundedAudit({ objects: 3, command: 3 })
  for (const _ of stuck) await t.throwsAsync(trimAll(db, audit), { message: /too slow/ })
  await t.throwsAsync(trimAll(db, audit), { message: /too slow/ })
  t.is((await actionsOf(db, fine.id)).length, 3)
  await db.raw('drop trigger never_deleted on audit')
  t.is(await trimAll(db, audit), 4, 'nothing is forgotten')
})

test.serial('entries of one kind are found without reading newer ones of the account', async t => {
  const { db } = await database
  const ana = await rows(db).user()
  await record(db, ana.id, uploads(5))
  await db.raw(
    `insert into audit (account_id, actor, action, result) select ?, 'operator:noor', 'act.' || n % 5, 'success' from generate_series(1, 20000) n`,
    [ana.id],
  )
  await db.raw('analyze audit')
  const audit = new BoundedAudit({ objects: 3, command: 5000 })
  const statements = await statementsOf(() => audit.sweep(db))
  const finding = statements.filter(({ text }) => text.includes('offset'))
  t.is(finding.length, 6)
  for (const { text, values } of finding) {
    const explained = text.replaceAll(/\$\d+/g, '?')
    const { rows } = await db.raw(`explain (analyze, format text) ${explained}`, values as string[])
    t.notRegex(rows.map((row: object) => Object.values(row)[0]).join('\n'), /Removed by Filter|Sort/)
  }
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
